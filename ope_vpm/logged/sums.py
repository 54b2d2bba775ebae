"""A log in parts: where they come from, reading one ahead, and what is counted and summed in each and added up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.describe import Range


class Source(Protocol):
    """Where rows come from, in the order of time; it can be sent to other machines."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def flags(self, first: int, last: int) -> Iterator[dict[str, Array]]:
        """The columns that tell where episodes begin and end, of rows from one number up to another."""

    def read(self, first: int, last: int, size: int) -> Iterator[LoggedDataset]:
        """The rows from one number up to another, `size` at a time, each time with one row more, if there is one."""

    def named(self, row: int) -> str:
        """The file that holds a row."""


Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Iterate over items in order while a thread makes the next one; errors are raised where that item would come."""
    nothing = object()
    with ThreadPoolExecutor(max_workers=1) as thread:
        following = thread.submit(next, items, nothing)
        while (item := following.result()) is not nothing:
            following = thread.submit(next, items, nothing)
            yield item  # type: ignore[misc]  # all but `nothing` are items


def runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of numbers that follow one another, each as its first number and the one after its last."""
    chosen = np.asarray(sorted(numbers), dtype=np.int64)
    for run in np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1):
        if len(run):
            yield int(run[0]), int(run[-1]) + 1


class Mergeable(Protocol):
    """A result of some rows that can be merged with that of others."""

    def merge(self, other: Any, /) -> Any:
        """The result of both."""


Result = TypeVar("Result", bound=Mergeable)


def adds_up(result: Any) -> bool:
    """Whether a result says of itself that it is as large as that of both parts, so that it is added at once."""
    return getattr(result, "adds_up", False)


def merged(
    parts: Iterable[Any], function: Callable[..., Result], settings: tuple[Any, ...], told: Callable[[int], None] | None
) -> Result:
    """The merged results of a function over parts.

    Neighbours that hold equally many parts are merged first, like digits of a binary counter: a number that a result
    keeps for each episode is copied log₂(parts) times, and no more than that many results wait.
    """
    waiting: list[tuple[int, Result]] = []  # how many parts a result holds, each at least twice as many as the next
    for part in parts:
        size, found = 1, function(part, *settings)
        while waiting and (waiting[-1][0] == size or adds_up(found)):
            before, other = waiting.pop()
            size, found = size + before, other.merge(found)
        waiting.append((size, found))
        if told is not None:
            told(part.first_row + len(part))
    if not waiting:
        raise ValueError("the log is empty: it needs at least one step")
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1].merge(total)
    return total


Asked = tuple[Callable[[Any], Any] | None, Callable[..., Any], tuple[Any, ...]]
"""What is asked of a pass: what a part is changed to beforehand, a function of it, and its settings."""


@dataclass(frozen=True)
class Several:
    """The results of several functions of the same parts."""

    each: list[Any]

    @property
    def adds_up(self) -> bool:
        """Whether all of them do."""
        return all(adds_up(each) for each in self.each)

    def merge(self, other: Several) -> Several:
        """Those of both parts."""
        return Several([one.merge(two) for one, two in zip(self.each, other.each, strict=True)])


def each_of_part(part: Any, asked: Sequence[Asked]) -> Several:
    """The results of several functions of one part."""
    return Several([function(change(part) if change else part, *settings) for change, function, settings in asked])


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
