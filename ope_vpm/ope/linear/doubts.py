"""Doubts about an estimate that is linear in features: what the features miss, and what its Bellman residuals say.

An influence function knows the sampling error of a linear estimate and nothing of its bias: what the value depends on
may be missing in the observations, or the features may not follow how outcomes depend on the action. A bias is
E[(τ - τ*)·δ], δ the Bellman residual: at most about B = sd(τ)·|δ|, for a ratio that is wrong altogether. What the
past predicts of δ (`ope_vpm.ope.linear.past`) or other functions of state and action do says how much of that is to be
feared.

The value is off by E[δ] over the target's own steps, exactly. Where features cannot follow how rewards and next states
depend on the action, δ has a mean there that is not 0, and a regression of δ on other functions of (s, a) finds it:
see `Missed`. Importance weights would need no such functions, but a target without noise has none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import ROUNDING, Array, Floats, Integers
from ope_vpm.linear.passes import apply
from ope_vpm.linear.system import Halves
from ope_vpm.ope.adapter.action_functions import NEAR, action_functions, nearness
from ope_vpm.ope.adapter.pair_features import PairFeatures
from ope_vpm.ope.inference.doubts import MISSED, PAST, Doubts
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.returns import Estimate
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.linear.estimate import LinearEstimate, Missed, charged_residual
from ope_vpm.ope.linear.past import FARTHEST, MOST_COORDINATES, MOST_NUMBERS, History, history
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem

JOINT_FOURIER, LEAST_FOURIER = 200, 20
"""Cosines of state and action together, and how few of them are not worth asking."""
SLOW = 0.3
"""A factor of the state's frequencies in half of these Fourier features, which vary with the action above all."""
ROWS_PER_REGRESSOR = 20
"""Steps for each regressor at least: what they fit of the noise is then a small part of it."""
MISSED_RIDGES = (1e-3, 1e-2, 1e-1)
"""In units of each regressor's mean square; held-out episodes choose."""
MISSED_DRAWS = 2
"""Target actions in each state: the mean over thousands of states has little of their noise."""
USUAL = 0.68
"""The quantile of |δ| that stands for its standard deviation, which a few falls of a robot would decide."""


def with_feature_doubt(estimate: LinearEstimate) -> LinearEstimate:
    """Add to an estimate, and to its return, the doubts that its Bellman residuals raise.

    Args:
        estimate: the value, with an influence function.
    """
    if without_error(estimate.equations, estimate):
        return estimate
    doubt, of_return = row_doubt(estimate.equations, *sample_rows(estimate)), None
    if estimate.per_episode is not None:
        of_return = row_doubt(estimate.equations, *sample_rows(estimate.per_episode))
    return replace(with_doubts(estimate, doubt, of_return), missed=doubt.missed)


def without_error(equations: PairEquations, found: RawEstimate) -> bool:
    """Whether there is no error that doubts could be added to."""
    return found.sums is None or equations.problem.data.n_episodes < 2 or not np.isfinite(found.value)


def with_doubts(found: Estimate, doubt: RowDoubt, of_return: RowDoubt | None) -> Estimate:
    """The estimate, and its return, with what their rows say; None where that of the return is not known."""
    per_episode = found.per_episode
    if per_episode is not None and of_return is not None:
        per_episode = per_episode.doubted(of_return.doubts)
    diagnostics = {**found.diagnostics, **doubt.numbers}
    return replace(found.doubted(doubt.doubts), per_episode=per_episode, diagnostics=diagnostics)


def row_doubt(equations: PairEquations, tau: Floats, residual: Floats) -> RowDoubt:
    """B, what the past predicts, and what the features miss, from τ and δ of the sample's rows."""
    sampled = equations.on_sample
    if np.abs(residual).max(initial=0.0) <= ROUNDING * sampled.problem.data.reward_facts.size:
        residual = np.zeros_like(residual)  # equal rewards leave rounding errors, of which features miss nothing
    return RowDoubt(ratio_error_bound(tau, residual), history(sampled, residual), missed(sampled, tau, residual))


