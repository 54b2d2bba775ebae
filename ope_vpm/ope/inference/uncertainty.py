"""How far an estimate may lie from the truth: interchangeable ways to a standard error and an interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import stats

from ope_vpm.arrays import Floats
from ope_vpm.ope.inference.influence import EpisodeSums
from ope_vpm.ope.log import Log

REPLICATES = 200
"""Bootstrap draws: they cost one product of matrices, and their 2.5 % quantiles are good to a tenth of their spread."""
LEVEL = 0.95
"""The probability with which an interval is meant to hold the truth."""
EQUAL = 1e-9
"""Replicates whose spread is below this share of the value are equal but for rounding."""

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Uncertainty(ABC):
    """A way to a standard error and an interval; bias that is suspected widens both."""

    suspected_bias: float = 0.0
    """How far the value may be off, as large as one standard error would be."""

    @property
    def sums(self) -> EpisodeSums | None:
        """How each episode moves the estimate; None where that is not known."""
        return None

    @abstractmethod
    def interval(self, value: float, log: Log, seed: int) -> tuple[float, Interval]:
        """The standard error and the interval of a value, from two episodes or more."""


@dataclass(frozen=True, kw_only=True)
class Bootstrap(Uncertainty):
    """Episodes drawn with replacement; nothing is fitted again, only how often each counts in the sums changes."""

    episodes: EpisodeSums

    @property
    def sums(self) -> EpisodeSums:
        """How each episode moves the estimate."""
        return self.episodes

    def interval(self, value: float, log: Log, seed: int) -> tuple[float, Interval]:
        """Percentiles of the replicates."""
        drawn = replicates(self.episodes.in_order(log.episodes), seed) + (value - float(self.episodes.ratios.sum()))
        count = len(self.episodes.numerator)
        spread = float(drawn.std() * np.sqrt(count / (count - 1)))
        interval = percentile_interval(drawn, value, count, self.suspected_bias)
        return float(np.hypot(spread, self.suspected_bias)), interval


@dataclass(frozen=True, kw_only=True)
class Likelihood(Bootstrap):
    """An interval that the estimator found by likelihood; its standard error is that of the bootstrap."""

    ends: Interval

    def interval(self, value: float, log: Log, seed: int) -> tuple[float, Interval]:
        """The interval that was found, stretched by as much as suspected bias stretches the standard error."""
        error, _ = super().interval(value, log, seed)
        spread = np.sqrt(max(error**2 - self.suspected_bias**2, 0.0))
        wider = error / spread if spread > 0 else 1.0
        low, high = (value + wider * (end - value) for end in self.ends)
        return error, (low, high)


@dataclass(frozen=True, kw_only=True)
class Spread(Uncertainty):
    """The spread of several models' values, each fitted to its own draw of the episodes."""

    members: Floats

    def interval(self, value: float, log: Log, seed: int) -> tuple[float, Interval]:
        """Student's quantiles around the mean of the members."""
        spread = float(self.members.std(ddof=1))
        quantiles = stats.t.ppf((np.arange(REPLICATES) + 0.5) / REPLICATES, len(self.members) - 1)
        interval = percentile_interval(value + spread * quantiles, value, log.data.n_episodes, self.suspected_bias)
        return float(np.hypot(spread, self.suspected_bias)), interval


def replicates(sums: EpisodeSums, seed: int, number: int = REPLICATES) -> Floats:
    """The estimate on `number` draws of as many episodes, with replacement.

    A draw in which a ratio has no denominator takes that ratio from all episodes.
    """
    rng = np.random.default_rng(seed)
    episodes = len(sums.numerator)
    times = rng.multinomial(episodes, np.full(episodes, 1 / episodes), size=number).astype(np.float64)
    above, below = times @ sums.numerator, times @ sums.denominator
    ratio = np.divide(above, below, out=np.broadcast_to(sums.ratios, above.shape).copy(), where=below > 0)
    return cast(Floats, ratio.sum(axis=1))


def percentile_interval(drawn: Floats, value: float, episodes: int, bias: float) -> Interval:
    """Percentiles of the replicates around the value, honest about few episodes and about bias.

    With E episodes a percentile interval is too short by about √((E-1)/E), and because the normal quantile is below
    Student's. Both are mended by wider percentiles, Φ(-√(E/(E-1))·t_{E-1}) (Hesterberg, What Teachers Should Know About
    the Bootstrap, 2015, section 5.2). A suspected bias b widens both sides by √(1 + (b/se)²): as if b were one more
    standard error.
    """
    quantile = stats.t.ppf(0.5 + LEVEL / 2, episodes - 1)
    tail = float(stats.norm.cdf(-np.sqrt(episodes / (episodes - 1)) * quantile))
    low, high = np.quantile(drawn - value, [tail, 1 - tail])
    spread = float(drawn.std())
    if spread <= EQUAL * (abs(value) + abs(bias)):
        return float(value + low - quantile * bias), float(value + high + quantile * bias)
    factor = float(np.sqrt(1 + (bias / spread) ** 2))
    return float(value + factor * low), float(value + factor * high)
