"""Is the chain a Markov chain at this lag? Implied timescales and the Chapman–Kolmogorov check.

Both look at logged paths cut into cells (finite states are cells themselves), counted at several lags. A process that
is Markov on these cells has the same relaxation times at each lag, and the transition matrix of a lag, taken to the
power k, is that of k lags. Where this fails, cells are too coarse, or the lag is too short for `from_paths`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph
from scipy.spatial import cKDTree

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.chain.finite.reversible import reversible_kernel
from ope_vpm.chain.finite.solve import stationary_distribution
from ope_vpm.chain.states import as_paths

CELLS = 50
"""Cells of continuous paths. A round number: finer cells make the process nearer to Markov, and counts noisier."""
ROUNDING = 1e-12
"""Eigenvalues nearer to 1 than this are 1: they come from a dense method whose error is about 1e-16 per state."""
MOST_CELLS = 2000
"""More states than this are refused: eigenvalues are found by a dense n³ method."""
Paths = npt.ArrayLike | Sequence[npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class Timescales:
    """The implied timescales t_i(lag) = -lag / log|λ_i(lag)|, in steps of the log."""

    lags: Integers
    """(lags,): the lags at which transitions were counted."""
    times: Floats
    """(lags, number): the slowest relaxation times, falling; NaN where an eigenvalue is 0 or there are no more of them,
    infinite where its size is 1, as in a periodic chain."""


@dataclass(frozen=True, eq=False)
class ChapmanKolmogorov:
    """How long each of two sets of states keeps the chain: as the first lag predicts, and as counted."""

    lag: int
    """The lag of the chain that predicts."""
    steps: Integers
    """(steps,): 1, 2, …: multiples of the lag."""
    predicted: Floats
    """(steps, 2): the probability to be in the set again after so many lags, by powers of the matrix of one lag."""
    counted: Floats
    """(steps, 2): the same, counted at that many lags; NaN where no pair begins in the set."""
    error: Floats
    """(steps, 2): the standard error of what was counted, as if pairs that do not overlap in time were independent. By
    Agresti and Coull's rule, so that it is not 0 where all or none of a few pairs were in the set again."""

    @property
    def deviation(self) -> float:
        """The largest difference between predicted and counted in standard errors."""
        return float(np.nanmax(np.abs(self.predicted - self.counted) / self.error))


def timescales(
    paths: Paths, lags: Sequence[int], *, number: int = 3, reversible: bool = True, cells: int = CELLS, seed: int = 0
) -> Timescales:
    """Implied timescales of logged paths at several lags; a lag from which on they are level is long enough.

    Args:
        paths: one path of shape (T,) or (T, d), or a list of them; whole numbers are finite states.
        lags: numbers of steps.
        number: how many timescales, the slowest first.
        reversible: whether to take the most likely chain with detailed balance, whose eigenvalues are real.
        cells: of continuous paths.
        seed: of the cells' centres.

    Returns:
        The slowest relaxation times at each lag, in steps of the log.

    ```python
    import numpy as np
    import ope_vpm as ov

    rng, x = np.random.default_rng(0), [0]
    for stays in rng.random(20_000) < 0.9:
        x.append(x[-1] if stays else 1 - x[-1])
    found = ov.timescales(np.array(x), lags=[1, 2], number=1)  # eigenvalue 0.9 - 0.1 = 0.8
    assert np.allclose(found.times, -1 / np.log(0.8), rtol=0.1)
    ```
    """
    lags = _checked(lags)
    number = at_least_one("number", number)
    cut = Cells.of(paths, cells, seed)
    found = np.full((len(lags), number), np.nan)
    for place, lag in enumerate(lags):
        kernel, _ = _chain(cut, lag, reversible)
        sizes = np.sort(np.abs(np.linalg.eigvals(kernel)))[::-1][1 : number + 1]
        sizes = np.where(sizes > 1 - ROUNDING, 1.0, sizes)
        with np.errstate(divide="ignore"):
            found[place, : len(sizes)] = np.where(sizes > 0, lag / np.abs(np.log(sizes)), np.nan)
    return Timescales(np.asarray(lags, dtype=np.int64), found)