@dataclass(frozen=True)
class RowDoubt:
    """Evidence against an estimate from the ratio τ and the Bellman residual δ of its rows."""

    bound: float
    """B = sd(τ)·q₆₈|δ|."""
    history: History
    """What the past predicts of δ."""
    missed: Missed
    """What state and action predict of δ where the target goes."""

    @property
    def numbers(self) -> dict[str, float]:
        """For people to read."""
        return {
            "ratio_error_bound": self.bound,
            "residual_correlation": self.history.correlation,
            "predicted_by_action": self.history.predicted,
            "missed": self.missed.value,
            "missed_error": self.missed.error,
        }

    @property
    def doubts(self) -> Doubts:
        """Doubts about what the past predicts and about what the features miss."""
        return (*PAST.of(self.history.share, bias=self.history.bias(self.bound)), *MISSED.suspects(self.missed.bias))


def ratio_error_bound(tau: Floats, residual: Floats) -> float:
    """B = sd(τ)·q₆₈|δ - median δ|, τ scaled to mean 1."""
    mean = float(tau.mean())
    size = float(np.quantile(np.abs(residual - np.median(residual)), USUAL))
    return float(tau.std() / abs(mean) * size) if mean else 0.0


def sample_rows(estimate: LinearEstimate) -> tuple[Floats, Floats]:
    """τ and the Bellman residual of the solution at each row of the log's sample."""
    equations, log = estimate.equations, estimate.equations.problem.log
    if log.sample is log and estimate.weights is not None:
        assert estimate.residual is not None
        return estimate.weights[equations.rows.rows], estimate.residual
    pairs = equations.on_sample.rows
    tau, residual = apply(pairs, estimate.beta, estimate.theta, equations.problem.gamma, equations.after_end)
    if estimate.steps is not None:
        residual = charged_residual(pairs, residual, estimate.steps, estimate.value)
    return tau, residual


@dataclass(frozen=True, eq=False)
class Rows:
    """The ratio and the Bellman residual of an estimate at each row of the equations of a log in memory."""

    tau: Floats
    """The ratio."""
    residual: Floats
    """The Bellman residual δ."""

    def on_sample(self, equations: PairEquations) -> tuple[Floats, Floats]:
        """Both at the rows of the log's sample."""
        log, pairs = equations.problem.log, equations.rows
        if log.sample is log:
            return self.tau, self.residual
        kept = log.sample_rows[equations.on_sample.rows.rows]
        tau, residual = (pairs.by_logged_row(part)[kept] for part in (self.tau, self.residual))
        return tau, residual


def missed(equations: PairEquations, tau: Floats, residual: Floats) -> Missed:
    """How far the value would move by functions of state and action that the features lack.

    Nothing, where there are too few steps to tell.

    Args:
        equations: of a log in memory.
        tau: the ratio of each row.
        residual: the Bellman residual of each row.
    """
    joint = _joint_steps(equations)
    return Missed() if joint is None else joint.missed(tau, residual)


@dataclass(frozen=True, eq=False)
class JointSteps:
    """Functions of state and action together at some steps, and their means over the target's actions there."""

    place: Integers
    """The place of each step among the rows."""
    here: Halves
    """At the logged action, (n, k)."""
    target: Array
    """Averaged over the target's actions, (n, k)."""
    episode: Integers

    def missed(self, tau: Floats, residual: Floats) -> Missed:
        """E[τ·d(s, π)], d(s, a) being what a regression says of δ at the target's actions.

        Args:
            tau: the ratio of all rows.
            residual: δ of all rows.
        """
        weight, left = tau[self.place], residual[self.place]
        if not weight.mean() > 0 or not left.any() or not np.isfinite([weight, left]).all():
            return Missed()
        at = weight @ self.target / weight.sum()
        return Missed(*self.here.predicted_mean(left, at, self.episode, MISSED_RIDGES))


