"""Linear equations solved without a fold and asked about it: the ratio and Q of points, cross-fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.logged.columns import Floats, Integers
from ope_vpm.ope.factored import RIDGES, Rows, solve_grid


@dataclass(frozen=True)
class Held:
    """Each kept row's ratio and Bellman residual by the other folds, and V of the initial states."""

    tau: Floats
    residual: Floats
    first: Floats
    level: Floats
    """At γ = 1 the average reward, which the residual is without; else 0."""
    ridge: float


def cross_fitted(rows: Rows, folds: Integers, ridge: float | None) -> Held:
    """Solve once for each fold; the ridge, unless given, is the one that the rule chooses on all rows."""
    chosen = ridge if ridge is not None else chosen_ridge(rows)
    data = rows.problem.data
    fold, first_fold = folds[data.episode[rows.kept]], folds[data.from_reset]
    count = int(folds.max()) + 1
    solved = [rows.equations((fold != k) | (count == 1)).solve(chosen) for k in range(count)]
    theta, beta = (np.stack(columns, axis=1) for columns in zip(*solved, strict=True))
    tau, residual = rows.ratios_and_residuals(theta, beta)
    place = np.arange(len(fold))
    first = rows.initial @ theta
    if len(first_fold):
        first = first[np.arange(len(first_fold)), first_fold]
    level = theta[0, fold] if rows.problem.gamma == 1 else np.zeros(len(fold))
    return Held(tau[place, fold], residual[place, fold], first.reshape(-1)[: max(len(first_fold), 1)], level, chosen)


def chosen_ridge(rows: Rows) -> float:
    """By the standard errors on all rows, as in vpm."""
    return RIDGES[solve_grid(rows, rows.equations(), RIDGES, False, None).chosen]
