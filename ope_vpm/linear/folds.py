"""Passes over rows that are divided into folds: moments of each fold, and residuals of what the others have fitted."""

from functools import reduce
from itertools import pairwise

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Batch, Batches, Moments, Room
from ope_vpm.linear.passes import Coefficients, SideBySide


def accumulate_folds(batches: Batches, fold: Integers, count: int) -> list[Moments]:
    """The moments of each fold's rows, in one pass; initial states are left out.

    Args:
        batches: the rows.
        fold: the fold of each row, 0 … count - 1.
        count: the number of folds.
    """
    folds, room = [Moments.empty(batches.size, batches.next_size) for _ in range(count)], Room()
    for batch in batches:
        for moments, part in zip(folds, by_fold(batch, fold, count), strict=True):
            moments.add(part, room)
    return folds


def by_fold(batch: Batch, fold: Integers, count: int) -> list[Batch]:
    """The rows of each fold; they are put in the order of folds once, so that the parts are views."""
    of_rows = fold[batch.rows]
    rising = (np.diff(of_rows) >= 0).all()
    ordered = batch if rising else batch.select(np.argsort(of_rows, kind="stable"))
    bounds = np.searchsorted(fold[ordered.rows], np.arange(count + 1)).tolist()
    return [ordered.select(slice(first, last)) for first, last in pairwise(bounds)]


def all_but_each(folds: list[Moments]) -> list[Moments]:
    """For each fold the moments of the rows in the others; of all rows where there is one fold only."""
    whole = reduce(Moments.merge, folds)
    return [whole] if len(folds) == 1 else [whole.without(part) for part in folds]


def apply_folds(
    batches: Batches, fold: Integers, theta: Floats, gamma: float, after_end: Floats | None = None
) -> Floats:
    """The residual r - Δᵀθ of each row with the θ of its fold, shape (rows, m).

    Args:
        batches: the rows.
        fold: the fold of each row.
        theta: shape (folds, D, m).
        gamma: the discount.
        after_end: as in `apply`.
    """
    residual = np.empty((len(batches), theta.shape[2]))
    for batch in batches:
        for part, of_fold in zip(by_fold(batch, fold, len(theta)), theta, strict=True):
            side_by_side = SideBySide.of([Coefficients(of_fold[:, :0], of_fold, gamma, after_end)])
            ((_, residual[part.rows]),) = side_by_side.of_rows(part)
    return residual
