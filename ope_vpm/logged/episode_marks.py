"""Where episodes begin and end, found in runs of rows that are looked at apart from each other and then joined.

Facts about whole episodes and about the rewards take a few numbers an episode, however many rows there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers, mean_and_deviation
from ope_vpm.logged.columns import episode_column, flag_column, refuse_turns
from ope_vpm.threads import cached_property

if TYPE_CHECKING:
    from ope_vpm.logged.sums import Source


@dataclass(frozen=True, eq=False)
class EpisodeTable:
    """One line an episode."""

    lengths: Integers
    """Its steps."""
    from_reset: Bools
    """Whether it begins at a reset."""
    terminated: Bools
    """Whether the task ended with it."""
    truncated: Bools
    """Whether the logging stopped after it, as at a time limit."""

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def limit(self) -> int | None:
        """The task's time limit, as the log shows it: the length of most truncated episodes, none being longer."""
        cut = self.lengths[self.truncated & ~self.terminated & self.from_reset]
        longest = int(cut.max()) if len(cut) else 0
        known = len(cut) > 0 and 2 * int((cut == longest).sum()) > len(cut) and int(self.lengths.max()) <= longest
        return longest if known else None

    def ended(self, time_limit: str, limit: int | None) -> Bools:
        """The episodes with which the task ended, rather than its log.

        Args:
            time_limit: "continue": those that were terminated; "restart": truncated ones, too, but for those that were
                cut before the limit of all others.
            limit: that limit, where there is one.
        """
        if time_limit == "continue":
            return self.terminated
        early = np.zeros(len(self), dtype=np.bool_)
        if limit is not None:
            early = (self.lengths < limit) & self.from_reset
        return self.terminated | (self.truncated & ~early)

    def part(self, first: int, last: int) -> EpisodeTable:
        """The episodes from one number up to another."""
        some = slice(first, last)
        return EpisodeTable(self.lengths[some], self.from_reset[some], self.terminated[some], self.truncated[some])


@dataclass(frozen=True, eq=False)
class RewardFacts:
    """The rewards of all rows, as far as intervals and verdicts ask about them."""

    least: float
    largest: float
    deviation: float
    """Their standard deviation."""
    inner: bool
    """Whether any row pays that is not the last one of its episode."""
    last: Floats
    """(episodes,): what the last row of each episode pays."""

    @classmethod
    def of(cls, rewards: Floats, ends: Integers) -> Self:
        """From the reward of each row and the last row of each episode."""
        inner = np.asarray(rewards != 0)
        inner[ends] = False
        deviation = float(mean_and_deviation(rewards)[1])
        return cls(float(rewards.min()), float(rewards.max()), deviation, bool(inner.any()), np.asarray(rewards[ends]))

    @property
    def size(self) -> float:
        """The largest absolute reward."""
        return max(abs(self.least), abs(self.largest))


@dataclass(frozen=True, eq=False)
class Turns:
    """The rows without a flag in a run whose every row has another label than the row before it."""

    labels: Array
    """Their episodes."""
    rows: Integers
    """Their numbers, counted from the first row of the run."""


