"""Sums of a second pass over the rows of each episode, which the parts of a long log bring together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import GroupSums


@dataclass(frozen=True)
class PairSums:
    """Sums of a second pass over the rows of each episode, for m columns of coefficients; those of parts are merged."""

    place: int
    """The number of the first episode."""
    groups: GroupSums
    """Over the rows of each episode."""
    rows: Integers
    """(episodes,): how many there are."""
    first: Floats
    """(episodes, m): E_π[Φ(s₀, ·)ᵀθ] at the initial states; 0 where an episode does not begin here at a reset."""

    def merge(self, other: PairSums) -> PairSums:
        """The sums of both parts; an episode may have rows in both."""
        place, total = min(self.place, other.place), max(self._last, other._last)
        mine, theirs = (slice(each.place - place, each._last - place) for each in (self, other))
        rows = np.zeros(total - place, dtype=np.int64)
        first = np.zeros((total - place, self.first.shape[1]))
        for part, where in ((self, mine), (other, theirs)):
            rows[where] += part.rows
            first[where] += part.first
        return PairSums(place, self.groups.merge(other.groups, mine, theirs), rows, first)

    @property
    def _last(self) -> int:
        return self.place + len(self.rows)
