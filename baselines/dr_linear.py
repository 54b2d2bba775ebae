"""Linear equations solved without a fold and asked about it: the ratio and Q of points, cross-fitted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.logged.columns import Floats, Integers
from ope_vpm.ope.factored import RIDGES, Rows


@dataclass(frozen=True)
class Held:
    """What the other folds say of each kept row and initial state, one column a ridge."""

    ridges: tuple[float, ...]
    tau: Floats
    """The ratio."""
    residual: Floats
    """The Bellman residual."""
    first: Floats
    """V of the initial states."""
    level: Floats
    """At γ = 1 the average reward, which the residual is without; else 0."""


def cross_fitted(rows: Rows, folds: Integers, ridge: float | None) -> Held:
    """Solve for each fold on the rows of the others, for one ridge or for all of the grid."""
    ridges = RIDGES if ridge is None else (ridge,)
    data, gamma = rows.problem.data, rows.problem.gamma
    fold, first_fold = folds[data.episode[rows.kept]], folds[data.from_reset]
    tau, residual, level = (np.zeros((len(fold), len(ridges))) for _ in range(3))
    first = np.zeros((len(first_fold), len(ridges)))
    count = int(folds.max()) + 1
    for k in range(count):
        held = fold == k
        equations = rows.equations(~held if count > 1 else held)
        solved = [equations.solve(each) for each in ridges]
        theta, beta = (np.stack(columns, axis=1) for columns in zip(*solved, strict=True))
        tau_all, residual_all = rows.ratios_and_residuals(theta, beta)
        tau[held], residual[held] = tau_all[held], residual_all[held]
        if gamma == 1:
            level[held] = theta[0]
        if len(first_fold):
            first[first_fold == k] = rows.initial[first_fold == k] @ theta
    return Held(ridges, tau, residual, first, level)
