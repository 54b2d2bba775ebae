"""What the logged rewards allow: no mean reward and no return of an episode lies beyond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.ope.adapter.ends import limit_of
from ope_vpm.ope.inference.uncertainty import Interval
from ope_vpm.ope.problem import Problem

ROUNDING = 1e-9
"""Of the largest reward: differences below it are rounding errors, which iterative solvers leave at about 1e-12."""


@dataclass(frozen=True)
class Hull:
    """The least and the largest value that the rewards allow; returns of episodes without a limit may be infinite."""

    low: float
    high: float

    @property
    def rounding(self) -> float:
        """How far beyond the ends a value may lie by rounding errors alone."""
        ends = [abs(end) for end in (self.low, self.high) if np.isfinite(end)]
        return ROUNDING * max(ends, default=0.0)

    @property
    def single(self) -> bool:
        """Whether only one value is possible."""
        return self.high - self.low <= self.rounding

    def nearest(self, value: float) -> float:
        """The possible value nearest to one; one that is not finite stays what it is."""
        return float(np.clip(value, self.low, self.high)) if np.isfinite(value) else value

    def beyond(self, interval: Interval) -> bool:
        """Whether an interval holds nothing that is possible."""
        low, high = interval
        return low > self.high + self.rounding or high < self.low - self.rounding

    def cut(self, interval: Interval) -> Interval:
        """The part of an interval that is possible; everything possible, where the interval holds nothing of it."""
        if self.beyond(interval):
            return self.low, self.high
        low, high = (float(np.clip(end, self.low, self.high)) for end in interval)
        return low, high


def rewards_hull(problem: Problem) -> Hull:
    """The hull of the logged rewards, and of 0 where episodes end for good: a mean over time cannot leave it."""
    rewards = problem.data.rewards
    ends = [0.0] if problem.on_end == "absorb" and problem.ending.any() else []
    return Hull(min([float(rewards.min()), *ends]), max([float(rewards.max()), *ends]))


def return_hull(problem: Problem) -> Hull:
    """The least and the largest return of an episode.

    Where only ends pay, as for a probability of survival, it is the hull of what they pay and of 0. Otherwise an
    episode has at least one step, and at most as many as a time limit that is part of the task leaves it.
    """
    data, ending = problem.data, problem.ending
    if not data.rewards[~ending].any():
        paid = data.rewards[ending]
        return Hull(float(paid.min(initial=0.0)), float(paid.max(initial=0.0)))
    limit = limit_of(data) if problem.time_limit == "restart" else None
    longest = np.inf if limit is None else float(limit)
    least, largest = float(data.rewards.min()), float(data.rewards.max())
    return Hull(least * longest if least < 0 else least, largest * longest if largest > 0 else largest)
