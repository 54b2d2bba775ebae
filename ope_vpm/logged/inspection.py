"""A log that is read in parts, looked over: one pass for what every row tells, a sample of episodes for the rest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.describe import Description, Range, range_of
from ope_vpm.logged.doctor import Report, check_ignored, examined
from ope_vpm.logged.fingerprint import number_contents
from ope_vpm.logged.stream_facts import Facts, episodes_of, examine, facts_of, fitting
from ope_vpm.logged.streamed import Part, StreamedDataset

SAMPLE_ROWS = 100_000
"""Rows of the sample, as many as an evaluation has; a log that is no longer is read whole."""


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Of the finite numbers in each column: how many they are, their sum, the least and the largest."""

    count: Integers
    total: Floats
    least: Floats
    largest: Floats

    @classmethod
    def of(cls, column: Array) -> ColumnSums:
        """Of an array with one row a step."""
        table = column.reshape(len(column), -1).astype(np.float64)
        finite = np.isfinite(table)
        return cls(
            finite.sum(axis=0),
            table.sum(axis=0, where=finite),
            table.min(axis=0, where=finite, initial=np.inf),
            table.max(axis=0, where=finite, initial=-np.inf),
        )

    def merge(self, other: ColumnSums) -> ColumnSums:
        """Of both."""
        return ColumnSums(
            self.count + other.count,
            self.total + other.total,
            np.minimum(self.least, other.least),
            np.maximum(self.largest, other.largest),
        )

    def ranges(self) -> tuple[Range, ...]:
        """NaN for columns without a finite number."""
        found = zip(self.count, self.total, self.least, self.largest, strict=True)
        nothing = Range(float("nan"), float("nan"), float("nan"))
        return tuple(
            Range(float(least), float(total / count), float(largest)) if count else nothing
            for count, total, least, largest in found
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """What a pass over all rows finds."""

    facts: Facts
    rewards: ColumnSums
    observations: ColumnSums
    actions: ColumnSums

    @classmethod
    def of(cls, part: Part, ignore: Collection[str]) -> Seen:
        """Look at one part."""
        columns = (part.rewards, part.observations, part.actions)
        return cls(facts_of(part, ignore), *map(ColumnSums.of, columns))

    def merge(self, other: Seen) -> Seen:
        """Of two parts that follow one another."""
        return Seen(
            self.facts.merge(other.facts),
            self.rewards.merge(other.rewards),
            self.observations.merge(other.observations),
            self.actions.merge(other.actions),
        )


def looked_over(data: LoggedDataset | StreamedDataset, ignore: Collection[str] = ()) -> tuple[Report, LoggedDataset]:
    """The doctor's report, and the rows to draw: all of them, or a sample of whole episodes.

    Args:
        data: the log; one that is read in parts is read whole where it is short.
        ignore: codes of findings that are known to be harmless.
    """
    check_ignored(ignore)
    if isinstance(data, StreamedDataset) and len(data) <= SAMPLE_ROWS:
        data = data.read()
    if isinstance(data, LoggedDataset):
        return Report(data.describe(), examined(data, ignore)), data
    seen = data.total(Seen.of, tuple(ignore), title="looking")
    data = data.of_facts(seen.facts)
    order = np.argsort(number_contents(seen.facts.episodes.prints), kind="stable")
    sample = episodes_of(data, order[: fitting(data.lengths[order], SAMPLE_ROWS)], SAMPLE_ROWS)
    findings = tuple(examine(data, seen.facts, sample, ignore))
    return Report(_description(data, seen), findings, sampled=len(sample)), sample


def _description(data: StreamedDataset, seen: Seen) -> Description:
    table = data.table
    (rewards,) = seen.rewards.ranges()
    return Description(
        steps=len(data),
        episodes=data.n_episodes,
        terminated=int(table.terminated.sum()),
        truncated=int((table.truncated & ~table.terminated).sum()),
        next_unknown=len(data) - seen.facts.known,
        initial_states=int(data.from_reset.sum()),
        lengths=range_of(data.lengths),
        returns=range_of(seen.facts.episodes.returns),
        rewards=rewards,
        observations=seen.observations.ranges(),
        actions=seen.actions.ranges(),
        n_actions=data.n_actions,
    )
