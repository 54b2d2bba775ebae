"""ρ̂ = π/b̂ at the logged actions, with the behaviour cloned around the target, so that equal policies give 1.

Gaussian targets: z = (a - mean_π(s))/std_π(s), taken before squashing, is standard normal where π acted; the behaviour
is a Gaussian in z whose mean is regressed on the state, see `gaussian.py`. Other densities: the same in standardised
actions. Discrete actions: b̂(a|s) ∝ exp(θ_a(s) + β·log π(a|s)), which is π for θ = 0 and β = 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Array, Floats, chunks
from ope_vpm.linear.features import Standardiser
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.given import Behaviour, state_encoder
from ope_vpm.ope.adapter.pair_features import PairFeatures
from ope_vpm.ope.adapter.pair_stream import Pairs
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.behaviour.categorical import CategoricalClone, fit_categorical
from ope_vpm.ope.behaviour.gaussian import CloneRows, GaussianClone, fit_gaussians
from ope_vpm.ope.behaviour.rows import Design, Draws
from ope_vpm.ope.log import Log, Precision
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

CAP = 50.0
"""The largest ratio, scaled to mean 1: beyond it a few rows of 10,000 would decide (note 001)."""
LARGEST_LOG = 50.0
"""The largest log ratio before scaling: e^50 does not overflow in a sum, and is far beyond any cap."""
FOURIER = 100
"""Random Fourier features that the clone may use beside the state itself: a quarter of vpm's own, for b̂ is smoother
than a ratio of state distributions, and these features are the largest thing in memory."""

RARE = 0.01
"""The share of the logged actions that are less likely than what counts as held: of Gaussian ones, those more than 2.6
deviations away from their mean."""


@dataclass(frozen=True)
class ActionRatio:
    """ρ̂ = π/b̂ at each logged row."""

    ratio: Floats
    """(n,): scaled to mean 1, then capped."""
    overlap: float
    """The mean before scaling: 1 where the log holds what the target does, near 0 where it does not."""
    held_out_log_likelihood: float
    """The clone's, per action, in units of z = (a - mean)/std (Gaussian targets) or of the actions."""

    @classmethod
    def of_logs(cls, log_ratio: Floats, likelihood: float, cap: float = CAP) -> ActionRatio:
        """The ratio from log π - log b̂ of each row and the clone's held-out log-likelihood."""
        raw = np.exp(np.minimum(log_ratio, LARGEST_LOG))
        mean = float(raw.mean())
        scaled = raw / mean if mean > 0 else raw
        return cls(np.minimum(scaled, cap), mean, likelihood)


def action_ratio(problem: Problem) -> ActionRatio:
    """The ratio to the behaviour, or to a clone of it around the target, shared by the estimators that use it."""
    return _action_ratio(problem.log, problem.policy, problem.seed, problem.behaviour)


def ratio_model(problem: Problem) -> RatioModel | ActionRatio:
    """The ratio π/b̂ as a function of logged rows, fitted to the log's sample; of a known behaviour, at each row."""
    if problem.behaviour != "cloned":
        return action_ratio(problem)
    return _ratio_model(problem.log, problem.policy, problem.seed)


def weighted_pairs(problem: Problem, pairs: Pairs, power: float) -> Pairs:
    """Features of pairs, each row weighted by ρ̂ to a power, scaled to mean 1.

    One array, or one function, for all discounts, so that they share what is computed from it.
    """
    log, policy, seed = problem.log, problem.policy, problem.seed
    if isinstance(pairs, PairFeatures):
        return pairs.weighted(_ratio_power(log, policy, power, seed, problem.behaviour))
    return replace(pairs, recipe=pairs.recipe.weighted(_ratio_weighting(log, policy, power, seed)))


@remembered
def _ratio_power(log: Log, policy: TargetPolicy, power: float, seed: int, behaviour: Behaviour) -> Floats:
    if log.sample is not log and behaviour == "cloned":
        return _ratio_weighting(log, policy, power, seed)(log.data, policy)
    weight = _action_ratio(log, policy, seed, behaviour).ratio ** power
    return weight / weight.mean()


@dataclass(frozen=True, eq=False)
class RatioWeighting:
    """ρ̂ to a power as weights of rows, of mean 1 over the sample."""

    model: RatioModel
    power: float
    mean: float

    def __call__(self, data: LoggedDataset, policy: TargetPolicy) -> Floats:
        """(n,): the weight of each row."""
        return self.model.ratio(data, policy) ** self.power / self.mean


