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

from ope_vpm.arrays import Bools, Floats, Integers, number_codes
from ope_vpm.chain.finite.reversible import reversible_kernel
from ope_vpm.chain.finite.solve import stationary_distribution

CELLS = 50
"""Cells of continuous paths. A round number: finer cells make the process nearer to Markov, and counts noisier."""
MOST_CELLS = 2000
"""More states than this are refused: eigenvalues are found by a dense n³ method."""
Paths = npt.ArrayLike | Sequence[npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class Timescales:
    """The implied timescales t_i(lag) = -lag / log|λ_i(lag)|, in steps of the log."""

    lags: Integers
    """(lags,): the lags at which transitions were counted."""
    times: Floats
    """(lags, number): the slowest relaxation times, falling; NaN where an eigenvalue is 0."""


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
    """(steps, 2): the same, counted at that many lags."""
    error: Floats
    """(steps, 2): the standard error of what was counted, as if pairs that do not overlap in time were independent."""

    @property
    def deviation(self) -> float:
        """The largest difference between predicted and counted in standard errors."""
        return float(np.max(np.abs(self.predicted - self.counted) / np.maximum(self.error, 1e-12)))


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
    """
    lags = _checked(lags)
    labelled, size = cells_of(paths, cells, seed)
    found = np.full((len(lags), number), np.nan)
    for place, lag in enumerate(lags):
        kernel, _ = _chain(labelled, size, lag, reversible)
        sizes = np.sort(np.abs(np.linalg.eigvals(kernel)))[::-1][1 : number + 1]
        with np.errstate(divide="ignore"):
            found[place, : len(sizes)] = np.where(sizes > 0, -lag / np.log(np.minimum(sizes, 1 - 1e-15)), np.nan)
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
    labelled, size = cells_of(paths, cells, seed)
    kernel, states = _chain(labelled, size, lag, reversible)
    first = _slowest_side(kernel) if members is None else np.isin(states, np.asarray(members))
    if first.all() or not first.any():
        raise ValueError("both sets of states must hold some that the chain visits: all of them are in one")
    weight = stationary_distribution(sparse.csr_array(kernel), np.full(len(kernel), 1 / len(kernel)))
    columns: list[list[Any]] = [[], [], []]
    for k in range(1, steps + 1):
        power = np.linalg.matrix_power(kernel, k)
        later, kept = _chain(labelled, size, k * lag, reversible)
        for column, values in zip(columns, _stay(power, states, later, kept, weight, first), strict=True):
            column.append(values)
    predicted, counted, share = (np.array(column) for column in columns)
    rows = np.array([sum(max(len(path) - k * lag, 0) for path in labelled) / (k * lag) for k in range(1, steps + 1)])
    error = np.sqrt(counted * (1 - counted) / np.maximum(rows[:, None] * share, 1.0))
    return ChapmanKolmogorov(lag, np.arange(1, steps + 1), predicted, counted, error)


def cells_of(paths: Any, cells: int, seed: int) -> tuple[list[Integers], int]:
    """Each path as numbers of cells: of states as they are, or of the Voronoi cells of points drawn from the paths."""
    several = isinstance(paths, list | tuple) and len(paths) > 0 and np.ndim(paths[0]) > 0
    arrays = [np.asarray(path) for path in (paths if several else [paths])]
    joined = np.concatenate(arrays)
    if not np.isfinite(joined).all():
        raise ValueError("paths must be finite: some numbers are NaN or infinite")
    cuts = np.cumsum([len(array) for array in arrays])[:-1]
    if joined.dtype.kind in "iu" and joined.ndim == 1:
        labels, number = number_codes((joined - joined.min()).astype(np.int64))
        count = len(labels)
    else:
        points = joined.reshape(len(joined), -1).astype(np.float64)
        points = points / np.where(points.std(axis=0) > 0, points.std(axis=0), 1.0)
        drawn = np.random.default_rng(seed).choice(len(points), size=min(cells, len(points)), replace=False)
        number, count = cKDTree(points[drawn]).query(points)[1], len(drawn)
    if count > MOST_CELLS:
        raise ValueError(f"timescales are for at most {MOST_CELLS} states: there are {count}; give floats to use cells")
    return np.split(number.astype(np.int64), cuts), count


def _chain(labelled: list[Integers], size: int, lag: int, reversible: bool) -> tuple[Floats, Integers]:
    """The transition matrix of a lag on the states that reach one another with the most steps, and their numbers.

    They need not be closed: a path that ends in a state that it never left before would leave nothing else.
    """
    if lag < 1 or not any(len(path) > lag for path in labelled):
        raise ValueError(f"a lag must be at least 1 and shorter than a path: got {lag}")
    counts = np.zeros((size, size))
    for path in labelled:
        if len(path) > lag:
            np.add.at(counts, (path[:-lag], path[lag:]), 1.0)
    number, label = csgraph.connected_components(sparse.csr_array(counts), directed=True, connection="strong")
    start, end = np.nonzero(counts)
    within = label[start] == label[end]
    if not within.any():
        raise ValueError(f"paths must come back to some state after a multiple of the lag: none does at lag {lag}")
    steps = np.bincount(label[start[within]], counts[start[within], end[within]], number)
    kept = np.flatnonzero(label == steps.argmax())
    inside = counts[np.ix_(kept, kept)]
    kernel = reversible_kernel(inside).toarray() if reversible else inside / inside.sum(axis=1, keepdims=True)
    return kernel, kept


def _slowest_side(kernel: Floats) -> Bools:
    """The states on the one side of the slowest process."""
    if len(kernel) < 2:
        raise ValueError("the chain must move between at least 2 states: it stays in one")
    values, vectors = np.linalg.eig(kernel)
    slowest = vectors[:, np.argsort(-np.abs(values))[1]].real
    side: Bools = slowest > 0
    return side


def _stay(
    power: Floats, states: Integers, later: Floats, kept: Integers, weight: Floats, first: Bools
) -> tuple[list[float], list[float], list[float]]:
    """Of both sets: the probability to be in the set again, predicted and counted, and the set's own probability."""
    place = np.searchsorted(states, kept)
    common = (place < len(states)) & (states[np.minimum(place, len(states) - 1)] == kept)
    of_kept = np.where(common, first[np.minimum(place, len(states) - 1)], False)
    mass = np.where(common, weight[np.minimum(place, len(states) - 1)], 0.0)
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    for inside, inside_later in ((first, of_kept), (~first, ~of_kept & common)):
        total, total_later = weight[inside].sum(), max(mass[inside_later].sum(), 1e-300)
        found[0].append(float(weight[inside] @ power[np.ix_(inside, inside)].sum(axis=1) / total))
        stays = later[np.ix_(inside_later, inside_later)].sum(axis=1)
        found[1].append(float(mass[inside_later] @ stays / total_later))
        found[2].append(float(total))
    return found
