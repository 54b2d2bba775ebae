"""FQE in closed form (LSTD-Q): Q linear in features of the state and in centred functions of the action.

Its equations are those of `ope_vpm.ope.vpm.factored` without the action ratio, κ = 0. Other estimators use it, too:
cross-fitted, and as what networks begin from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.values import QValues, influence
from ope_vpm.ope.vpm.factored import RIDGES, Rows, find_linear


def find_lstd(
    problem: Problem, n_features: int, ridge: float | None, draws: int, weight: Floats | None = None
) -> RawEstimate:
    """LSTD-Q, the ridge chosen from the data alone unless it is given; `weight` of each row, where it is not 1."""
    if weight is None:
        return problem.shared(_unweighted_lstd, n_features, ridge, draws)
    return find_linear("linear", Rows.draw(problem, n_features, draws, weight), ridge, {})


def _unweighted_lstd(problem: Problem, n_features: int, ridge: float | None, draws: int) -> RawEstimate:
    return find_linear("linear", Rows.draw(problem, n_features, draws), ridge, {})


@dataclass(frozen=True)
class Base:
    """A Q for each fold, fitted on the others, by its Bellman residuals at every step of the plan."""

    residual: Floats
    """(folds, steps): r - ℓ + γV(s') - Q(s, a)."""
    first: Floats
    """(folds, initial states): V."""
    level: Floats
    """(folds,): ℓ."""


def linear_base(rows: Rows, folds: Integers, ridge: float) -> Base:
    """LSTD-Q of each fold's others, at every step."""
    problem, count = rows.problem, int(folds.max()) + 1
    theta = np.stack([each.solve(ridge)[0] for each in rows.without(folds)], axis=1)
    _, residual = rows.ratios_and_residuals(theta, theta)
    level = theta[0] if problem.gamma == 1 else np.zeros(count)
    return Base(at_steps(rows, residual).T, (rows.initial @ theta).T, level)


@dataclass(frozen=True)
class Held:
    """Q by its Bellman residuals, each step by what the other folds say of it; one column a ridge."""

    ridges: tuple[float, ...]
    residual: Floats
    """At each step of the plan."""
    first: Floats
    """V of the initial states."""
    level: Floats
    """At γ = 1 the average reward, which the residual is without; else 0."""

    def least(self, problem: Problem, tau: Floats) -> int:
        """The place of the ridge whose residuals, weighted by the ratio, have the least standard error."""
        pairs = zip(self.residual.T, self.first.T, strict=True)
        errors = np.array([influence(problem, tau, *each).standard_error for each in pairs])
        return int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))

    def q(self, problem: Problem, place: int) -> QValues:
        """Q less γV(s') stands for Q."""
        level = self.level[:, place]
        q = problem.data.rewards[problem.steps.rows] - level - self.residual[:, place]
        return QValues(q, np.zeros_like(q), self.first[:, place], level)


def held_out(rows: Rows, folds: Integers, ridge: float | None) -> Held:
    """LSTD-Q of each fold's others, for one ridge or for all of the grid."""
    ridges = RIDGES if ridge is None else (ridge,)
    data = rows.problem.data
    fold, first_fold = folds[data.episode[rows.kept]], folds[rows.problem.log.initial_episodes]
    solved = [np.stack([each.solve(one)[0] for one in ridges], axis=1) for each in rows.without(folds)]
    theta = np.array(solved)
    level = theta[fold, 0] if rows.problem.gamma == 1 else np.zeros((len(fold), len(ridges)))
    first = np.zeros((len(first_fold), len(ridges)))
    for k in np.unique(first_fold):
        first[first_fold == k] = rows.initial[first_fold == k] @ theta[k]
    return Held(ridges, at_steps(rows, rows.held_residuals(folds, theta)), first, at_steps(rows, level))


def at_steps(rows: Rows, kept: Floats) -> Floats:
    """Numbers of the kept rows at each step of the plan."""
    by_row = np.zeros((len(rows.problem.data), kept.shape[1]))
    by_row[rows.kept] = kept
    return by_row[rows.problem.steps.rows]