@remembered
def _ratio_weighting(log: Log, policy: TargetPolicy, power: float, seed: int) -> RatioWeighting:
    sampled = _action_ratio(log.sample, policy, seed, "cloned")
    return RatioWeighting(_ratio_model(log, policy, seed), power, float(np.mean(sampled.ratio**power)))


def known_overlap(problem: Problem) -> float | None:
    """How much of what the target does the log holds, at most 1; None for discrete actions without probabilities."""
    if problem.policy.has_log_prob:
        return min(ratio_model(problem).overlap, 1.0)
    return None if problem.data.discrete_actions else _held_actions(problem.log, problem.policy, problem.seed)


def held_actions(problem: Problem) -> float | None:
    """The share of a target's actions that were logged.

    Those as likely as all but 1 % of the logged ones, and discrete ones that some logged step took, in whatever state.
    A mean of ratios over logged actions does not show what was never logged. None for targets without densities, whose
    `known_overlap` it is.
    """
    if not problem.policy.has_log_prob:
        return None
    if problem.data.discrete_actions:
        return _tried_actions(problem.log, problem.policy)
    return _held_actions(problem.log, problem.policy, problem.seed)


@remembered
def _tried_actions(log: Log, policy: TargetPolicy) -> float:
    """The probability, in logged states, of discrete actions that some step of the log's sample took."""
    data = log.sample.data
    taken = np.unique(data.actions).astype(int)
    if policy.n_actions is not None and len(taken) == policy.n_actions:
        return 1.0
    return float(np.mean(policy.probabilities(data.observations)[:, taken].sum(axis=1)))


@remembered
def _held_actions(log: Log, policy: TargetPolicy, seed: int) -> float:
    """The share of the target's actions, in logged states, that are as likely as all but 1 % of the logged ones.

    The behaviour is cloned as a Gaussian around the target's mean action, and the target's actions are looked at by the
    clone: those that are less likely than nearly all logged ones were not logged, whatever a smooth Q says of them.

    Args:
        log: a log with continuous actions, of which the sample is looked at.
        policy: the target.
        seed: of the target's draws.
    """
    log, rng = log.sample, np.random.default_rng(seed)
    data, rows = log.data, _clone_rows(log, seed)
    mean, drawn = np.empty(data.actions.shape), np.empty(data.actions.shape)
    seen = data.observations[log.rows]  # in the canonical order, so that draws do not depend on that of the log
    mean[log.rows] = policy.action_moments(seen, rng)[0]
    drawn[log.rows] = policy.sample(seen, rng)
    scale = Standardiser.fit(data.actions)

    def around_target(actions: Array) -> Draws:
        return Draws.unclipped(scale(policy.clipping.clip(actions)) - scale(mean))

    clone, logged = fit_gaussians(around_target(data.actions), rows)
    of_target = clone.log_density(around_target(drawn), rows.design)
    return float(np.mean(of_target >= np.quantile(logged, RARE)))


@dataclass(frozen=True, eq=False)
class RatioModel:
    """ρ̂ as a function of logged rows: the clone that was fitted to the log's sample, and its scale there."""

    clone: GaussianClone | CategoricalClone
    features: StateFeatures
    """The features that the clone is linear in."""
    scale: Standardiser
    """The scale of the actions, for targets that are not Gaussian."""
    overlap: float
    """The mean of π/b̂ over the sample."""
    precision: Precision
    """The precision of the features."""

    def log_ratio(self, data: LoggedDataset, policy: TargetPolicy) -> Floats:
        """(n,): log π - log b̂ at each row."""
        design = Design.of_states(self.features, data.observations, self.precision)
        if isinstance(self.clone, CategoricalClone):
            return self.clone.log_ratio(data, policy, _all_features(design))
        draws, log_target = _draws(data, policy, self.scale)
        return log_target - self.clone.log_density(draws, design)

    def ratio(self, data: LoggedDataset, policy: TargetPolicy, cap: float = CAP) -> Floats:
        """(n,): scaled to mean 1 over the sample, then capped; the policy is asked about some rows at a time."""
        out = np.empty(len(data))
        for rows in chunks(len(data), of=[data.observations]):
            raw = np.exp(np.minimum(self.log_ratio(_rows(data, rows), policy), LARGEST_LOG))
            out[rows] = np.minimum(raw / self.overlap if self.overlap > 0 else raw, cap)
        return out

    @property
    def held_out_log_likelihood(self) -> float:
        """The clone's mean log-likelihood per action, over episodes of the sample that were not fitted."""
        return self.clone.held_out_log_likelihood


