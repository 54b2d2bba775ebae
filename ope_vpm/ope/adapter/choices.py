"""Refusals of choices that no data can mend."""

from __future__ import annotations

from typing import Any

import numpy as np

from ope_vpm.arrays import usable


def check_seed(seed: int) -> None:
    """Refuse a seed that NumPy's generators do not take."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number, 0 or more: got {seed!r}")


def check_features(state_features: Any) -> None:
    """Refuse features of states that are no table of numbers; whether it has a row for each state is checked in use."""
    if state_features is None or callable(state_features):
        return
    table = np.asarray(state_features)
    if table.dtype.kind not in "biuf" or table.ndim != 2 or table.shape[1] == 0 or not usable(table).all():
        raise ValueError(
            "state_features must be a table of finite numbers with a row for each state, such as shape (6, 2), or a "
            f"function of observations: got {table.dtype} of shape {table.shape}"
        )
