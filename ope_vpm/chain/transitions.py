"""Sampled transitions (x, x') of a Markov chain: the input of every solver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats, Integers, read_only, release_pages
from ope_vpm.chain.states import as_states, check_range, checked_numbers, checked_states, kind_of


@dataclass(frozen=True, eq=False, repr=False)
class Transitions:
    """Transitions x → x', with x drawn from an unknown probe distribution p and x' from the chain's kernel 𝒯(·|x).

    Arrays are checked once, here, and held as read-only views: nothing is copied unless its type has to
    change, so memory maps stay on disk. Do not write to the originals afterwards.

    ```python
    import numpy as np
    import ope_vpm as ov

    finite = ov.Transitions([0, 1, 1, 0], [1, 1, 0, 0])
    assert finite.finite and len(finite) == 4
    path = np.cumsum(np.random.default_rng(0).standard_normal(100))
    continuous = ov.Transitions.from_paths([path], lag=2)  # the pairs (x_t, x_{t+2})
    assert len(continuous) == 98 and continuous.dimension == 1
    ```
    """

    x: Array
    """The states: integers of shape (n,) are finite states, floats of shape (n, d) or (n,) are continuous ones."""
    x_next: Array
    """The successors, in the shape of `x`; or K of them per row, (n, K) or (n, K, d), weighted by `next_weight`."""
    weight: Floats | None = None
    """The weight of each row, (n,); None: equal weights."""
    x_initial: Array | None = None
    """A sample of initial states, of the kind of `x` but of any length; needed for gamma < 1."""
    next_weight: Floats | None = None
    """The probability of each of the K successors, (n, K), rows summing to 1."""
    initial_weight: Floats | None = None
    """The weight of each initial state; None: equal weights."""
    time: Integers | None = None
    """(n,): when each pair begins, where pairs overlap in time; those of different paths lie at least `lag` apart."""
    lag: int = 1
    """How long a pair lasts on the scale of `time`: pairs that begin less than so far apart are dependent."""

    def __post_init__(self) -> None:
        x = checked_states("x", self.x)
        x_next = _successors(x, self.x_next, self.next_weight)
        many = x_next.ndim > x.ndim
        fields = {
            "x": x,
            "x_next": x_next,
            "weight": _weights("weight", self.weight, len(x)),
            "x_initial": _initial(x, self.x_initial),
            "next_weight": _next_weights(self.next_weight, x_next.shape[:2]) if many else None,
        }
        if self.time is not None:
            fields["time"] = _times(self.time, len(x))
        object.__setattr__(self, "lag", _lag(self.lag))
        start = fields["x_initial"]
        fields["initial_weight"] = _weights("initial_weight", self.initial_weight, 0 if start is None else len(start))
        for name, value in fields.items():
            object.__setattr__(self, name, None if value is None else read_only(value))

    @classmethod
    def lagged(cls, path: npt.ArrayLike, lag: int) -> Transitions:
        """Make transitions from the pairs (x_t, x_{t+lag}) of one trajectory of shape (T,) or (T, d)."""
        return cls.from_paths([np.asarray(path)], lag=lag)

    @classmethod
    def from_paths(cls, paths: Iterable[npt.ArrayLike], lag: int = 1) -> Transitions:
        """Make transitions from the pairs (x_t, x_{t+lag}) within each of several trajectories.

        Args:
            paths: trajectories of shape (T,) or (T, d), of any lengths; those of `lag` steps or fewer give
                no pair. Their first states become `x_initial`.
            lag: the number of steps between the two states of a pair.
        """
        lag = _lag(lag)
        arrays = [array for array in map(np.asarray, paths) if array.size]
        for number, array in enumerate(arrays):
            if array.ndim == 0 or array.shape[1:] != arrays[0].shape[1:]:
                raise ValueError(
                    "paths must be a list of trajectories alike in their coordinates, (T,) or (T, d): "
                    f"path {number} has shape {array.shape}, path 0 {arrays[0].shape} (one trajectory: [path])"
                )
        if not any(len(array) > lag for array in arrays):
            raise ValueError(f"no path is longer than lag={lag}: there is no pair (is the time axis first?)")
        first = np.cumsum([0, *(len(array) for array in arrays)])
        times = [start + np.arange(max(len(array) - lag, 0)) for start, array in zip(first[:-1], arrays, strict=True)]
        return cls(
            np.concatenate([array[:-lag] for array in arrays]),
            np.concatenate([array[lag:] for array in arrays]),
            x_initial=np.stack([array[0] for array in arrays if len(array)]),
            time=np.concatenate(times) if lag > 1 else None,
            lag=lag,
        )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        kind = "finite states" if self.finite else f"continuous states of dimension {self.dimension}"
        several = "" if self.next_weight is None else f", {self.successors.shape[1]} successors per row"
        start = "" if self.x_initial is None else f", {len(self.x_initial)} initial"
        return f"Transitions({len(self)} rows, {kind}{several}{start})"

    @property
    def finite(self) -> bool:
        """Whether the states are finite, given as integers."""
        return self.x.dtype.kind == "i"

    @property
    def dimension(self) -> int:
        """The dimension d of a continuous state; 1 for finite states."""
        return 1 if self.finite else self.x.shape[1]

    @property
    def successors(self) -> Array:
        """`x_next` with an axis for the K successors of a row, (n, K) or (n, K, d); K = 1 where each row has one."""
        return self.x_next if self.next_weight is not None else self.x_next[:, None]

    @property
    def reached(self) -> Array:
        """`successors` in which those of probability 0 are replaced by the row's likeliest: states that are reached."""
        if self.next_weight is None or self.next_weight.all():
            return self.successors
        likeliest = self.successors[np.arange(len(self)), self.next_weight.argmax(axis=1)]
        never = (self.next_weight == 0).reshape(*self.next_weight.shape, *(1,) * (self.successors.ndim - 2))
        return np.where(never, likeliest[:, None], self.successors)

    @property
    def row_weights(self) -> Floats:
        """`weight` scaled to mean 1."""
        return _mean_one(self.weight, len(self))

    @property
    def initial_weights(self) -> Floats:
        """`initial_weight` scaled to mean 1."""
        return _mean_one(self.initial_weight, 0 if self.x_initial is None else len(self.x_initial))

    def with_weight(self) -> Transitions:
        """Return the transitions without the rows whose weight is 0."""
        return self if self.weight is None or self.weight.all() else self.select(np.flatnonzero(self.weight))

    def sample(self, most: int, rng: np.random.Generator) -> Transitions:
        """Return all rows, or `most` of them drawn without replacement, in their order."""
        if len(self) <= most:
            return self
        if len(self) <= 4 * most:
            return self.select(np.sort(rng.choice(len(self), most, replace=False)))
        drawn = np.unique(rng.integers(len(self), size=2 * most))  # a permutation of all rows could be too large
        return self.select(np.sort(rng.choice(drawn, most, replace=False)))

    def select(self, rows: slice | npt.NDArray[np.intp]) -> Transitions:
        """Return some of the rows, with all initial states."""

        def taken(column: Any) -> Any:
            part = None if column is None else column[rows]
            release_pages(column)  # scattered rows touch every page of a memory map
            return part

        x, x_next, weight, next_weight = map(taken, (self.x, self.x_next, self.weight, self.next_weight))
        time = None if self.time is None else self.time[rows]
        return Transitions(x, x_next, weight, self.x_initial, next_weight, self.initial_weight, time, self.lag)


