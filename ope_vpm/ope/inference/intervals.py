"""Intervals by the bootstrap over episodes, without fitting anything again.

A closed-form estimate is a sum of ratios of per-episode sums, v = Σ_k (Σ_e a_ek)/(Σ_e b_ek): exactly for the
logged mean and for weighted importance sampling, and to first order (its influence function) for solutions of
linear equations. Drawing episodes with replacement only changes how often each e counts in the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import stats

from ope_vpm.arrays import Floats, Integers, group_sums

REPLICATES = 200
LEVEL = 0.95


@dataclass(frozen=True)
class EpisodeSums:
    """Per-episode numerators and denominators, each (episodes, K)."""

    numerator: Floats
    denominator: Floats

    @classmethod
    def of_rows(cls, episode: Integers, count: int, numerator: Floats, denominator: Floats) -> EpisodeSums:
        """One ratio, its sums over each episode's rows."""
        return cls(group_sums(episode, numerator, count)[:, None], group_sums(episode, denominator, count)[:, None])

    def beside(self, other: EpisodeSums) -> EpisodeSums:
        """The ratios of both."""
        return EpisodeSums(
            np.hstack([self.numerator, other.numerator]), np.hstack([self.denominator, other.denominator])
        )

    def in_order(self, episodes: Integers) -> EpisodeSums:
        """The same with the episodes in another order."""
        return EpisodeSums(self.numerator[episodes], self.denominator[episodes])

    def scaled(self, factor: float) -> EpisodeSums:
        """The same with larger deviations."""
        return EpisodeSums(factor * self.numerator, self.denominator)

    @property
    def influence(self) -> Floats:
        """(episodes,): how much each episode moves the estimate, to first order; they sum to 0."""
        below = self.denominator.sum(axis=0)
        moved = np.divide(
            self.numerator - self.denominator * self.ratios, below, out=np.zeros_like(self.numerator), where=below != 0
        )
        return cast(Floats, moved.sum(axis=1))

    def replicates(self, seed: int, number: int = REPLICATES) -> Floats:
        """The estimate on `number` draws of as many episodes, with replacement.

        A draw in which a ratio has no denominator takes that ratio from all episodes.
        """
        rng = np.random.default_rng(seed)
        episodes = len(self.numerator)
        times = rng.multinomial(episodes, np.full(episodes, 1 / episodes), size=number).astype(np.float64)
        above, below = times @ self.numerator, times @ self.denominator
        ratio = np.divide(above, below, out=np.broadcast_to(self.ratios, above.shape).copy(), where=below > 0)
        return cast(Floats, ratio.sum(axis=1))

    @property
    def ratios(self) -> Floats:
        """Each of the K ratios over all episodes; 0 where the denominator is."""
        below = self.denominator.sum(axis=0)
        return cast(Floats, np.divide(self.numerator.sum(axis=0), below, out=np.zeros_like(below), where=below != 0))


def percentile_interval(replicates: Floats, value: float, episodes: int, bias: float) -> tuple[float, float]:
    """Percentiles of the replicates around the value, honest about few episodes and about bias.

    With E episodes a percentile interval is too short by about √((E-1)/E) and by the normal quantile standing
    in for Student's. Both are mended by taking wider percentiles, Φ(-√(E/(E-1))·t_{E-1}) (Hesterberg, What
    Teachers Should Know About the Bootstrap, 2015, section 5.2). A suspected bias b widens both sides by
    √(1 + (b/se)²): as if b were one more standard error.
    """
    quantile = stats.t.ppf(0.5 + LEVEL / 2, episodes - 1)
    tail = float(stats.norm.cdf(-np.sqrt(episodes / (episodes - 1)) * quantile))
    low, high = np.quantile(replicates - value, [tail, 1 - tail])
    spread = float(replicates.std())
    if spread <= 1e-9 * (abs(value) + abs(bias)):  # equal replicates, but for rounding
        return float(value + low - quantile * bias), float(value + high + quantile * bias)
    factor = float(np.sqrt(1 + (bias / spread) ** 2))
    return float(value + factor * low), float(value + factor * high)