@remembered
def _joint_steps(equations: PairEquations) -> JointSteps | None:
    """The steps of all episodes, or of some in a long log; None where there are too few, or states are no vectors."""
    problem, pairs = equations.problem, equations.rows
    data, log, encoder = problem.data, problem.log, pairs.states.features.encoder
    if encoder.shape is not None or encoder.size > MOST_COORDINATES:
        return None
    asked = np.zeros(len(data), dtype=np.bool_)
    asked[pairs.rows] = True
    every = -(-len(pairs) * 2 * JOINT_FOURIER // MOST_NUMBERS)
    asked &= (log.content // 2 % every == 0)[data.episode]  # folds are odd and even numbers
    rows = log.rows[asked[log.rows]]  # in the canonical order, in which policies draw
    z = np.clip(encoder.states(data.observations[rows]), -FARTHEST, FARTHEST)
    both = _joint_discrete(problem, rows, z) if data.discrete_actions else _joint_continuous(problem, pairs, rows, z)
    if both is None:
        return None
    (here, target), episode = both, data.episode[rows]
    return JointSteps(np.searchsorted(pairs.rows, rows), Halves(here, log.folds(2)[episode]), target, episode)


@dataclass(frozen=True)
class JointFourier:
    """[1, x, x², cos(ωᵀx + b)] with random phases b."""

    frequencies: Floats
    """One ω per column."""
    phases: Floats

    @classmethod
    def draw(cls, scales: Floats, rng: np.random.Generator) -> JointFourier:
        """Draw Fourier features from the standard deviations of their frequencies, (coordinates, Fourier features)."""
        return cls(scales * rng.standard_normal(scales.shape), rng.uniform(0, 2 * np.pi, size=(scales.shape[1],)))

    def __call__(self, x: Floats) -> Array:
        """Shape (n, features), in single precision: half of the memory, and noise is far larger."""
        short = x.astype(np.float32)
        angle = short @ self.frequencies.astype(np.float32) + self.phases.astype(np.float32)
        return np.hstack([np.ones((len(x), 1), np.float32), short, np.square(short), np.cos(angle)])


def _joint_discrete(problem: Problem, rows: Integers, z: Floats) -> tuple[Array, Array] | None:
    """[1, 1[a = j]⊗(1, z, z², Fourier features of z)] at the logged actions, and averaged over the target's."""
    probabilities = problem.policy.probabilities(problem.data.observations[rows])
    number, size = probabilities.shape[1], z.shape[1]
    fourier = min(JOINT_FOURIER, len(rows) // ROWS_PER_REGRESSOR - number * (1 + 2 * size)) // number
    if fourier * number < LEAST_FOURIER:
        return None
    base = JointFourier.draw(np.full((size, fourier), size**-0.5), np.random.default_rng([problem.seed, 3]))(z)

    def joint(share: Array) -> Array:
        blocks = (share.astype(np.float32)[:, :, None] * base[:, None, :]).reshape(len(base), -1)
        return np.hstack([base[:, :1], blocks])

    return joint(np.eye(number)[problem.data.actions[rows]]), joint(probabilities)


def _joint_continuous(problem: Problem, pairs: PairFeatures, rows: Integers, z: Floats) -> tuple[Array, Array] | None:
    """Waves of (z, a, a - E_π[a]), and how near a is to E_π[a] times (1, z), at the logged actions and the target's."""
    data, policy, functions = problem.data, problem.policy, action_functions(problem)
    states, actions = z.shape[1], data.actions.shape[1]
    size = states + 2 * actions
    half = min(JOINT_FOURIER, len(rows) // ROWS_PER_REGRESSOR - 1 - 2 * size - len(NEAR) * (1 + states)) // 2
    if 2 * half < LEAST_FOURIER:
        return None
    of_both = np.full(size, size**-0.5)
    of_action = np.repeat([SLOW * states**-0.5, actions**-0.5], [states, 2 * actions])
    scales = np.repeat([of_both, of_action], half, axis=0).T
    fourier = JointFourier.draw(scales, np.random.default_rng([problem.seed, 3]))
    logged, gap = functions.standardised(data.actions[rows], policy), pairs.centred[rows, :actions].astype(np.float64)
    usual = np.sqrt(np.mean(gap**2, axis=0))
    spread, short = np.where(usual > 0, usual, 1.0), z.astype(np.float32)

    def joint(chosen: Array) -> Array:
        a = functions.standardised(chosen, policy)
        apart = (gap + a - logged) / spread
        x = np.hstack([z, np.clip(np.hstack([a, apart]), -FARTHEST, FARTHEST)])
        near = nearness(apart).astype(np.float32)
        return np.hstack([fourier(x), near, (near[:, :, None] * short[:, None, :]).reshape(len(z), -1)])

    draws = np.random.default_rng([problem.seed, 4])
    return joint(data.actions[rows]), policy.expected(joint, data.observations[rows], draws, MISSED_DRAWS)
