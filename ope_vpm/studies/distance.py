"""How far an estimated law is from the true one."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from ope_vpm.arrays import Floats

FLOOR = 1e-3
"""The share of the uniform law mixed into an estimate before log KL(true‖estimate): zeros would make it infinite."""


def log_kl(first: Floats, second: Floats) -> float:
    """The logarithm of Σ first·log(first/second), over states where `first` has mass; at least -30."""
    on = first > 0
    divergence = float(np.sum(first[on] * np.log(first[on] / second[on])))
    return float(np.log(max(divergence, 1e-13)))


def log_kl_both_ways(truth: Floats, estimate: Floats) -> tuple[float, float]:
    """Both directions: log KL(truth ‖ 0.999·estimate + 0.001·uniform), and log KL(estimate ‖ truth)."""
    mixed = (1 - FLOOR) * estimate + FLOOR / len(estimate)
    return log_kl(truth, mixed), log_kl(estimate, truth)


def median_distance(sample: Floats) -> float:
    """The kernel width of the paper's MMD: the median distance between points, of at most 1000."""
    return float(np.median(pdist(sample[:1000].reshape(min(len(sample), 1000), -1))))


def median_of_law(centres: Floats, law: Floats) -> float:
    """The median distance between two independent draws from a law on cells along a line."""
    gap = np.abs(centres[:, None] - centres).ravel()
    order = np.argsort(gap, kind="stable")
    reached = np.cumsum(np.outer(law, law).ravel()[order])
    return float(gap[order][np.searchsorted(reached, 0.5 * reached[-1])])


def log_mmd(first: Floats, second: Floats, centres: Floats, width: float) -> float:
    """The logarithm of the MMD between two laws on the same cells, with the Gaussian kernel of a width.

    In two dimensions the kernel is a product of one-dimensional ones, so MMD² = Σ δ·(GδG) with δ the
    difference of the laws and G the kernel between cell centres: exact up to the size of a cell.

    Args:
        first: probabilities of the cells, shape (m,) or (m, m).
        second: likewise.
        centres: the m cell centres along one axis.
        width: the kernel is exp(-‖x-y‖²/2·width²).
    """
    kernel = np.exp(-((centres[:, None] - centres) ** 2) / (2 * width**2))
    difference = first - second
    smooth = kernel @ difference if first.ndim == 1 else kernel @ difference @ kernel
    return float(np.log(max(np.sum(difference * smooth), 1e-26)) / 2)


def histogram(points: Floats, weights: Floats | None, centres: Floats) -> Floats:
    """The share of weighted points in each cell; points outside count in the nearest cell.

    Args:
        points: shape (n,) for cells along a line, (n, 2) for cells of a square.
        weights: of the points; None: equal.
        centres: of equally wide cells along one axis.
    """
    step = centres[1] - centres[0]
    number = np.clip(np.rint((points - centres[0]) / step).astype(int), 0, len(centres) - 1)
    shape = (len(centres),) * (1 if points.ndim == 1 else points.shape[1])
    flat = number if points.ndim == 1 else np.ravel_multi_index(tuple(number.T), shape)
    counts = np.bincount(flat, weights=weights, minlength=int(np.prod(shape)))
    share: Floats = counts.reshape(shape) / counts.sum()
    return share
