"""Sums of the weights τ of rows, over all of them and over groups; those of several parts of the data are merged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers


@dataclass(frozen=True)
class WeightSums:
    """Sums of weights τ over rows, as verdicts need them; for one set of weights, or for each of m columns of them."""

    positive: Floats
    """Σ max(τ, 0), (m,)."""
    squares: Floats
    """Σ max(τ, 0)², (m,)."""
    by_group: Floats
    """Σ max(τ, 0) over the rows of each group, (groups, m)."""

    @classmethod
    def empty(cls, groups: int, columns: int) -> WeightSums:
        """Sums over no rows, to which batches can be added."""
        zeros = np.zeros(columns)
        return cls(zeros, zeros.copy(), np.zeros((groups, columns)))

    def add(self, tau: Floats, group: Integers, first: Integers) -> None:
        """Add rows, whose groups begin at the places `first`."""
        positive = np.maximum(tau, 0)
        self.positive[:] += positive.sum(axis=0)
        self.squares[:] += np.einsum("nm,nm->m", positive, positive)
        np.add.at(self.by_group, group[first], np.add.reduceat(positive, first, axis=0))

    def merge(self, other: WeightSums, mine: slice, theirs: slice) -> WeightSums:
        """As `GroupSums.merge`."""
        return WeightSums(
            self.positive + other.positive,
            self.squares + other.squares,
            added(self.by_group, other.by_group, mine, theirs),
        )

    def column(self, number: int) -> WeightSums:
        """Those of one column."""
        return WeightSums(self.positive[number], self.squares[number], self.by_group[:, number])


def added(one: Floats, other: Floats, mine: slice, theirs: slice) -> Floats:
    """Two arrays added where they lie in a larger one."""
    total = np.zeros((max(mine.stop, theirs.stop), *one.shape[1:]))
    total[mine] += one
    total[theirs] += other
    return total