def _checked(lags: Sequence[int]) -> list[int]:
    """Several lags as whole numbers."""
    several = list(lags) if isinstance(lags, Iterable) else []
    if not several or not all(isinstance(lag, int | np.integer) and lag >= 1 for lag in several):
        raise ValueError(f"lags must be a list of whole numbers from 1 up, as in lags=[1, 2, 5]: got {lags!r}")
    return [int(lag) for lag in several]


def chapman_kolmogorov(
    paths: Paths,
    lag: int,
    *,
    steps: int = 5,
    reversible: bool = True,
    cells: int = CELLS,
    seed: int = 0,
    members: npt.ArrayLike | None = None,
) -> ChapmanKolmogorov:
    """Compare the chain of one lag with what happens over several of them.

    Args:
        paths: as for `timescales`.
        lag: of the chain that predicts.
        steps: up to how many lags ahead.
        reversible: as for `timescales`.
        cells: of continuous paths.
        seed: of the cells' centres.
        members: for finite states, those of the first set, all others making the second; None: the two sides of the
            slowest process, by the sign of its eigenvector.
    """
    lag, steps = at_least_one("lag", lag), at_least_one("steps", steps)
    cut = Cells.of(paths, cells, seed)
    kernel, kept = _chain(cut, lag, reversible)
    first = _slowest_side(kernel) if members is None else cut.holds(members)[kept]
    if first.all() or not first.any():
        raise ValueError("both sets of states must hold some that the chain visits: all of them are in one")
    weight = stationary_distribution(sparse.csr_array(kernel), np.full(len(kernel), 1 / len(kernel)))
    sets = (first, ~first)
    predicted, counted, error = (np.empty((steps, 2)) for _ in range(3))
    for k in range(1, steps + 1):
        power = np.linalg.matrix_power(kernel, k)
        predicted[k - 1] = [_stay(power, weight, inside) for inside in sets]
        later = _counted(cut, k * lag)[np.ix_(kept, kept)]
        left = later.sum(axis=1) > 0  # a state that only the ends of paths reach has no pair at this lag
        counted[k - 1] = [_stay(_kernel(later, reversible), weight * left, inside) for inside in sets]
        apart = cut.pairs(k * lag) / (k * lag) * np.array([weight[inside].sum() for inside in sets])
        error[k - 1] = _binomial_error(counted[k - 1], apart)
    return ChapmanKolmogorov(lag, np.arange(1, steps + 1), predicted, counted, error)


@dataclass(frozen=True, eq=False)
class Cells:
    """Paths as numbers of cells."""

    paths: list[Integers]
    """The cell at each step of each path."""
    count: int
    """How many cells there are."""
    states: Array | None
    """Where states are finite, the state that each cell is; None where cells are regions."""

    @classmethod
    def of(cls, paths: Any, cells: int, seed: int) -> Cells:
        """Finite states as they are; of continuous ones the Voronoi cells of points drawn from the paths."""
        arrays = _arrays(paths)
        cells = at_least_one("cells", cells)
        joined = np.concatenate(arrays)
        states: Array | None = None
        if joined.dtype.kind in "iu" and joined.ndim == 1:
            states, number = np.unique(joined, return_inverse=True)
            count = len(states)
        else:
            points = joined.reshape(len(joined), -1).astype(np.float64)
            points = points / np.where(points.std(axis=0) > 0, points.std(axis=0), 1.0)
            drawn = np.random.default_rng(seed).choice(len(points), size=min(cells, len(points)), replace=False)
            number, count = cKDTree(points[drawn]).query(points)[1], len(drawn)
        if count > MOST_CELLS:
            raise ValueError(
                f"timescales are for at most {MOST_CELLS} states: there are {count}; give floats to use cells"
            )
        cuts = np.cumsum([len(array) for array in arrays])[:-1]
        return cls(np.split(np.asarray(number, dtype=np.int64), cuts), count, states)

    def holds(self, members: npt.ArrayLike) -> Bools:
        """Which cells are among some finite states."""
        if self.states is None:
            raise ValueError("members are finite states: these paths are continuous (leave members out)")
        return np.isin(self.states, np.asarray(members))

    def pairs(self, lag: int) -> int:
        """How many pairs of states so many steps apart there are."""
        return sum(max(len(path) - lag, 0) for path in self.paths)


