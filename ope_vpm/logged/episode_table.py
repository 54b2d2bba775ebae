"""Facts about whole episodes and about the rewards, in a few numbers an episode, however many rows there are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers


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

    def ended(self, limit: int | None) -> Bools:
        """The episodes that a termination or a time limit ended, but for those that were cut before that limit."""
        early = np.zeros(len(self), dtype=np.bool_)
        if limit is not None:
            early = (self.lengths < limit) & self.from_reset
        ended: Bools = self.terminated | (self.truncated & ~early)
        return ended

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

    @property
    def size(self) -> float:
        """The largest absolute reward."""
        return max(abs(self.least), abs(self.largest))