@dataclass(frozen=True, eq=False)
class EpisodeMarks:
    """Beginnings and ends of episodes in a run of rows, whose first row counts as a beginning until runs are joined."""

    rows: int
    labels: tuple[Any, Any]
    """The episodes of the first and of the last row; None without labels."""
    ended: bool
    """Whether the last row ended its episode."""
    starts: Integers
    """The rows with which episodes begin, counted from the first of the run."""
    resets: Bools
    """Whether each of these is a reset."""
    terminated: Integers
    """The rows with the flag."""
    truncated: Integers
    """The rows with the flag."""
    turns: Turns | None = None
    """Rows that may be episodes taking turns; None without labels, and where two successive rows have one label."""

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> EpisodeMarks:
        """Look at the columns of flags and labels of some rows."""
        length = len(next(iter(columns.values())))
        flags = {name: flag_column(name, columns.get(name), length) for name in ("terminated", "truncated")}
        ended = flags["terminated"] | flags["truncated"]
        first = np.concatenate([[True], ended[:-1]])
        labels: tuple[Any, Any] = (None, None)
        turns = None
        if "episode" in columns:
            label = episode_column(columns["episode"], length)
            changes = label[1:] != label[:-1]
            first[1:] |= changes
            labels = label[0], label[-1]
            turns = Turns(label[~ended], np.flatnonzero(~ended)) if changes.all() else None
        starts = np.flatnonzero(first)
        resets = np.ones(len(starts), dtype=np.bool_)
        if "from_reset" in columns:
            resets = flag_column("from_reset", columns["from_reset"], length)[starts]
        terminated, truncated = (np.flatnonzero(flags[name]) for name in ("terminated", "truncated"))
        return cls(length, labels, bool(ended[-1]), starts, resets, terminated, truncated, turns)

    def begins_after(self, before: EpisodeMarks | None) -> bool:
        """Whether the first row begins an episode, or goes on with the last one of the run before."""
        return before is None or before.ended or bool(self.labels[0] != before.labels[1])

    @classmethod
    def joined(cls, runs: Sequence[EpisodeMarks]) -> EpisodeMarks:
        """The marks of runs of rows that follow one another."""
        offsets = np.cumsum([0, *(run.rows for run in runs)])
        kept = [
            slice(0 if run.begins_after(before) else 1, None)
            for run, before in zip(runs, [None, *runs[:-1]], strict=True)
        ]

        def moved(rows: Iterable[Integers]) -> Integers:
            return np.concatenate([part + offset for part, offset in zip(rows, offsets[:-1], strict=True)])

        return cls(
            rows=int(offsets[-1]),
            labels=(runs[0].labels[0], runs[-1].labels[1]),
            ended=runs[-1].ended,
            starts=moved(run.starts[some] for run, some in zip(runs, kept, strict=True)),
            resets=np.concatenate([run.resets[some] for run, some in zip(runs, kept, strict=True)]),
            terminated=moved(run.terminated for run in runs),
            truncated=moved(run.truncated for run in runs),
            turns=_joined_turns(runs, offsets),
        )

    def refuse_turns(self) -> EpisodeMarks:
        """Refuse episodes that take turns row by row; all rows of a log are needed for that."""
        if self.turns is not None and self.rows > 2:
            refuse_turns(self.turns.labels, self.turns.rows)
        return self

    def table(self) -> EpisodeTable:
        """The lengths and ends of the episodes."""
        flags = []
        for rows in (self.terminated, self.truncated):
            flag = np.zeros(len(self.starts), dtype=np.bool_)
            flag[np.searchsorted(self.starts, rows, side="right") - 1] = True
            flags.append(flag)
        return EpisodeTable(np.diff(self.starts, append=self.rows), self.resets, *flags)


def _joined_turns(runs: Sequence[EpisodeMarks], offsets: Integers) -> Turns | None:
    """The turns of runs that follow one another; None where a label goes on within or between them.

    They take memory for rows that are episodes of their own, as the marks of any episode do, and none for other rows.
    """
    parts = [run.turns for run in runs]
    goes_on = any(run.labels[0] == before.labels[1] for before, run in pairwise(runs))
    held = [part for part in parts if part is not None]
    if goes_on or len(held) < len(parts):
        return None
    rows = [part.rows + offset for part, offset in zip(held, offsets[:-1], strict=True)]
    return Turns(np.concatenate([part.labels for part in held]), np.concatenate(rows))


def marks(source: Source, first: int, last: int) -> EpisodeMarks | None:
    """The episode marks of the rows from one number up to another; None where no column tells anything."""
    runs = [EpisodeMarks.of(columns) for columns in source.flags(first, last)]
    return EpisodeMarks.joined(runs) if runs else None


def find_episodes(source: Source) -> EpisodeTable:
    """The lengths and ends of the episodes, by the flags and labels of all rows; episodes in turns are refused."""
    found = marks(source, 0, source.rows)
    if found is None:  # no flags at all: the reader says which are missing
        tuple(source.read(0, 1, 1))
        raise AssertionError("a table without flags was read")
    return found.refuse_turns().table()
