"""Functions of state and action that features miss: how far the value would move if they could follow them.

The value is off by E[δ] over the target's own steps, exactly. Where features cannot follow how rewards and next states
depend on the action, δ has a mean there that is not 0, and a regression of δ on other functions of (s, a) finds it:
see `Missed`. Importance weights would need no such functions, but a target without noise has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.linear.system import Halves
from ope_vpm.ope.adapter.pair_features import PairFeatures, action_functions
from ope_vpm.ope.adapter.state_features import NEAR, nearness
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.linear.residuals import FARTHEST, MOST_COORDINATES, MOST_NUMBERS
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
MISSED_SURE = 2.0
"""Standard errors beyond which noise is no explanation of what is missed. Reliable answers of vpm on
Pendulum, Acrobot and CartPole (seeds 100 and 101) have at most 1.2. On tasks A of note 015 36 values with lines
and parabolas alone are off by more than their intervals without this part: 34 of them have 2.3 to 260, two less."""


@dataclass(frozen=True)
class Missed:
    """How far the value would move if the features could follow other functions of state and action."""

    value: float = 0.0
    """E[δ] over the target's steps, by a regression of δ on state and action."""
    error: float = 0.0
    """Its standard error."""

    @property
    def bias(self) -> float:
        """Its size less what noise alone gives on average; 0 where noise may be the reason."""
        return float(np.sqrt(self.value**2 - self.error**2)) if self.sure else 0.0

    @property
    def sure(self) -> bool:
        """Whether noise alone is no explanation."""
        return abs(self.value) > MISSED_SURE * self.error


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
