"""Spaces of states and actions: the flat one that fits a column, and what a column must be to fit."""

from __future__ import annotations

from dataclasses import fields
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.joint_actions import joint_sizes

if TYPE_CHECKING:
    from ope_vpm.logged.dataset import LoggedDataset

Space = spaces.Space[Any]


def numbered_space(space: Space) -> Space:
    """The space of logged actions: that of their numbers where combinations of several are numbered."""
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return spaces.Discrete(prod(joint_sizes(space)))
    return space


def simple_space(space: Space | None) -> Space | None:
    """The space that fits a column: everything laid flat; None where a dictionary's parts differ in kind."""
    if space is None or isinstance(space, spaces.Discrete):
        if space is not None and space.start != 0:
            raise ValueError(f"discrete spaces must start at 0: got {space} (subtract {space.start})")
        return space
    if isinstance(space, spaces.MultiDiscrete):
        if np.any(getattr(space, "start", 0)):
            raise ValueError(f"multi-discrete spaces must start at 0: got {space} (subtract {space.start})")
        return spaces.MultiDiscrete(space.nvec.reshape(-1))
    if isinstance(space, spaces.MultiBinary):
        return spaces.MultiDiscrete(np.full(int(np.prod(space.shape)), 2))
    if isinstance(space, spaces.Box):
        return _flat_box(space.low.reshape(-1), space.high.reshape(-1))
    if isinstance(space, spaces.Dict):
        return _joined_space([simple_space(space[key]) for key in sorted(space)])
    if isinstance(space, spaces.Tuple):
        return _joined_space([simple_space(part) for part in space])
    raise TypeError(f"spaces must be Discrete, MultiDiscrete, Box, or Dict and Tuple of such: got {space}")


def _joined_space(parts: list[Space | None]) -> Space | None:
    boxes = [part for part in parts if isinstance(part, spaces.Box)]
    if len(boxes) == len(parts):
        return _flat_box(*(np.concatenate([getattr(box, side) for box in boxes]) for side in ("low", "high")))
    counts = [
        part.nvec if isinstance(part, spaces.MultiDiscrete) else [part.n]
        for part in parts
        if isinstance(part, spaces.MultiDiscrete | spaces.Discrete)
    ]
    return spaces.MultiDiscrete(np.concatenate(counts)) if len(counts) == len(parts) else None


def _flat_box(low: Array, high: Array) -> Space:
    # Bounds of float64's size are infinite in float32, which is what they mean; others are not rounded.
    with np.errstate(over="ignore"):
        narrow = [side.astype(np.float32) for side in (low, high)]
    if all(((side == given) | np.isinf(side)).all() for side, given in zip(narrow, (low, high), strict=True)):
        return spaces.Box(narrow[0], narrow[1], dtype=np.float32)
    return spaces.Box(low.astype(np.float64), high.astype(np.float64), dtype=np.float64)


def check_space(name: str, column: Array, space: Space | None) -> None:
    """Refuse a space of another kind or size than the column; values outside it are the doctor's matter."""
    if space is None:
        return
    if isinstance(space, spaces.Discrete):
        fits = column.dtype.kind == "i" and column.ndim == 1
    elif isinstance(space, spaces.MultiDiscrete):
        fits = column.dtype.kind == "i" and column.shape[1:] == space.shape
    elif isinstance(space, spaces.Box):
        fits = column.ndim == 2 and column.shape[1:] == space.shape
    else:
        raise TypeError(f"the space of {name} must be Discrete, MultiDiscrete or flat Box: got {space}")
    if not fits:
        raise ValueError(f"{name} do not fit their space: {column.dtype} of shape {column.shape}, {space}")


def state_sizes(space: Space | None, seen: Array) -> tuple[int, ...]:
    """How many values each coordinate of finite states takes: by their space, or by the data.

    Args:
        space: of the states, where known.
        seen: one more than the largest number of each coordinate.
    """
    sizes = tuple(np.atleast_1d(seen).tolist())
    if isinstance(space, spaces.Discrete):
        sizes = (int(space.n),)
    elif isinstance(space, spaces.MultiDiscrete):
        sizes = tuple(space.nvec.tolist())
    if (np.atleast_1d(seen) > np.array(sizes)).any():
        raise ValueError(f"observations must be inside their space {space}: they reach {seen - 1}")
    return sizes


def same_length(name: str, array: Array, length: int) -> None:
    """Refuse a column that is not as long as the observations."""
    if len(array) != length:
        raise ValueError(
            f"observations and {name} must have the same length: {length} != {len(array)} (is the last step missing?)"
        )


def check_columns(data: LoggedDataset) -> None:
    """Columns of one length and kind, episodes that cover the rows, flags only on last rows."""
    length = len(data.observations)
    for field in fields(data)[:7]:
        same_length(field.name, getattr(data, field.name), length)
    if data.behaviour_log_prob is not None:
        same_length("behaviour_log_prob", data.behaviour_log_prob, length)
    if data.starts[0] != 0 or (data.lengths < 1).any() or data.from_reset.shape != data.starts.shape:
        raise ValueError(
            "starts must rise from 0 and from_reset hold one value an episode: "
            f"got {data.n_episodes} starts and shape {data.from_reset.shape}"
        )
    if data.next_observations.shape != data.observations.shape or (
        data.next_observations.dtype.kind != data.observations.dtype.kind
    ):
        raise ValueError(
            "observations and next_observations must be alike: "
            f"{data.observations.dtype} {data.observations.shape} != "
            f"{data.next_observations.dtype} {data.next_observations.shape}"
        )
    if data.finite and int(data.observations.min()) < 0:
        row = int(np.argmin(data.observations.reshape(length, -1).min(axis=1)))
        raise ValueError(f"discrete observations are counted from 0: row {row} is {data.observations[row]}")
    inside = (data.terminated | data.truncated).copy()
    inside[data.ends] = False
    if inside.any():
        raise ValueError(
            f"an episode must end where terminated or truncated is set: row {int(np.argmax(inside))} goes on"
        )
    check_space("observations", data.observations, data.observation_space)
    check_space("actions", data.actions, data.action_space)