def _successors(x: Array, values: npt.ArrayLike, next_weight: object) -> Array:
    """Return `x_next` in the shape of `x`, or with one more axis where `next_weight` is given."""
    array = checked_numbers("x_next", values)
    if array.dtype.kind != x.dtype.kind:
        raise TypeError(f"x_next and x must be of one kind: {kind_of(array)} != {kind_of(x)}")
    if len(array) != len(x):
        raise ValueError(
            f"x and x_next must have the same length: {len(x)} != {len(array)} (is the last step missing?)"
        )
    if x.ndim == 2 and x.shape[1] == 1 and array.ndim == (1 if next_weight is None else 2):
        array = array[..., None]
    expected = x.ndim + (next_weight is not None)
    if array.ndim == x.ndim + 1 and next_weight is None:
        raise ValueError(
            f"x_next holds {array.shape[1]} successors per row, so next_weight is needed "
            f"(equal draws: np.full({array.shape[:2]}, {1 / max(array.shape[1], 1):.3g}))"
        )
    if array.ndim != expected:
        raise ValueError(f"x_next must have {expected} axes to go with x of shape {x.shape}: got shape {array.shape}")
    if x.ndim == 2 and array.shape[-1] != x.shape[1]:
        raise ValueError(f"x and x_next must have the same dimension: {x.shape[1]} != {array.shape[-1]}")
    check_range("x_next", array)
    return array


def _initial(x: Array, values: npt.ArrayLike | None) -> Array | None:
    if values is None:
        return None
    return as_states("x_initial", values, x.dtype.kind == "i", x.shape[1] if x.ndim == 2 else 1)


def _weights(name: str, values: npt.ArrayLike | None, length: int) -> Floats | None:
    if values is None:
        return None
    array = np.asarray(checked_numbers(name, values), dtype=np.float64)
    if array.shape != (length,):
        raise ValueError(f"{name} must hold one number per row: shape {array.shape} != ({length},)")
    if not np.isfinite(array).all() or (array < 0).any():
        row = int(np.flatnonzero(~(array >= 0) | np.isinf(array))[0])
        raise ValueError(f"{name} must be finite and not negative: row {row} is {array[row]}")
    if not array.any():
        raise ValueError(f"{name} is zero in every row: nothing is left to learn from")
    return array


def _times(values: npt.ArrayLike, length: int) -> Integers:
    array = checked_numbers("time", values)
    if array.shape != (length,) or array.dtype.kind != "i":
        raise ValueError(f"time must hold one integer per row: {array.dtype} of shape {array.shape} != ({length},)")
    return array


def _lag(lag: int) -> int:
    try:
        steps = index(lag)
    except TypeError as error:
        raise TypeError(f"lag must be a whole number of steps: got {lag!r}") from error
    if steps < 1:
        raise ValueError(f"lag must be at least 1: got {lag}")
    return steps


def _next_weights(values: npt.ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(checked_numbers("next_weight", values), dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"next_weight must have the first two axes of x_next: {array.shape} != {shape}")
    total = array.sum(axis=1)
    wrong = ~(np.abs(total - 1) <= 1e-4) | (array < 0).any(axis=1)  # float32 probabilities of many actions pass
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"rows of next_weight must be probabilities that sum to 1: row {row} is {array[row]}")
    return array / total[:, None]


def _mean_one(weight: Floats | None, length: int) -> Floats:
    return np.ones(length) if weight is None else weight * (length / weight.sum())
