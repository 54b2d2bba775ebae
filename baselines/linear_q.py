"""FQE in closed form (LSTD-Q): Q linear in features of the state and in centred functions of the action.

Its equations are those of `ope_vpm.ope.factored` without the action ratio, κ = 0. Also as a part of other estimators:
cross-fitted, and as what networks begin from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.baselines.dr_linear import cross_fitted
from ope_vpm.baselines.q_values import QValues, influence, spread
from ope_vpm.logged.columns import Floats, Integers
from ope_vpm.ope.conclude import Found
from ope_vpm.ope.factored import Rows, choose_ridge, find_linear
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class Base:
    """A Q for each fold, fitted on the others, by its Bellman residuals at every step of the plan."""

    residual: Floats
    """(folds, steps): r - ℓ + γV(s') - Q(s, a)."""
    first: Floats
    """(folds, initial states): V."""
    level: Floats
    """(folds,): ℓ."""


def find_lstd(problem: Problem, n_features: int, ridge: float | None, draws: int, weight: Floats | None) -> Found:
    """LSTD-Q, the ridge chosen from the data alone unless it is given; `weight` of each row, where it is not 1."""

    def find() -> Found:
        return find_linear("linear", Rows.draw(problem, n_features, draws, weight), ridge, None, {})

    return find() if weight is not None else problem.once(f"LSTD-Q {n_features} {ridge} {draws}", find)


def linear_base(rows: Rows, folds: Integers, ridge: float | None) -> Base:
    """LSTD-Q of each fold's others, at every step; one ridge for all, chosen on held-out steps."""
    problem, count = rows.problem, int(folds.max()) + 1
    chosen = ridge if ridge is not None else _chosen(rows, folds)
    solved = [each.solve(chosen)[0] for each in rows.without(folds)]
    theta = np.stack(solved, axis=1)
    _, residual = rows.ratios_and_residuals(theta, theta)
    level = theta[0] if problem.gamma == 1 else np.zeros(count)
    return Base(at_steps(rows, residual).T, (rows.initial @ theta).T, level)


def _chosen(rows: Rows, folds: Integers) -> float:
    whole = cross_fitted(rows, np.zeros_like(folds), None)
    held = cross_fitted(rows, folds, None) if folds.any() else whole
    problem, tau = rows.problem, at_steps(rows, whole.tau)
    tau = tau[:, [least_spread(problem, tau, at_steps(rows, whole.residual), whole.first)]]
    return held.ridges[least_spread(problem, tau, at_steps(rows, held.residual), held.first)]


def linear_q(rows: Rows, folds: Integers, ridge: float | None) -> tuple[QValues, Floats]:
    """LSTD-Q, cross-fitted, given by its residuals (Q less γV(s') stands for Q); and the ratio of its equations."""
    problem = rows.problem
    whole = cross_fitted(rows, np.zeros_like(folds), ridge)
    held = cross_fitted(rows, folds, ridge) if folds.any() else whole
    tau = at_steps(rows, whole.tau)
    tau = tau[:, [least_spread(problem, tau, at_steps(rows, whole.residual), whole.first)]]
    residual = at_steps(rows, held.residual)
    place = least_spread(problem, tau, residual, held.first)
    level = at_steps(rows, held.level)[:, place]
    q = problem.data.rewards[problem.steps.rows] - level - residual[:, place]
    return QValues(q, np.zeros_like(q), held.first[:, place], level), tau[:, 0]


def least_spread(problem: Problem, tau: Floats, residual: Floats, first: Floats) -> int:
    """The place of the ridge that the rule chooses; columns of one number stand for every ridge."""
    columns = max(tau.shape[1], residual.shape[1])
    parts = [np.broadcast_to(part, (len(part), columns)).T for part in (tau, residual, first)]
    errors = [spread(influence(problem, *each)) for each in zip(*parts, strict=True)]
    return choose_ridge(np.array(errors))


def at_steps(rows: Rows, kept: Floats) -> Floats:
    """Numbers of the kept rows at each step of the plan."""
    by_row = np.zeros((len(rows.problem.data), kept.shape[1]))
    by_row[rows.kept] = kept
    return by_row[rows.problem.steps.rows]
