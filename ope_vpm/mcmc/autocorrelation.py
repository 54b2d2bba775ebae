"""How many independent draws a set of chains is worth."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats


def independent_draws(chains: Floats) -> float:
    """Draws over 1 + 2Σρ_k, ρ_k the autocorrelation at lag k, summed while pairs of them stay positive.

    Deviations are from the mean of all chains, so chains in different places count as correlated
    (Geyer 1992 for where to stop; Gelman et al., Bayesian Data Analysis, for several chains).

    Args:
        chains: one coordinate, shape (chains, draws).
    """
    centred = chains - chains.mean()
    draws = chains.shape[1]
    size = 2 ** int(np.ceil(np.log2(2 * draws)))
    power = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    covariance = np.fft.irfft(power, size, axis=1)[:, :draws].mean(axis=0) / draws
    if covariance[0] <= 0:
        return float(chains.size)
    rho = covariance / covariance[0]
    whole = (draws - 1) // 2
    pairs = rho[1 : 2 * whole : 2] + rho[2 : 2 * whole + 1 : 2]
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(min(chains.size, chains.size / (1 + 2 * pairs[:stop].sum())))
