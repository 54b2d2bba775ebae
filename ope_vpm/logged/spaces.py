"""Spaces of states and actions: the flat one that fits a column, and what a column must be to fit."""

from math import prod
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.joint_actions import joint_sizes

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
