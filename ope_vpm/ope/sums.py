"""Sums by group."""

from __future__ import annotations

import numpy as np

from ope_vpm.logged.columns import Array, Floats


def summed(group: Array, values: Floats, size: int = 0) -> Floats:
    """The sum of the values in each of at least `size` groups, by their numbers."""
    return np.bincount(group, weights=values, minlength=size).astype(np.float64, copy=False)
