"""The variance of sums of influences whose pairs (x_t, x_{t+lag}) overlap in time."""

from __future__ import annotations

from typing import cast

import numpy as np

from ope_vpm.arrays import Floats, Integers


def sum_of_products(psi: Floats, time: Integers | None, lag: int) -> float:
    """Σ ψ_i ψ_j over all i and j that are correlated: an estimate of the variance of Σ ψ.

    The influence of a pair from t to t+lag has mean 0 given everything up to t, so influences whose pairs do not
    overlap are uncorrelated, and all products with |t_i - t_j| < lag are needed (Hansen and Hodrick 1980). That sum can
    come out too small, even negative, on short paths; the same sum with weights 1 - |t_i - t_j|/lag (Newey and West
    1987) cannot be negative and is taken where it is larger.

    Args:
        psi: the influence of each pair.
        time: when each pair begins; None where none overlap.
        lag: how long a pair lasts.
    """
    if time is None or lag == 1:
        return float(psi @ psi)
    by_time = _on_a_line(psi, time, lag)
    total = np.cumsum(np.concatenate([np.zeros(lag), by_time, np.zeros(lag)]))
    place = np.arange(len(by_time)) + lag
    around = total[place + lag - 1] - total[place - lag]
    windows = total[lag:] - total[:-lag]
    return max(float(by_time @ around), float(windows @ windows) / lag)


def _on_a_line(psi: Floats, time: Integers, lag: int) -> Floats:
    """The summed influences of each moment, moments without any included; longer gaps than the lag are shortened."""
    moments, number = np.unique(time, return_inverse=True)
    place = np.concatenate([[0], np.cumsum(np.minimum(np.diff(moments), lag))])
    return cast(Floats, np.bincount(place[number], weights=psi))
