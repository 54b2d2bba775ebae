"""Multi-discrete and multi-binary actions as one number each, that of their combination."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

MOST_ACTIONS = 4096
"""Combinations that are numbered: each is a column of a policy's probabilities."""

Joint = spaces.MultiDiscrete | spaces.MultiBinary


def joint_sizes(space: Joint) -> tuple[int, ...]:
    """How many values each coordinate has; spaces with too many combinations are refused."""
    if isinstance(space, spaces.MultiDiscrete):
        sizes: tuple[int, ...] = tuple(space.nvec.reshape(-1).tolist())
    else:
        sizes = (2,) * prod(space.shape)
    if prod(sizes) > MOST_ACTIONS:
        raise ValueError(f"{space} has {prod(sizes)} combinations of actions: at most {MOST_ACTIONS} can be numbered")
    return sizes


def combination_numbers(values: npt.NDArray[Any], space: Joint) -> npt.NDArray[np.int64]:
    """The number of each row's combination; the last coordinate changes fastest, as in `np.ravel_multi_index`.

    Args:
        values: whole numbers, shape (n, …).
        space: the space that they lie in.
    """
    sizes = joint_sizes(space)
    if values.size != len(values) * len(sizes):
        raise ValueError(f"actions must have {len(sizes)} coordinates, as {space} has: got shape {values.shape}")
    columns = values.reshape(len(values), -1) - np.reshape(getattr(space, "start", 0), -1)
    outside = ((columns < 0) | (columns >= sizes)).any(axis=1)
    if outside.any():
        raise ValueError(f"actions must lie in {space}: row {int(np.argmax(outside))} does not")
    numbers: npt.NDArray[np.int64] = np.ravel_multi_index(tuple(columns.T), sizes).astype(np.int64)
    return numbers


def combinations(numbers: npt.NDArray[Any], space: Joint) -> npt.NDArray[Any]:
    """The actions with these numbers, in the shape and type of the space."""
    columns = np.stack(np.unravel_index(numbers, joint_sizes(space)), axis=1)
    shape = space.shape or ()
    shifted = columns.reshape(len(numbers), *shape) + getattr(space, "start", 0)
    return shifted.astype(space.dtype)
