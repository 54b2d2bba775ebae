"""How good an estimator is, one pure function a metric.

Arrays have one row a run and one column a policy. Runs are independent data sets, policies share them; so every
standard error is a jackknife over runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np
from scipy.stats import rankdata

from ope_vpm.arrays import Floats

REPLICATES = 2000
SMALLEST = 1e-300
"""Stands for a squared error of 0 in a logarithm."""
ROUNDING = 1e-12
"""A standard error below this share of its metric is the floating point's."""
GOOD = 3.0
"""An estimate within so many on-policy errors of the truth counts as good, for the verdicts."""


def log_mse(error: Floats) -> float:
    """log₁₀ of the mean squared error over runs, averaged over policies: the paper's measure."""
    return float(np.log10(np.maximum((error**2).mean(axis=0), SMALLEST)).mean())


def absolute_error(error: Floats) -> float:
    """The mean of |error|."""
    return float(np.abs(error).mean())


def bias(error: Floats) -> float:
    """The mean error, with its sign."""
    return float(error.mean())


def floor_ratio(scaled: Floats) -> float:
    """RMSE over runs as a multiple of the on-policy mean's, geometric mean over policies; of error / floor."""
    return float(10 ** (log_mse(scaled) / 2))


def rank_correlation(value: Floats, truth: Floats) -> float:
    """Spearman's correlation of estimates and truths over policies, averaged over runs; 0 for equal estimates."""
    return float(np.mean([spearman(row, truth) for row in value]))


def spearman(first: Floats, second: Floats) -> float:
    """The correlation of ranks, ties at their mean; 0 where all of one are equal."""
    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (first, second))
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else 0.0


def regret(value: Floats, truth: Floats, k: int) -> float:
    """What is lost by running the k policies that look best and keeping the best of them, averaged over runs.

    As a share of the distance from the best policy to the worst; where estimates are equal, the expectation over
    the order in which they might be taken.
    """
    span = truth.max() - truth.min()
    if span == 0:
        return 0.0
    kept = [_expected_best(row, truth, min(k, len(truth))) for row in value]
    return float((truth.max() - np.mean(kept)) / span)


def _expected_best(value: Floats, truth: Floats, k: int) -> float:
    """The best truth among the k highest values, ties broken evenly."""
    last = np.sort(value)[::-1][k - 1]
    sure, tied = truth[value > last], np.sort(truth[value == last])
    drawn, many = k - len(sure), len(tied)
    best_sure = sure.max() if len(sure) else -np.inf
    # The largest of `drawn` out of `many` is the i-th smallest in C(i, drawn-1) of C(many, drawn) cases.
    chance = np.array([comb(i, drawn - 1) for i in range(many)]) / comb(many, drawn)
    return float(chance @ np.maximum(tied, best_sure))


def coverage(low: Floats, high: Floats, truth: Floats) -> float:
    """The share of intervals that hold the truth."""
    known = np.isfinite(low) & np.isfinite(high)
    return float(((low <= truth) & (truth <= high))[known].mean()) if known.any() else float("nan")


def width(low: Floats, high: Floats) -> float:
    """The mean width of the intervals."""
    known = np.isfinite(low) & np.isfinite(high)
    return float((high - low)[known].mean()) if known.any() else float("nan")


def verdicts_right(scaled: Floats, verdict: Floats) -> float:
    """The share of "reliable" that were within `GOOD` on-policy errors and of "unreliable" that were not.

    Verdicts are 1 (reliable), 0 (caution: it claims nothing and is not counted) and -1; NaN where none claims.
    """
    claimed = verdict != 0
    if not claimed.any():
        return float("nan")
    good = np.abs(scaled) <= GOOD
    return float((good == (verdict > 0))[claimed].mean())


def jackknife(metric: Callable[..., float], *arrays: Floats) -> tuple[float, float | None]:
    """A metric of some arrays with one row a run, and its standard error: √((n-1)/n · Σ (θ₋ᵢ - mean)²)."""
    runs = len(arrays[0])
    value = metric(*arrays)
    if runs < 2:
        return value, None
    left_out = np.array([metric(*(np.delete(array, run, axis=0) for array in arrays)) for run in range(runs)])
    left_out = left_out[np.isfinite(left_out)]
    if len(left_out) < 2:
        return value, None
    error = float(np.sqrt((len(left_out) - 1) * left_out.var()))
    return value, error if error > ROUNDING * abs(value) else 0.0


def chance_of_no_worse(
    best: Sequence[Floats], other: Sequence[Floats], seed: int = 0, replicates: int = REPLICATES
) -> float:
    """A one-sided p-value of the other's being worse than the best, by a bootstrap over runs, paired.

    Compared is the mean over settings and policies of the log MSE. Both are given setting by setting as errors of
    the same runs and policies, and the same runs are drawn for both. With n runs of a setting no p-value is below
    2⁻ⁿ, that of n signs alike: four runs prove nothing, of however many settings.
    """
    rng = np.random.default_rng(seed)
    difference = np.zeros(replicates)
    for ours, theirs in zip(best, other, strict=True):
        runs = len(ours)
        times = rng.multinomial(runs, np.full(runs, 1 / runs), size=replicates) / runs
        logs = [np.log10(np.maximum(times @ error**2, SMALLEST)).mean(axis=1) for error in (ours, theirs)]
        difference += logs[1] - logs[0]
    share = (1 + int((difference <= 0).sum())) / (replicates + 1)
    return max(share, 2.0 ** -min(len(errors) for errors in best))
