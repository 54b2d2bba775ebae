"""Distances between an estimated distribution and the true one."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from ope_vpm.arrays import Floats

FLOOR = 1e-3
"""The weight of the uniform distribution that is mixed into an estimate before log KL(true‖estimate), because zeros
would make it infinite. A round number, small beside the errors that are compared."""


def log_kl(first: Floats, second: Floats) -> float:
    """Return log KL(first‖second), the logarithm of Σ first·log(first/second) over states where `first` is positive.

    The divergence is taken as at least 1e-13, the size of rounding errors, so that the logarithm is at least -30.
    """
    on = first > 0
    divergence = float(np.sum(first[on] * np.log(first[on] / second[on])))
    return float(np.log(max(divergence, 1e-13)))


def log_kl_both_ways(truth: Floats, estimate: Floats) -> tuple[float, float]:
    """Return log KL(truth ‖ 0.999·estimate + 0.001·uniform) and log KL(estimate ‖ truth)."""
    mixed = (1 - FLOOR) * estimate + FLOOR / len(estimate)
    return log_kl(truth, mixed), log_kl(estimate, truth)


def median_distance(sample: Floats) -> float:
    """Return the kernel width of the paper's MMD: the median pairwise distance, of the first 1000 draws.

    A sample median of half a million pairs varies little, and all pairs of a larger sample would take much memory.
    """
    return float(np.median(pdist(sample[:1000].reshape(min(len(sample), 1000), -1))))


def median_distance_of_draws(centres: Floats, probabilities: Floats) -> float:
    """Return the median distance between two independent draws from a distribution on cells along a line."""
    gap = np.abs(centres[:, None] - centres).ravel()
    order = np.argsort(gap, kind="stable")
    cumulative = np.cumsum(np.outer(probabilities, probabilities).ravel()[order])
    return float(gap[order][np.searchsorted(cumulative, 0.5 * cumulative[-1])])


def log_mmd(first: Floats, second: Floats, centres: Floats, width: float) -> float:
    """Return the logarithm of the maximum mean discrepancy (MMD) of two distributions, with a Gaussian kernel.

    In two dimensions the kernel is a product of one-dimensional ones, so MMD² = Σ δ·(GδG), where δ is the difference of
    the cells' probabilities and G the kernel between cell centres: exact up to the size of a cell. MMD² is taken as at
    least 1e-26, the size of rounding errors.

    Args:
        first: probabilities of the cells, shape (m,) or (m, m).
        second: those of the other distribution, on the same cells.
        centres: the m cell centres along one axis.
        width: σ of the kernel exp(-‖x-y‖²/2σ²).
    """
    kernel = np.exp(-((centres[:, None] - centres) ** 2) / (2 * width**2))
    difference = first - second
    smooth = kernel @ difference if first.ndim == 1 else kernel @ difference @ kernel
    return float(np.log(max(np.sum(difference * smooth), 1e-26)) / 2)


def histogram(sample: Floats, weights: Floats | None, centres: Floats) -> Floats:
    """Return the share of a weighted sample in each cell; values outside all cells count in the nearest one.

    Args:
        sample: shape (n,) for cells along a line, (n, 2) for cells of a square.
        weights: of the sample; None: equal weights.
        centres: of equally wide cells along one axis.
    """
    step = centres[1] - centres[0]
    number = np.clip(np.rint((sample - centres[0]) / step).astype(int), 0, len(centres) - 1)
    shape = (len(centres),) * (1 if sample.ndim == 1 else sample.shape[1])
    flat = number if sample.ndim == 1 else np.ravel_multi_index(tuple(number.T), shape)
    counts = np.bincount(flat, weights=weights, minlength=int(np.prod(shape)))
    share: Floats = counts.reshape(shape) / counts.sum()
    return share
