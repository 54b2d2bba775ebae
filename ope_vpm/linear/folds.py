"""Passes over rows that are divided into folds: moments of each fold, and residuals of what the others have fitted."""

from functools import reduce
from itertools import pairwise

import numpy as np

from ope_vpm.arrays import Integers
from ope_vpm.linear.moments import Batch, Batches, Moments


def accumulate_folds(batches: Batches, fold: Integers, count: int) -> list[Moments]:
    """The moments of each fold's rows, in one pass; initial states are left out.

    Args:
        batches: the rows.
        fold: the fold of each row, 0 … count - 1.
        count: the number of folds.
    """
    folds = [Moments.empty(batches.size, batches.next_size) for _ in range(count)]
    for batch in batches:
        for moments, part in zip(folds, by_fold(batch, fold, count), strict=True):
            moments.add(part)
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