def _rows(data: LoggedDataset, rows: slice) -> LoggedDataset:
    """Rows of a log as columns: neither their episodes nor what follows matters here."""
    if rows.start == 0 and rows.stop == len(data):
        return data
    states, actions = data.observations[rows], data.actions[rows]
    return LoggedDataset.from_arrays(states, actions, np.zeros(len(states)))


def _all_features(design: Design) -> Floats:
    return np.concatenate([part for _, part in design.batches()])


@remembered
def _action_ratio(log: Log, policy: TargetPolicy, seed: int, behaviour: Behaviour) -> ActionRatio:
    known = known_log_prob(log.data, behaviour)
    if known is not None:
        return ActionRatio.of_logs(policy.log_likelihood(log.data.observations, log.data.actions) - known, float("nan"))
    if log.sample is not log:
        model = _ratio_model(log, policy, seed)
        return ActionRatio(model.ratio(log.data, policy), model.overlap, model.held_out_log_likelihood)
    clone, log_ratio = _fitted(log, policy, seed)
    return ActionRatio.of_logs(log_ratio, clone.held_out_log_likelihood)


@remembered
def _ratio_model(log: Log, policy: TargetPolicy, seed: int) -> RatioModel:
    sample = log.sample
    clone, _ = _fitted(sample, policy, seed)
    overlap = _action_ratio(sample, policy, seed, "cloned").overlap
    scale = Standardiser.fit(sample.data.actions)
    return RatioModel(clone, _clone_features(sample, seed), scale, overlap, log.precision)


@remembered
def _fitted(log: Log, policy: TargetPolicy, seed: int) -> tuple[GaussianClone | CategoricalClone, Floats]:
    """The clone of the behaviour, and log π - log b̂ of each logged action."""
    data, rows = log.data, _clone_rows(log, seed)
    if data.discrete_actions:
        features = _all_features(rows.design)
        clone = fit_categorical(policy.probabilities(data.observations), data.actions, features, log.held_out)
        return clone, clone.log_ratio(data, policy, features)
    draws, log_target = _draws(data, policy, Standardiser.fit(data.actions))
    fitted, logs = fit_gaussians(draws, rows)
    return fitted, log_target - logs


def _draws(data: LoggedDataset, policy: TargetPolicy, scale: Standardiser) -> tuple[Draws, Floats]:
    """The logged actions in units of the target, and log π of each; the policy is asked about some rows at a time."""
    z, log_target = np.empty(data.actions.shape), np.empty(len(data))
    below, above = (np.zeros(z.shape, dtype=np.bool_) for _ in range(2))
    for rows in chunks(len(data), of=[data.observations]):
        observations, actions = data.observations[rows], data.actions[rows]
        score = policy.score(observations, actions)
        if score is None:
            z[rows] = scale(actions)
            log_target[rows] = policy.log_likelihood(observations, actions) + np.log(scale.std).sum()
        else:
            z[rows] = score
            below[rows], above[rows] = policy.clipping.at_bounds(actions)
            part = Draws(z[rows], below[rows], above[rows])
            log_target[rows] = part.log_density(np.zeros_like(score), np.ones(score.shape[1]))
    return Draws(z, below, above), log_target


@remembered
def _clone_rows(log: Log, seed: int) -> CloneRows:
    """The rows with features of their states, which all targets share."""
    design = Design.of_states(_clone_features(log, seed), log.data.observations)
    return CloneRows(design, log.held_out, log.data.episode)


@remembered
def _clone_features(log: Log, seed: int) -> StateFeatures:
    return StateFeatures.draw(log.data, FOURIER, seed, encoder=state_encoder(log))


def known_log_prob(data: LoggedDataset, behaviour: Behaviour) -> Floats | None:
    """Log b of each logged action, as it was logged or by the policy that acted; None where it has to be cloned.

    Args:
        data: the log.
        behaviour: as `checked_behaviour` returns it. A logged action that a policy never takes shows that another one
            acted, and is refused.
    """
    if isinstance(behaviour, str):
        return data.behaviour_log_prob if behaviour == "logged" else None
    found: Floats = behaviour.log_likelihood(data.observations, data.actions)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise ValueError(
            f"a behaviour policy must be able to take every logged action: that of row {row} has probability 0 "
            "(is it the policy that logged the data?)"
        )
    return found
