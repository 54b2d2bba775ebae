"""How bad can it get? The distribution of the return, not only its mean: its CDF with a band, quantiles, CVaR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import optimize

from ope_vpm.arrays import Array, Floats, is_number
from ope_vpm.ope.inference.doubts import Level
from ope_vpm.ope.inference.uncertainty import LEVEL, Interval
from ope_vpm.outside import Shown, printable
from ope_vpm.threads import cached_property

Source = Literal["counted model", "weighted episodes"]
STEEPEST = 50.0
"""The steepest tilt, per standard deviation of the returns: beyond it all weight already sits on one end of them."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Weighted returns, which stand for a distribution."""

    returns: Floats
    """In rising order."""
    weights: Floats
    """The weight of each; they sum to 1."""

    @classmethod
    def of(cls, returns: Floats, weights: Floats | None = None) -> Sample:
        """Make a sample of returns in any order, with weights on any scale; equal ones if not given."""
        order = np.argsort(returns, kind="stable")
        weights = np.ones(len(returns)) if weights is None else weights
        return cls(returns[order], weights[order] / weights.sum())

    @cached_property
    def _cumulative(self) -> Floats:
        return np.minimum(np.cumsum(self.weights), 1.0)

    @property
    def mean(self) -> float:
        """E[R]."""
        return float(self.weights @ self.returns)

    @property
    def variance(self) -> float:
        """E[(R - E[R])²]."""
        return float(self.weights @ (self.returns - self.mean) ** 2)

    def cdf(self, at: Any) -> Array:
        """P(R ≤ x) at one number, or at each of several."""
        below = np.searchsorted(self.returns, at, side="right")
        found: Array = np.append(0.0, self._cumulative)[below]
        return found

    def probability_below(self, threshold: float) -> float:
        """P(R < threshold)."""
        below = int(np.searchsorted(self.returns, threshold, side="left"))
        return float(self._cumulative[below - 1]) if below else 0.0

    def quantile(self, level: float) -> float:
        """The least return r with P(R ≤ r) ≥ level."""
        _check_level(level, "quantile")
        place = int(np.searchsorted(self._cumulative, level * (1 - 1e-12), side="left"))
        return float(self.returns[min(place, len(self.returns) - 1)])

    def cvar(self, level: float) -> float:
        """The mean of the worst share of returns: E[R | R among the lowest `level`] (conditional value at risk)."""
        _check_level(level, "cvar")
        taken = np.clip(level - (self._cumulative - self.weights), 0.0, self.weights)
        return float(taken @ self.returns / taken.sum())

    def tilted(self, mean: float) -> Sample:
        """The distribution nearest to this one, in relative entropy, that has a given mean.

        Weights are multiplied by exp(λR) with the λ that gives the mean; where it lies outside of the returns, the
        nearest possible.
        """
        deviation = np.sqrt(self.variance)
        if deviation <= 1e-12 * np.abs(self.returns).max():  # all are equal but for rounding
            return self
        scaled = (self.returns - self.mean) / deviation

        def at(slope: float) -> Sample:
            exponent = slope * scaled
            weights = self.weights * np.exp(exponent - exponent.max())
            return Sample(self.returns, weights / weights.sum())

        def gap(slope: float) -> float:
            return float((at(slope).mean - mean) / deviation)

        if gap(-STEEPEST) >= 0:
            return at(-STEEPEST)
        if gap(STEEPEST) <= 0:
            return at(STEEPEST)
        return at(float(optimize.brentq(gap, -STEEPEST, STEEPEST, xtol=1e-10)))


def _check_level(level: float, name: str) -> None:
    if not is_number(level) or not 0 < level <= 1:
        raise ValueError(f"{name} takes a probability above 0 and at most 1, such as 0.1: got {level!r}")


