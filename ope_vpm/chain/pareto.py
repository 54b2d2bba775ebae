"""The tail of weights: Pareto k̂, by which PSIS and ArviZ tell whether a weighted mean can be trusted.

The largest weights are compared with a generalised Pareto distribution, whose shape k says how many moments the weights
have: above 0.5 no variance, above 1 no mean. Up to about 0.7 weighted means behave in practice (Vehtari et al. 2024).
The shape is found by the method of Zhang and Stephens (2009), a mean over a grid with a weak prior, as they do it.
"""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats

FEWEST = 5
"""Weights beyond the threshold that a fit needs; the packages ask for as many."""
PRIOR_SHAPE, PRIOR_WEIGHT = 0.5, 10
"""The estimate is drawn towards 0.5 with the weight of ten tail values, as in the packages."""
LIMIT = 0.7
"""The k̂ above which the tail is called heavy. The shape knows nothing of the scale: where the effective sample size is
near the number of rows, even a heavy tail has little weight."""


def pareto_k(weights: Floats) -> float:
    """The shape k̂ of the weights' upper tail; 0 where the largest are all alike, NaN where there are too few.

    Args:
        weights: not negative, on any scale.
    """
    used = np.sort(np.asarray(weights, dtype=np.float64))
    largest = used[-1] if len(used) else 0.0
    tail = int(np.ceil(min(0.2 * len(used), 3 * np.sqrt(len(used)))))
    if largest <= 0 or tail < FEWEST or len(used) <= tail:
        return float("nan")
    threshold = max(used[-tail - 1], np.finfo(np.float64).tiny)
    beyond = (used[used > threshold] - threshold) / largest
    if len(beyond) == 0:
        return 0.0
    return float("nan") if len(beyond) < FEWEST else _shape(beyond)


def _shape(values: Floats) -> float:
    """The shape of a generalised Pareto distribution on [0, ∞), from its sorted values."""
    count = len(values)
    grid = 30 + int(np.sqrt(count))
    quartile = values[int(count / 4 + 0.5) - 1]
    b = 1 / values[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quartile)
    shapes = np.log1p(-b[:, None] * values).mean(axis=1)
    rate = np.divide(-b, shapes, out=np.full(grid, 1 / values.mean()), where=shapes != 0)  # its limit as b goes to 0
    likelihood = count * (np.log(rate) - shapes)  # but for a constant
    weight = np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    shape = float(np.log1p(-float(b @ weight) * values).mean())
    return (count * shape + PRIOR_WEIGHT * PRIOR_SHAPE) / (count + PRIOR_WEIGHT)
