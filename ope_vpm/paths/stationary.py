"""The long-run law of a logged quantity: queue lengths, prices, positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Floats
from ope_vpm.chain import VPM, Expectation, StationaryEstimate, Transitions

MOST_STATES = 10_000
"""Whole numbers over a wider range than this are taken for points: counting them one by one would not pay."""
BINS = 20
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class StationaryLaw:
    """The stationary law of one logged quantity."""

    estimate: StationaryEstimate
    mean: Expectation
    """The long-run mean, with a `standard_error`."""
    logged_mean: float
    """The plain mean of what was logged."""
    values: Floats
    """Where the law has mass: whole numbers, or the centres of bins."""
    probabilities: Floats
    """The share of each of `values`; they sum to 1."""

    @property
    def counts(self) -> bool:
        """Whether the quantity is a whole number."""
        return self.estimate.transitions.finite

    def quantile(self, q: float) -> float:
        """The smallest value that at least a share q of the law does not exceed."""
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile's share must be in [0, 1]: got {q}")
        if self.counts:
            values, shares = self.values, self.probabilities
        else:
            order = np.argsort(self.estimate.transitions.x[:, 0])
            values, shares = self.estimate.transitions.x[order, 0], self.estimate.weights[order]
        reached = np.cumsum(shares) / shares.sum()
        return float(values[min(int(np.searchsorted(reached, q - 1e-12)), len(values) - 1)])

    def __str__(self) -> str:
        quantiles = "   ".join(f"{q:.0%}: {self.quantile(q):.4g}" for q in QUANTILES)
        return "\n".join(
            [
                f"long-run mean  {float(self.mean):.5g} ± {1.96 * self.mean.standard_error:.2g} (95 %)",
                f"logged mean    {self.logged_mean:.5g}",
                f"quantiles      {quantiles}",
                *_bars(self.values, self.probabilities),
            ]
        )


def stationary(
    paths: npt.ArrayLike | Sequence[npt.ArrayLike], *, lag: int = 1, seed: int = 0, **options: Any
) -> StationaryLaw:
    """Estimate the long-run law of a quantity from trajectories of it, even if they are too short to show it.

    Args:
        paths: one trajectory of shape (T,), or a list of several of any lengths. Whole numbers not below 0 are
            states of a counted chain, and share what they show about increments (lengths of a queue do);
            other numbers are points, for the kernel solver.
        lag: pairs are so many steps apart. Where one step hardly moves (a finely sampled diffusion), take more.
        seed: makes everything random repeatable.
        options: for `VPM`.
    """
    arrays = _as_list(paths)
    joined = np.concatenate(arrays)
    if _are_counts(joined):
        data = Transitions.from_paths([array.astype(np.int64) for array in arrays], lag=lag)
        options = {"pool_increments": True} | options
    else:
        data = Transitions.from_paths([array.astype(np.float64) for array in arrays], lag=lag)
    estimate = VPM(seed=seed, **options).fit(data)
    x = np.asarray(data.x, dtype=np.float64).reshape(len(data))
    values, shares = _law(estimate, x)
    return StationaryLaw(estimate, _mean(estimate, x, values, shares), float(joined.mean()), values, shares)


def _as_list(paths: Any) -> list[npt.NDArray[Any]]:
    several = isinstance(paths, list | tuple) and len(paths) > 0 and np.ndim(paths[0]) > 0
    arrays = [np.asarray(path) for path in (paths if several else [paths])]
    for number, array in enumerate(arrays):
        if array.ndim != 1 or array.dtype.kind not in "iuf":
            raise ValueError(
                f"a path must be numbers of shape (T,): path {number} has shape {array.shape}, dtype {array.dtype} "
                "(several coordinates: Transitions.from_paths and VPM)"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"a path must be finite: path {number}, step {int(np.argmin(np.isfinite(array)))} is not")
    return arrays


def _are_counts(values: npt.NDArray[Any]) -> bool:
    whole = values.dtype.kind in "iu" or bool((values == np.rint(values)).all())
    return whole and values.size > 0 and values.min() >= 0 and values.max() - values.min() < MOST_STATES


def _law(estimate: StationaryEstimate, x: Floats) -> tuple[Floats, Floats]:
    """Values and their probabilities: every whole number in the range, or bins between the extremes."""
    if estimate.transitions.finite:
        successors = estimate.transitions.x_next
        states = np.arange(int(min(x.min(), successors.min())), int(max(x.max(), successors.max())) + 1)
        return states.astype(np.float64), estimate.probabilities(states)
    shares, edges = np.histogram(x, bins=BINS, weights=np.maximum(estimate.weights, 0))
    return (edges[1:] + edges[:-1]) / 2, shares / shares.sum()


def _mean(estimate: StationaryEstimate, x: Floats, values: Floats, shares: Floats) -> Expectation:
    """Of the law itself for counts, which may reach beyond the rows; of the weighted rows otherwise."""
    weighted = estimate.expectation(x)
    if not estimate.transitions.finite:
        return weighted
    return Expectation(float(values @ shares / shares.sum()), weighted.standard_error)


def _bars(values: Floats, shares: Floats, most: int = 24, width: int = 40) -> list[str]:
    """The law as text; what lies beyond the first lines is summed up in one."""
    longest = max(float(shares.max()), 1e-12)
    lines = [
        f"{value:>10.4g}  {share:6.2%}  {'█' * round(width * share / longest)}"
        for value, share in zip(values[:most], shares[:most], strict=True)
    ]
    if len(values) > most:
        lines.append(f"{'beyond':>10}  {shares[most:].sum():6.2%}")
    return lines
