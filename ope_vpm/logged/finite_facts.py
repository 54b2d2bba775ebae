"""What one pass over a streamed log of finite states finds out, so that its steps can be counted in the next one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.logged.streamed import Part

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
        """Of some rows."""
        return cls(*np.unique(rewards, return_counts=True)).limited()

    def merge(self, other: RewardCounts) -> RewardCounts:
        """Of two parts."""
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


@dataclass(frozen=True)
class FiniteFacts:
    """Of the episodes from one number on."""

    first: int
    initial: Array
    """(episodes[, k]): the first observation of each episode, 0 where it is not here."""
    reached: Array
    """The largest number of each coordinate of a state, before or after a step."""
    rewards: RewardCounts

    def merge(self, other: FiniteFacts) -> FiniteFacts:
        """Of two parts that follow one another."""
        shared = self.first + len(self.initial) - other.first  # 1 where an episode goes on, otherwise 0
        return FiniteFacts(
            self.first,
            np.concatenate([self.initial, other.initial[shared:]]),
            np.maximum(self.reached, other.reached),
            self.rewards.merge(other.rewards),
        )


def finite_facts_of(part: Part) -> FiniteFacts:
    """Look at the rows of one part."""
    initial = np.array(part.observations[part.starts])
    if part.earlier:
        initial[0] = 0
    reached = np.maximum(part.observations.max(axis=0), part.next_observations.max(axis=0))
    return FiniteFacts(part.first_episode, initial, reached, RewardCounts.of(part.rewards))