def at_least_one(name: str, value: Any) -> int:
    """A whole number from 1 up, or an error that says what came."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1 up: got {value!r}")
    return int(value)


def _arrays(paths: Any) -> list[Array]:
    """Paths as arrays of numbers, all of shape (T,) or all of shape (T, d)."""
    given = [array for array in as_paths(paths) if array.size]
    arrays = [array.astype(np.int64) if array.dtype.kind == "b" else array for array in given]
    if not arrays:
        raise ValueError("there must be at least one path with a step: all are empty")
    for number, array in enumerate(arrays):
        if array.ndim not in (1, 2) or array.dtype.kind not in "iuf":
            raise ValueError(
                f"a path must be numbers of shape (T,) or (T, d): path {number} has shape {array.shape}, dtype "
                f"{array.dtype}"
            )
        if array.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(
                f"all paths must have the same coordinates: path {number} has shape {array.shape}, path 0 "
                f"{arrays[0].shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"paths must be finite: some numbers of path {number} are NaN or infinite")
    return arrays


def _counted(cut: Cells, lag: int) -> Floats:
    """How often each cell was followed by each other one, so many steps later."""
    if not cut.pairs(lag):
        raise ValueError(f"a lag must be at least 1 and shorter than a path: got {lag}")
    counts = np.zeros((cut.count, cut.count))
    for path in cut.paths:
        if len(path) > lag:
            np.add.at(counts, (path[:-lag], path[lag:]), 1.0)
    return counts


def _kernel(counts: Floats, reversible: bool) -> Floats:
    """Transition probabilities from counts; rows of 0 where nothing was counted and no way back is presumed."""
    found: Floats
    if reversible:
        found = reversible_kernel(counts).toarray()
    else:
        found = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return found


def _chain(cut: Cells, lag: int, reversible: bool) -> tuple[Floats, Integers]:
    """The transition matrix of a lag on the states that reach one another with the most steps, and their numbers.

    They need not be closed: a path that ends in a state that it never left before would leave nothing else.
    """
    counts = _counted(cut, lag)
    number, label = csgraph.connected_components(sparse.csr_array(counts), directed=True, connection="strong")
    start, end = np.nonzero(counts)
    within = label[start] == label[end]
    if not within.any():
        raise ValueError(f"paths must come back to some state after a multiple of the lag: none does at lag {lag}")
    steps = np.bincount(label[start[within]], counts[start[within], end[within]], number)
    kept = np.flatnonzero(label == steps.argmax())
    return _kernel(counts[np.ix_(kept, kept)], reversible), kept


def _slowest_side(kernel: Floats) -> Bools:
    """The states on the one side of the slowest process."""
    if len(kernel) < 2:
        raise ValueError("the chain must move between at least 2 states: it stays in one")
    values, vectors = np.linalg.eig(kernel)
    slowest = vectors[:, np.argsort(-np.abs(values))[1]].real
    return slowest > 0


def _stay(kernel: Floats, weight: Floats, inside: Bools) -> float:
    """The probability to be in a set after one step of a chain that begins there by some weights; NaN without any."""
    total = weight[inside].sum()
    return float(weight[inside] @ kernel[np.ix_(inside, inside)].sum(axis=1) / total) if total > 0 else float("nan")


def _binomial_error(share: Floats, count: Floats) -> Floats:
    """The standard error of a counted share, with two successes and two failures added (Agresti and Coull 1998)."""
    moved = (share * count + 2) / (count + 4)
    return np.sqrt(moved * (1 - moved) / (count + 4))
