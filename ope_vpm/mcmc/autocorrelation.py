"""The effective sample size of autocorrelated chains."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats


def independent_draws(chains: Floats) -> float:
    """Return the effective sample size N / (1 + 2Σρ_k): the number of independent draws of equal precision.

    N is the number of all draws, and ρ_k the autocorrelation at lag k. Deviations are taken from the mean of all
    chains, so that chains with different means count as correlated (Gelman et al., Bayesian Data Analysis).

    Args:
        chains: one coordinate, shape (chains, draws).
    """
    return float(min(chains.size, chains.size / autocorrelation_time(chains - chains.mean())))


def autocorrelation_time(deviations: Floats) -> float:
    """Return the integrated autocorrelation time 1 + 2Σρ_k: how many successive draws tell as much as one independent.

    The sum ends where two successive ρ_k first add up to 0 or less (Geyer 1992). It is 1 for draws without variance.

    Args:
        deviations: of one coordinate from its mean, shape (chains, draws).
    """
    draws = deviations.shape[1]
    size = 2 ** int(np.ceil(np.log2(2 * draws)))
    power = np.abs(np.fft.rfft(deviations, size, axis=1)) ** 2
    covariance = np.fft.irfft(power, size, axis=1)[:, :draws].mean(axis=0) / draws
    if covariance[0] <= 0:
        return 1.0
    rho = covariance / covariance[0]
    whole = (draws - 1) // 2
    pairs = rho[1 : 2 * whole : 2] + rho[2 : 2 * whole + 1 : 2]
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(1 + 2 * pairs[:stop].sum())
