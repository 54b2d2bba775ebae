"""States that a user gives: arrays of whole numbers or of finite floats, checked at the door."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import LARGEST, Array, chunks, usable


def as_states(name: str, values: npt.ArrayLike, finite: bool, dimension: int) -> Array:
    """Check that states given by a user have the kind and dimension of the data's, and return them as an array.

    Args:
        name: what error messages call them.
        values: the states.
        finite: whether the data's states are finite.
        dimension: of the data's states, where they are continuous.
    """
    array = checked_states(name, values)
    if (array.dtype.kind == "i") != finite:
        expected = "integers (finite states)" if finite else "floats (continuous states)"
        raise TypeError(f"{name} must be of the kind of the data's states: {kind_of(array)} != {expected}")
    if not finite and array.shape[1] != dimension:
        raise ValueError(f"{name} must have the dimension of the data's states: {array.shape[1]} != {dimension}")
    return array


def checked_states(name: str, values: npt.ArrayLike) -> Array:
    """Return states as integers of shape (n,) or finite floats of shape (n, d), or raise what is wrong with them."""
    array = checked_numbers(name, values)
    if array.size == 0:
        raise ValueError(f"{name} is empty: shape {array.shape}")
    if array.dtype.kind == "f" and array.ndim == 1:
        array = array[:, None]
    if array.dtype.kind == "i" and array.ndim != 1:
        raise ValueError(
            f"integer {name} must have shape (n,): got {array.shape} "
            "(for vectors give floats, or number them by np.unique(..., axis=0, return_inverse=True))"
        )
    if array.ndim > 2:
        raise ValueError(f"float {name} must have shape (n, d): got {array.shape}")
    check_range(name, array)
    return array


def checked_numbers(name: str, values: object) -> Array:
    """Return an array of integers (as int64) or floats, in the caller's own memory where the type allows."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: drop or fill the masked values")
    array: Array = values if isinstance(values, np.memmap) else np.asarray(values)
    if array.ndim == 0:
        raise ValueError(f"{name} must be an array: got the single value {array!r}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit in 64-bit integers: got {array.max()}")
    if array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    if array.dtype == np.float16:
        return array.astype(np.float32)
    if array.dtype in (np.float32, np.float64):
        return array
    raise TypeError(f"{name} must be an array of integers or floats: got dtype {array.dtype}")


def check_range(name: str, array: Array) -> None:
    """Refuse negative states, NaN, infinity and floats whose powers are infinite, naming the first row."""
    integers = array.dtype.kind == "i"
    for rows in chunks(len(array), of=[array]):
        part = np.asarray(array[rows])
        good = part >= 0 if integers else usable(part)
        if not good.all():
            row = int(np.argmin(good.reshape(len(part), -1).all(axis=1)))
            large = f"must not go beyond {LARGEST:g} (give it in another unit)"
            rule = "must not be negative" if integers else large if np.isfinite(part[row]).all() else "must be finite"
            raise ValueError(f"{name} {rule}: row {rows.start + row} is {part[row]}")


def as_paths(paths: Any) -> list[Array]:
    """One trajectory, or a list of several, as a list of arrays."""
    several = isinstance(paths, list | tuple) and len(paths) > 0 and np.ndim(paths[0]) > 0
    return [np.asarray(path) for path in (paths if several else [paths])]


def kind_of(array: Array) -> str:
    """Return what error messages call the kind of an array."""
    return "integers" if array.dtype.kind == "i" else "floats"
