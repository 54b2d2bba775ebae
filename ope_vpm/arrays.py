"""Array types, and the few operations on arrays that every layer needs."""

from collections.abc import Iterable, Iterator
from mmap import MADV_DONTNEED, mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CHUNK = 1 << 16
"""Rows looked at together where whole-array temporaries would not fit in memory."""

MOST_MARKS = 1 << 20
"""Codes up to about here are numbered by marking those that occur, which takes a megabyte: sorting is slower."""

ROUNDING = 1e-9
"""A share of a quantity's own size: what differs by less is equal but for rounding, of which long sums and iterative
solvers leave about 1e-12. No difference is ever compared with a number that is not in its own units."""

LARGEST = 1e75
"""The largest number to compute with: fourth powers of larger ones, as in the variance of squares, are infinite."""


def usable(values: Array) -> Bools:
    """Which values can be computed with: those that are not NaN, infinite, or so large that their powers are."""
    # Smaller types cannot hold LARGEST, and a comparison with it would convert them.
    return np.abs(values) <= LARGEST if values.dtype == np.float64 else np.isfinite(values)


def is_number(candidate: object) -> bool:
    """Whether something is one finite number."""
    array = np.asarray(candidate)
    return array.ndim == 0 and array.dtype.kind in "biuf" and bool(np.isfinite(array))


def read_only(array: Array) -> Array:
    """A view of the array that cannot be written to; nothing is copied."""
    view = array.view()
    view.flags.writeable = False
    return view


def ones(length: int) -> Floats:
    """So many ones, which take no memory; not to be written to."""
    return np.broadcast_to(np.float64(1.0), length)


def are_ones(values: Floats) -> bool:
    """Whether an array was made by `ones`, or is a part of one."""
    return values.strides == (0,) and (len(values) == 0 or values[0] == 1.0)


def group_sums(group: Array, values: Floats, size: int = 0) -> Floats:
    """The sum of the values in each group, for groups numbered from 0; at least `size` of them."""
    if are_ones(values):
        return np.bincount(group, minlength=size).astype(np.float64)
    return np.bincount(group, weights=values, minlength=size).astype(np.float64, copy=False)


def number_codes(*codes: Integers) -> tuple[Integers, ...]:
    """The different codes, rising, and the number of each code among them: `np.unique`, without sorting if it can.

    Args:
        codes: arrays of codes, which are not negative; each has its numbers in an array of its own.
    """
    largest = max(int(each.max(initial=0)) for each in codes)
    if largest > 4 * sum(map(len, codes)) + MOST_MARKS:
        found, number = np.unique(np.concatenate(codes), return_inverse=True)
        return found, *np.split(number, np.cumsum([len(each) for each in codes])[:-1])
    seen = np.zeros(largest + 1, dtype=np.bool_)
    for each in codes:
        seen[each] = True
    if seen.all():  # every code is its own number
        return np.arange(largest + 1), *codes
    place = np.cumsum(seen) - 1
    return np.flatnonzero(seen), *(place[each] for each in codes)


def mean_ranks(values: Array) -> Floats:
    """The rank of each number from 1, in one dimension; equal ones share the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(count) - (count - 1) / 2
    return ranks[place.reshape(-1)]


def effective_sample_size(weights: Floats) -> float:
    """Kish's (Σw)²/Σw²: how many rows of equal weight the weighted rows are worth."""
    largest = float(np.abs(weights).max(initial=0.0))
    if not 0 < largest < np.inf:
        return 0.0
    scaled = weights / largest  # squares of odds like 10²⁰⁰ are not numbers
    return float(scaled.sum()) ** 2 / float(scaled @ scaled)


def mean_and_deviation(values: Array) -> tuple[Floats, Floats]:
    """Mean and deviation of each coordinate, in double precision; many rows are copied some at a time."""
    if len(values) <= CHUNK:
        whole = values.astype(np.float64)
        return whole.mean(axis=0), whole.std(axis=0)
    parts = list(chunks(len(values), of=[values]))
    mean = sum(values[part].sum(axis=0, dtype=np.float64) for part in parts) / len(values)
    squares = sum(np.square(values[part] - mean).sum(axis=0) for part in parts)
    return np.asarray(mean), np.sqrt(np.asarray(squares) / len(values))


def chunks(length: int, size: int = CHUNK, of: Iterable[Array] = ()) -> Iterator[slice]:
    """Slices of at most `size` rows that cover `length` rows in order.

    Where the rows are those `of` memory maps, pages that were passed are released: a pass over a file that is larger
    than memory must not fill it.
    """
    kept = 0
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))
        kept += size
        if kept >= 4 * CHUNK or start + size >= length:
            kept = 0
            for array in of:
                release_pages(array)


def release_pages(array: Array | None) -> None:
    """Drop the pages of a read-only memory map; they are read again when they are needed."""
    if not isinstance(array, np.memmap) or array.mode != "r":
        return
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap):
        base.madvise(MADV_DONTNEED)