@dataclass(frozen=True, eq=False)
class Distribution(Shown):
    """The distribution of the return of one episode, or of the discounted return, under the target policy."""

    sample: Sample
    """The returns; their mean is the value's."""
    draws: tuple[Sample, ...]
    """The returns of bootstrap draws of the log's episodes, as far apart as the value's error."""
    source: Source
    """Where the returns come from."""
    gamma: float
    verdict: Level
    """The value's verdict, or a worse one."""
    reasons: tuple[str, ...]
    stretch: float = 1.0
    """The factor by which bands and intervals are wider than the spread of the draws."""

    @property
    def mean(self) -> float:
        """The value: E[R]."""
        return self.sample.mean

    @property
    def variance(self) -> float:
        """E[(R - E[R])²], of single returns."""
        return self.sample.variance

    def cdf(self, at: Any) -> Array:
        """P(R ≤ x) at one number, or at each of several."""
        return self.sample.cdf(at)

    def band(self, at: Any) -> tuple[Array, Array]:
        """Lower and upper end of a band that holds the whole CDF in 95 of 100 data sets, at the same places."""
        found = self.cdf(at)
        return np.maximum(found - self.half_width, 0.0), np.minimum(found + self.half_width, 1.0)

    @cached_property
    def half_width(self) -> float:
        """The half width of the band: 95 % of the draws have CDFs that are nowhere farther away."""
        grid = np.unique(np.concatenate([self.sample.returns, *(each.returns for each in self.draws)]))
        here = self.sample.cdf(grid)
        return self.stretch * float(np.quantile([np.abs(each.cdf(grid) - here).max() for each in self.draws], LEVEL))

    def probability_below(self, threshold: float) -> float:
        """P(R < threshold)."""
        if not is_number(threshold):
            raise ValueError(f"a threshold must be a finite number: got {threshold!r}")
        return self.sample.probability_below(threshold)

    def quantile(self, level: float) -> float:
        """The least return r with P(R ≤ r) ≥ level."""
        return self.sample.quantile(level)

    def cvar(self, level: float) -> float:
        """The mean of the worst share of returns, E[R | R among the lowest `level`]."""
        return self.sample.cvar(level)

    def interval(self, statistic: Callable[[Sample], float]) -> Interval:
        """A 95 % interval of any number of the distribution.

        Args:
            statistic: from a sample to the number, as in `found.interval(lambda each: each.cvar(0.1))`.
        """
        here = statistic(self.sample)
        ends = np.quantile([statistic(each) for each in self.draws], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        low, high = here + self.stretch * (ends - here)
        return float(low), float(high)

    def next_episode(self, level: float = LEVEL) -> Interval:
        """A prediction interval of one future episode's return, of probability at least `level`.

        Not to be taken for the interval of the value, which is that of a mean: this one does not shrink as the log
        grows. Quantiles of the returns of all draws together, so that what is not known about the distribution widens
        it.
        """
        if not is_number(level) or not 0 < level < 1:
            raise ValueError(f"level must be a probability between 0 and 1, such as 0.95: got {level!r}")
        returns = np.concatenate([each.returns for each in self.draws])
        weights = np.concatenate([each.weights for each in self.draws])
        pooled = Sample.of(returns, weights)
        return pooled.quantile((1 - level) / 2), pooled.quantile((1 + level) / 2)

    @property
    def what(self) -> str:
        """Which return it is."""
        return "return of an episode" if self.gamma == 1 else f"discounted return at γ = {self.gamma:.12g}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        levels = (0.05, 0.25, 0.5, 0.75, 0.95)
        return {
            "what": self.what,
            "source": self.source,
            "mean": self.mean,
            "standard_deviation": float(np.sqrt(self.variance)),
            "quantiles": {f"{level:g}": self.quantile(level) for level in levels},
            "cvar_10": self.cvar(0.1),
            "cvar_10_interval": list(self.interval(lambda each: each.cvar(0.1))),
            "band_half_width": self.half_width,
            "next_episode": list(self.next_episode()),
            "verdict": self.verdict,
            "reasons": list(self.reasons),
        }

    def plot(self, ax: Any = None) -> Any:
        """The CDF and its band on axes of matplotlib, which are returned."""
        from ope_vpm.ope.reporting.plots import plot_cdf

        return plot_cdf(self, ax)

    def __str__(self) -> str:
        low, high = self.interval(lambda each: each.cvar(0.1))
        first, last = self.next_episode()
        lines = [
            f"{self.what}, by the {self.source}  {self.verdict}",
            *(f"  - {reason}" for reason in self.reasons),
            f"  mean {self.mean:.6g}, standard deviation {np.sqrt(self.variance):.6g}, median {self.quantile(0.5):.6g}",
            f"  the worst tenth averages {self.cvar(0.1):.6g} [{low:.6g}, {high:.6g}]",
            f"  one future episode lies in [{first:.6g}, {last:.6g}] with probability 95 % (not the value's interval)",
        ]
        return "\n".join(map(printable, lines))
