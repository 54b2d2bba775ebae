"""Sums over rows that the parts of a log add up: how often each reward was paid, and the spread of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.logged.describe import Range

MOST_REWARDS = 1 << 16
"""Different rewards that are counted, a megabyte of them. Where a log has more, those that are seldom paid are given
up, and the commonest one is known unless it makes up less than one row in 65 536."""


@dataclass(frozen=True)
class RewardCounts:
    """How often each reward was paid."""

    rewards: Floats
    """Rising."""
    times: Integers

    @classmethod
    def of(cls, rewards: Floats) -> RewardCounts:
        """The counts of some rows."""
        return cls(*np.unique(rewards, return_counts=True)).limited()

    def merge(self, other: RewardCounts) -> RewardCounts:
        """The counts of two parts."""
        rewards, place = np.unique(np.concatenate([self.rewards, other.rewards]), return_inverse=True)
        times = np.zeros(len(rewards), dtype=np.int64)
        np.add.at(times, place, np.concatenate([self.times, other.times]))
        return RewardCounts(rewards, times).limited()

    def limited(self) -> RewardCounts:
        """At most `MOST_REWARDS` of them: all lose what the first one too many has (Misra and Gries 1982)."""
        if len(self.rewards) <= MOST_REWARDS:
            return self
        left = self.times - np.sort(self.times)[-MOST_REWARDS - 1]
        return RewardCounts(self.rewards[left > 0], left[left > 0])

    @property
    def commonest(self) -> float:
        """The least of the rewards that were paid most often; NaN where none is common."""
        return float(self.rewards[np.argmax(self.times)]) if len(self.rewards) else float("nan")


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Number, sum, least and largest of the finite numbers in each column."""

    count: Integers
    total: Floats
    least: Floats
    largest: Floats

    @classmethod
    def of(cls, column: Array) -> ColumnSums:
        """The sums of an array with one row a step."""
        table = column.reshape(len(column), -1).astype(np.float64)
        finite = np.isfinite(table)
        return cls(
            finite.sum(axis=0),
            table.sum(axis=0, where=finite),
            table.min(axis=0, where=finite, initial=np.inf),
            table.max(axis=0, where=finite, initial=-np.inf),
        )

    def merge(self, other: ColumnSums) -> ColumnSums:
        """The sums of two parts."""
        least, largest = np.minimum(self.least, other.least), np.maximum(self.largest, other.largest)
        return ColumnSums(self.count + other.count, self.total + other.total, least, largest)

    def ranges(self) -> tuple[Range, ...]:
        """The spread of each column; NaN for columns without a finite number."""
        found = zip(self.count, self.total, self.least, self.largest, strict=True)
        nothing = Range(float("nan"), float("nan"), float("nan"))
        return tuple(
            Range(float(least), float(total / count), float(largest)) if count else nothing
            for count, total, least, largest in found
        )
