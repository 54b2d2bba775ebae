"""Whether the means of chains still move: of the plain draws from first to last, and of the weighted draws in one step.

A slow chain moves little in one step, however far it has to go: with autocorrelation 0.99 a mean that is two standard
deviations off moves by 0.02 of them. So a change in one step counts times the steps over which the chain forgets.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from ope_vpm.arrays import Floats

DRIFT_LEVEL = 0.001
"""The level of the test for drifting means, of all coordinates together. Low, because a false alarm would recommend
weights that nobody needs; there was one in 840 sets of stationary autoregressive chains."""
FEWEST_CHAINS = 5
"""Chains that the test for drifting means needs: with fewer, the spread between them is hardly known."""


def means_drift(chains: Floats) -> bool:
    """Test whether the chains' last draws differ from their first ones in the mean, by Student's t over chains.

    A slow drift of all chains is seen here long before the residual of bounded functions shows it.

    Args:
        chains: shape (chains, draws, d).
    """
    number, _, size = chains.shape
    if number < FEWEST_CHAINS:
        return False
    change = chains[:, -1] - chains[:, 0]
    error = change.std(axis=0, ddof=1) / np.sqrt(number)
    limit = stdtrit(number - 1, 1 - DRIFT_LEVEL / (2 * size))
    return bool((np.abs(change.mean(axis=0)) > limit * error).any())


def distance_left(chains: Floats, ratio: Floats) -> float:
    """Return how far a weighted mean may still be from the stationary one, in the weighted draws' standard deviations.

    With the regression x' = c + Ax + e over all rows, a weighted mean whose next step is E_w[x' - x] has the distance
    b = (I - A)⁻¹E_w[x' - x] left to go, and the standard error s that the weighted (I - A)⁻¹e have. Returned is the
    largest √(b² + s²) over coordinates; ∞ where the regression shows no way back to any mean.

    Args:
        chains: shape (chains, draws, d).
        ratio: the weight of each draw that has a successor, shape (chains·(draws - 1),).
    """
    size = chains.shape[2]
    moving = np.ptp(chains, axis=(0, 1)) > 0
    x, after = (part.reshape(-1, size)[:, moving] for part in (chains[:, :-1], chains[:, 1:]))
    scale, centre = x.std(axis=0), x.mean(axis=0)
    if len(x) <= 2 * x.shape[1] or not (scale > 0).all():
        return 0.0  # too few rows to tell
    x, after = (x - centre) / scale, (after - centre) / scale
    slope = np.linalg.lstsq(x, after - after.mean(axis=0), rcond=None)[0]
    if np.linalg.eigvals(slope).real.max() >= 1:
        return float("inf")
    forgets = np.linalg.inv(np.eye(len(slope)) - slope)
    weight = (ratio / ratio.sum())[:, None]
    mean, step = (weight * x).sum(axis=0), (weight * (after - x)).sum(axis=0)
    noise = (after - x - step - (x - mean) @ (slope - np.eye(len(slope)))) @ forgets
    error = np.square(weight * noise).sum(axis=0)
    variance = (weight * (x - mean) ** 2).sum(axis=0)
    return float(np.sqrt(((step @ forgets) ** 2 + error) / variance).max())
