"""Normal distributions whose draws are clipped to bounds, or squashed by tanh: densities and moments."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import norm

from ope_vpm.arrays import Bools, Floats

LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
"""Minus the log-density of a standard normal distribution at 0."""
NODES = 100
"""Quantiles over which tanh of a Gaussian is averaged: moments of actions in [-1, 1] are then right to about 1e-3,
and smooth in the mean, which draws are not."""


def log_densities(z: Floats, std: Floats) -> Floats:
    """The log-density of each coordinate, in the units of the actions, where z = (a - mean)/std."""
    logs: Floats = -0.5 * np.square(z) - np.log(std) - LOG_ROOT_TWO_PI
    return logs


def clipped_log_densities(z: Floats, std: Floats, below: Bools, above: Bools) -> Floats:
    """The log-density of each coordinate, and where it was clipped the log-probability of the tail beyond the bound.

    Args:
        z: (a - mean)/std, with a the bound where the draw was clipped.
        std: the standard deviation, which broadcasts against `z`.
        below: which entries were clipped to the lower bound.
        above: which entries were clipped to the upper bound.
    """
    logs = log_densities(z, std)
    logs[below], logs[above] = log_ndtr(z[below]), log_ndtr(-z[above])
    return logs


def clipped_moments(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """E[clip(ξ)] and E[clip(ξ)²] of a standard normal ξ that is clipped to [low, high]; bounds may be infinite."""
    inside = norm.cdf(high) - norm.cdf(low)
    first = norm.pdf(low) - norm.pdf(high)
    second = inside
    for edge, beyond, sign in ((low, norm.cdf(low), 1.0), (high, norm.sf(high), -1.0)):
        at = np.where(np.isfinite(edge), edge, 0.0)
        first = first + at * beyond
        second = second + at**2 * beyond + sign * at * norm.pdf(at) * np.isfinite(edge)
    return first, second


def squashed_moments(mean: Floats, std: Floats, centre: Floats, half: Floats) -> tuple[Floats, Floats]:
    """E[a] and E[a²] of a = centre + half·tanh(mean + std·ξ) with a standard normal ξ.

    They are averages over equally likely quantiles of ξ rather than a Gauss-Hermite rule: tanh of a wide Gaussian is
    nearly a step, which polynomials follow badly.
    """
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    for node in norm.ppf((np.arange(NODES) + 0.5) / NODES):
        action = centre + half * np.tanh(mean + std * node)
        first += action / NODES
        second += action**2 / NODES
    return first, second
