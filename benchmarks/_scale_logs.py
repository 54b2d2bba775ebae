"""The logs, policies and Parquet files that `python -m benchmarks scale` measures on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ope_vpm as ov
from ope_vpm.logged.formats.table import to_table
from ope_vpm.optional import library
from ope_vpm.policy import GaussianPolicy

STATE, ACTION, LENGTH = 17, 6, 200
"""The sizes of HalfCheetah's states and actions, and steps per episode."""
FILE_ROWS = 100_000
"""Rows of a Parquet file."""
IGNORED = ("flags-confused", "one-row-off")
"""Findings of the doctor that logs of episodes cut at one length may bring."""


def log(rows: int, seed: int = 0) -> ov.LoggedDataset:
    """Episodes of a stable linear system under a noisy linear controller, in float32 as simulators log them."""
    rng = np.random.default_rng(seed)
    episodes = max(rows // LENGTH, 1)
    drift, push, gain = system()
    states = np.empty((episodes, LENGTH + 1, STATE), dtype=np.float32)
    actions = np.empty((episodes, LENGTH, ACTION), dtype=np.float32)
    states[:, 0] = rng.standard_normal((episodes, STATE))
    for t in range(LENGTH):
        actions[:, t] = states[:, t] @ gain + 0.5 * rng.standard_normal((episodes, ACTION))
        states[:, t + 1] = states[:, t] @ drift + actions[:, t] @ push + 0.3 * rng.standard_normal((episodes, STATE))
    ends = np.zeros((episodes, LENGTH), dtype=np.bool_)
    ends[:, -1] = True
    here, there = states[:, :-1].reshape(-1, STATE), states[:, 1:].reshape(-1, STATE)
    taken = actions.reshape(-1, ACTION)
    rewards = here[:, 0].astype(np.float64) - 0.1 * np.square(taken, dtype=np.float64).sum(axis=1)
    return ov.LoggedDataset.from_arrays(here, taken, rewards, there, truncated=ends.ravel())


def system() -> tuple[Any, Any, Any]:
    """The matrices of the system and of the controller that logs."""
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.standard_normal((STATE, STATE)))[0]
    return 0.8 * rotation, 0.2 * rng.standard_normal((ACTION, STATE)), 0.1 * rng.standard_normal((STATE, ACTION))


def policies() -> list[GaussianPolicy]:
    """Three Gaussian controllers near to the one that logs, one shifted, one with another gain, one less noisy."""
    _, _, gain = system()
    choices = ((gain, 0.1, 0.5), (1.2 * gain, 0.0, 0.5), (gain, 0.0, 0.45))
    return [
        GaussianPolicy(lambda s, k=k, shift=shift, std=std: (s @ k + shift, std), action_dimension=ACTION)
        for k, shift, std in choices
    ]


def files(rows: int) -> Path:
    """The log in Parquet files of 10⁵ rows in row groups of 20 000, made once."""
    return written(rows, "scale", log, FILE_ROWS)


def written(rows: int, name: str, make: Callable[[int, int], ov.LoggedDataset], file_rows: int) -> Path:
    """A folder of Parquet files with so many rows each, made once."""
    folder = Path(tempfile.gettempdir()) / f"ope-vpm-{name}-{rows}"
    if not (folder / "done").exists():
        folder.mkdir(exist_ok=True)
        for number, first in enumerate(range(0, rows, file_rows)):
            part = make(min(file_rows, rows - first), number)
            columns = {name: np.ascontiguousarray(column) for name, column in to_table(part).items()}
            table = library("pyarrow", "parquet").table(columns)
            path = folder / f"part-{number}.parquet"
            library("pyarrow.parquet", "parquet").write_table(table, path, row_group_size=20_000)
        (folder / "done").touch()
    return folder


def finite_log(rows: int, states: int, seed: int, actions: int = 4) -> tuple[ov.LoggedDataset, tuple[Any, Any, Any]]:
    """Episodes whose steps go to one of ten neighbours; and the columns s, a and s'."""
    rng = np.random.default_rng(seed)
    length = 1000
    state = np.empty((rows // length, length + 1), dtype=np.int64)
    state[:, 0] = rng.integers(states, size=len(state))
    action = rng.integers(actions, size=(len(state), length))
    for t in range(length):
        state[:, t + 1] = (state[:, t] + action[:, t] + rng.integers(-3, 4, size=len(state))) % states
    ends = np.zeros(action.shape, dtype=np.bool_)
    ends[:, -1] = True
    here, there, action = state[:, :-1].ravel(), state[:, 1:].ravel(), action.ravel()
    rewards = (here % 7 + action).astype(np.float64)
    data = ov.LoggedDataset.from_arrays(here, action, rewards, there, truncated=ends.ravel())
    return data, (here, action, there)
