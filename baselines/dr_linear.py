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
    solved = [[each.solve(one) for one in ridges] for each in rows.without(folds)]
    theta, beta = (np.array([[pair[k] for pair in each] for each in solved]).swapaxes(1, 2) for k in (0, 1))
    tau, residual = rows.held(folds, theta, beta)
    level = theta[fold, 0] if gamma == 1 else np.zeros((len(fold), len(ridges)))
    first = np.zeros((len(first_fold), len(ridges)))
    for k in np.unique(first_fold):
        first[first_fold == k] = rows.initial[first_fold == k] @ theta[k]
    return Held(ridges, tau, residual, first, level)
