"""Bounds under hidden causes on continuous states: an adversary who chooses among outcomes, Q linear in features.

With y = r + γV(s'), its mean m(s, a), and any guess q(s, a) of the quantile at τ = 1/(1 + Λ) (Rockafellar and Uryasev),

    Q = E[α·y + (1 - α)·(q + min(y - q, 0)/τ) | s, a],   α = b + (1 - b)/Λ,

is the least that hidden causes of odds Λ allow where q is the quantile, and less where it is not: a wrong guess makes
bounds wider, never too narrow. q is m plus a quantile of y - m that is linear in coordinates. Given q - m and the rows
with y < q the equations are linear in Q; both are guessed again from its solution. Of continuous actions, no one of
which is ever repeated, b is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.behaviour.clone import behaviour_log_prob
from ope_vpm.ope.memory import Memory
from ope_vpm.ope.problem import Problem
from ope_vpm.policy.target import DRAWS
from ope_vpm.threads import cached_property

ROWS = 10_000
"""Rows of whole episodes that are used: bounds are relative to the value, and a bound takes some 0.2 s."""
FEATURES, FOURIER, RIDGE = 60, 10, 1e-3
"""Random Fourier features of the state, those that functions of the action are multiplied with, and the ridge in units
of mean squares: the one that did best unchosen on logs of control tasks."""
ROUNDS, SAME = 30, 1e-4
"""Rounds of the adversary's choices, and the change of the bound, relative to the spread of rewards, at which they
end."""
QUANTILE_STEPS = 12
"""Steps of reweighted least squares, each of which begins at the last round's solution."""


@dataclass(frozen=True, eq=False)
class LinearOutcomes:
    """Logged steps as features of pairs; the first column is 1."""

    here: Floats
    """(n, p): φ(s, a)."""
    after: Floats
    """(n, p): E_π[φ(s', ·)], 0 after an end."""
    first: Floats
    """(p,): its mean over initial states."""
    coordinates: Floats
    """(n, k): the functions that the quantile is linear in."""
    reward: Floats
    logged: Floats
    """(n,): b(a|s) of the logged action; 0 of a continuous one."""
    gamma: float
    average: bool
    """Whether the long-run average is asked for: the constant is then the average, and values are relative."""

    @classmethod
    def of(cls, problem: Problem) -> LinearOutcomes:
        """Make the features of a problem in memory, with the step number where it matters."""
        posed = problem.with_step_number
        asked = replace(posed, log=posed.log.beginning(ROWS), memory=Memory())
        pairs = pair_features(asked, FEATURES, DRAWS, FOURIER)
        batches = [(each.phi.copy(), each.phi_next.copy()) for each in pairs]
        here, after = (np.concatenate(each).astype(np.float64) for each in zip(*batches, strict=True))
        wide = np.zeros_like(here)
        wide[:, : after.shape[1]] = after
        first = np.zeros(here.shape[1])
        if len(pairs.states.first_episodes):
            first[: after.shape[1]] = pairs.states.initial.mean(axis=0)
        linear = 1 + pairs.states.features.linear
        columns = [*range(linear), *range(pairs.next_size, pairs.size, pairs.recipe.action_base)]
        logged = np.zeros(len(pairs))
        if asked.data.discrete_actions:
            known = "cloned" if asked.data.behaviour_log_prob is None else "logged"
            logged = np.exp(behaviour_log_prob(asked, known).log_prob[pairs.rows])
        average = problem.gamma == 1 and not problem.episodic
        return cls(here, wide, first, here[:, columns], pairs.rewards, logged, problem.gamma, average)

    def bound(self, odds: float, sign: float) -> float:
        """The least value of sign·reward that hidden causes of these odds allow."""
        reward, tail, found = sign * self.reward, 1 / (1 + odds), np.inf
        doubted = (1 - self.logged) * (1 - 1 / odds)  # 1 - α
        share, shift, slope = np.zeros(len(reward)), np.zeros(len(reward)), np.zeros(self.coordinates.shape[1])
        for _ in range(ROUNDS):
            before, (found, outcome) = found, self._solved(reward, share, shift)
            if odds == 1 or abs(found - before) <= SAME * reward.std():
                break
            apart = outcome - self.here @ lu_solve(self._fit, self.here.T @ outcome)
            slope = _quantile(self.coordinates, apart, tail, slope)
            shift = self.coordinates @ slope
            share = doubted * (1 - (apart < shift) / tail)
        return found

    def _solved(self, reward: Floats, share: Floats, shift: Floats) -> tuple[float, Floats]:
        """The value where Q = E[(1 - c)·y + c·(m + shift)], and each y; c is the share that the guess has in a row."""
        here, after = self.here, self.after
        guessed = lu_solve(self._fit, (here * share[:, None]).T @ here, trans=1).T  # E[c·φ] of a mean of φ
        drawn = (here * (1 - share)[:, None]).T
        system = self._normal - self.gamma * (drawn @ after + guessed @ self._ahead)
        source = drawn @ reward + guessed @ (here.T @ reward) + here.T @ (share * shift)
        if self.average:
            system[:, 0] = here.sum(axis=0)
        theta = np.linalg.solve(system, source)
        if not self.average:
            return (1 - self.gamma or 1.0) * float(self.first @ theta), reward + self.gamma * after @ theta
        average, theta[0] = float(theta[0]), 0.0
        return average, reward - average + after @ theta

    @cached_property
    def _normal(self) -> Floats:
        """Φᵀφ with its ridge, which spares the constant."""
        gram = self.here.T @ self.here
        return gram + np.diag(np.append(0.0, RIDGE * np.diag(gram)[1:]))

    @cached_property
    def _fit(self) -> tuple[Floats, Floats]:
        """Φᵀφ, factorised: what regressions on the features need."""
        factors: tuple[Floats, Floats] = lu_factor(self._normal)
        return factors

    @cached_property
    def _ahead(self) -> Floats:
        return self.here.T @ self.after


def _quantile(columns: Floats, values: Floats, level: float, begin: Floats) -> Floats:
    """Coefficients of columns, the first of them 1, below whose sum a share `level` of values lies.

    Quantile regression by the reweighted least squares of Hunter and Lange (2000), whose weights are 1/(ε + |error|);
    the constant is then set so that the share is right.
    """
    found, pull = begin, (2 * level - 1) * columns.sum(axis=0)
    small = 1e-3 * float(values.std()) + 1e-300
    for _ in range(QUANTILE_STEPS):
        weighted = (columns / (small + np.abs(values - columns @ found))[:, None]).T
        found = np.linalg.lstsq(weighted @ columns, weighted @ values + pull, rcond=1e-10)[0]
    found[0] += np.quantile(values - columns @ found, level)
    return found
