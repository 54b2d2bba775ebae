"""ρ̂ = π/b̂ at the logged actions, with the behaviour cloned around the target, so that equal policies give 1.

Gaussian targets: z = (a - mean_π(s))/std_π(s), taken before squashing, is standard normal where π acted; the behaviour
is a Gaussian in z whose mean is regressed on the state, see `gaussian.py`. Other densities: the same in standardised
actions. Discrete actions: b̂(a|s) ∝ exp(θ_a(s) + β·log π(a|s)), which is π for θ = 0 and β = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ope_vpm.arrays import Bools, Floats, Integers, chunks
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope.adapter.encoding import StateFeatures
from ope_vpm.ope.adapter.pair_features import state_encoder
from ope_vpm.ope.behaviour.clone import Clone
from ope_vpm.ope.behaviour.gaussian import Design, Draws, fit_clone
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

CAP = 50.0
"""Of the ratio once it is scaled to mean 1: beyond it a few rows of 10,000 would decide (docs/evaluation.md)."""
LARGEST_LOG = 50.0
"""Of a ratio before it is scaled: e^50 does not overflow in a sum, and is far beyond any cap."""
WAVES = 100
"""Random Fourier features that the clone may use beside the state itself: a quarter of vpm's own, for b̂ is smoother
than a ratio of state distributions, and these features are the largest thing in memory."""
LEAST_PROBABILITY = 1e-6
"""Of the target, before its logarithm is a regressor: actions that it never takes must not have an infinite one."""
PENALTY = 1e-3
"""Of θ² in the mean log-likelihood, the constant excepted: with as many features as states nothing else bounds θ."""
ITERATIONS = 100
"""Of L-BFGS at most: the problem is convex, and about as many bring 300 parameters to its tolerance."""


@dataclass(frozen=True)
class ActionRatio:
    """ρ̂ = π/b̂ at each logged row."""

    ratio: Floats
    """(n,): scaled to mean 1, then capped."""
    overlap: float
    """The mean before scaling: 1 where the log holds what the target does, near 0 where it does not."""
    held_out_log_likelihood: float
    """Of the clone of b, per action, in units of z = (a - mean)/std (Gaussian targets) or of the actions."""

    @classmethod
    def of_logs(cls, log_ratio: Floats, likelihood: float, cap: float = CAP) -> ActionRatio:
        """From log π - log b̂ of each row and the clone's held-out log-likelihood."""
        raw = np.exp(np.minimum(log_ratio, LARGEST_LOG))
        mean = float(raw.mean())
        scaled = raw / mean if mean > 0 else raw
        return cls(np.minimum(scaled, cap), mean, likelihood)


def action_ratio(problem: Problem) -> ActionRatio:
    """The ratio to a clone of the behaviour around the target, shared by the estimators that use it."""
    return problem.of_policy(_action_ratio, problem.seed)


def ratio_power(problem: Problem, power: float) -> Floats:
    """ρ̂ to a power, scaled to mean 1: one array for all discounts, so that they share what is computed from it."""
    return problem.of_policy(_ratio_power, power, problem.seed)


def _ratio_power(log: Log, policy: TargetPolicy, power: float, seed: int) -> Floats:
    weight = log.memory_of(policy).recall(_action_ratio, seed)(log, policy).ratio ** power
    scaled: Floats = weight / weight.mean()
    return scaled


def known_overlap(problem: Problem) -> float | None:
    """How much of what the target does the log holds, at most 1; None without densities."""
    return min(action_ratio(problem).overlap, 1.0) if problem.policy.has_log_prob else None


def _action_ratio(log: Log, policy: TargetPolicy, seed: int) -> ActionRatio:
    log_target, behaviour = clone_around_target(log, policy, seed)
    return ActionRatio.of_logs(log_target - behaviour.log_prob, behaviour.held_out_log_likelihood)


def clone_around_target(log: Log, policy: TargetPolicy, seed: int) -> tuple[Floats, Clone]:
    """Log π of each logged action, and the clone of the behaviour in the same units."""
    data, design = log.data, log.shared(_design, seed)
    if data.discrete_actions:
        features = np.concatenate([part for _, part in design.batches()])
        fitted = categorical_clone(policy.probabilities(data.observations), data.actions, features, log.held_out)
        return policy.log_likelihood(data.observations, data.actions), fitted
    draws, log_target = _draws(log, policy)
    return log_target, fit_clone(draws, design, log.held_out, data.episode)


def _draws(log: Log, policy: TargetPolicy) -> tuple[Draws, Floats]:
    """The logged actions in units of the target, and log π of each; the policy is asked about some rows at a time."""
    data, scale = log.data, Standardiser.fit(log.data.actions)
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


def categorical_clone(probabilities: Floats, actions: Integers, features: Floats, held_out: Bools) -> Clone:
    """The clone b̂(a|s) ∝ exp(θ_a(s) + β·log π(a|s)), with θ linear in the features, and β free.

    Args:
        probabilities: the target's, (n, actions).
        actions: the logged ones.
        features: (n, D), a constant first.
        held_out: rows that only report the fit.
    """
    log_target = torch.from_numpy(np.log(np.maximum(probabilities, LEAST_PROBABILITY)))
    chosen, x = torch.from_numpy(np.array(actions)), torch.from_numpy(features)
    theta = torch.zeros((features.shape[1], probabilities.shape[1]), dtype=torch.float64)
    beta = torch.ones((), dtype=torch.float64)
    train = torch.from_numpy(~held_out if (~held_out).any() else held_out)
    x_train, log_train, chosen_train = x[train], log_target[train], chosen[train, None]
    optimiser = torch.optim.LBFGS([theta, beta], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        """The penalised mean of -log b̂, whose gradients are set by hand: five times as fast as by autograd."""
        logs = torch.log_softmax(x_train @ theta + beta * log_train, dim=1)
        picked = logs.gather(1, chosen_train)
        surplus = logs.exp().scatter_add(1, chosen_train, -torch.ones_like(picked)) / len(x_train)
        theta.grad = x_train.T @ surplus
        theta.grad[1:] += 2 * PENALTY * theta[1:]
        beta.grad = (surplus * log_train).sum()
        return -picked.mean() + PENALTY * theta[1:].square().sum()

    with torch.no_grad():
        optimiser.step(loss)  # type: ignore[no-untyped-call]
        fitted = torch.log_softmax(x @ theta + beta * log_target, dim=1).gather(1, chosen[:, None])[:, 0].numpy()
    return Clone(fitted, float(fitted[held_out].mean()) if held_out.any() else float("nan"))


def _design(log: Log, seed: int) -> Design:
    """Features of the state of every row, which all targets share."""
    features = StateFeatures.draw(log.data, WAVES, seed, encoder=log.shared(state_encoder))
    return Design.of_states(features, log.data.observations)
