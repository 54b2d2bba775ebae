"""VPM on random cells: a piecewise constant ratio for continuous states in a few dimensions.

The space is partitioned at random into cells, the finite-state solver finds τ on the cells, and the median over several
partitions is the estimate. On a line cells are intervals with equally many rows; in more dimensions they are Voronoi
cells of rows drawn at random.

A Metropolis sampler rejects proposals, and a rejected row (x' = x) adds τ(x)(g(x') - g(x)) = 0 to every stationarity
equation: it holds no information about τ. Where nearly every proposal is rejected (steep tails, seen from a uniform
start), a smooth class of ratios cannot tell states that are never left from states that are never reached, and leaves
the probability there as it is in the data. Counting the moves between cells can: a cell without moves gets weight 0.
"""

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.chain import Transitions
from ope_vpm.chain.solvers.tabular import Tabular

ROWS_PER_CELL = 30
"""Larger cells blur the ratio, smaller ones make the counts noisier; chosen on the tuning seeds of the MCMC study."""
PARTITIONS = 11
"""Odd, so that the median is one of the estimates; time grows in proportion. Chosen on the same seeds."""
STEPS = 150
"""The paper's number T of power steps in its MCMC study."""
RESTART = 1e-9
"""The share of probability that begins again from the data in each step to the fixed point: small enough to move no
weight by more than 10⁻⁶ of their mean on chains that mix within 1000 steps, large enough for a linear system that can
be solved, also where several sets of cells are never left."""
Labels = Callable[[Floats], Integers]
"""The cell of each state."""


def cell_ratio(
    transitions: Transitions,
    *,
    rows_per_cell: int = ROWS_PER_CELL,
    partitions: int = PARTITIONS,
    steps: int | None = STEPS,
    seed: int = 0,
) -> Floats:
    """Estimate the ratio τ = μ/p at each row, scaled to mean 1, by the median over random partitions into cells.

    τ is constant on a cell, and comes from closed-form power steps on the counted moves between cells. A partition of a
    line has equally many rows in each cell, and is shifted by part of a cell against the others; in more dimensions
    it is the Voronoi diagram of rows drawn at random.

    Args:
        transitions: between continuous states, with one successor per row.
        rows_per_cell: the mean number of rows in a cell, which decides how many cells there are.
        partitions: how many partitions the median is taken over. A cell that happens never to be left absorbs all
            probability in its own partition; the median is not moved by it.
        steps: undamped power steps from τ = 1; None: their limit, the fixed point.
        seed: of the draw of the cells.
    """
    if transitions.finite or transitions.next_weight is not None:
        raise ValueError("cell_ratio needs continuous states (floats) with one successor per row")
    x, x_next = np.asarray(transitions.x), np.asarray(transitions.x_next)
    moved = (x != x_next).any(axis=1)
    if not moved.any():
        raise ValueError("every row has x' = x: a chain that never moves shows nothing of its stationary distribution")
    number = max(2, len(x) // rows_per_cell)
    rng = np.random.default_rng(seed)
    estimates = []
    for _ in range(partitions):
        labels = _intervals(x, number, rng) if x.shape[1] == 1 else _voronoi(x, number, rng)
        estimates.append(_ratio(labels(x), labels(x_next), moved, steps))
    ratio = np.median(estimates, axis=0)
    return ratio / ratio.mean()


def coordinate_scale(x: Floats) -> Floats:
    """Return the standard deviation of each coordinate, or 1 where it is constant, as the unit of distances."""
    deviation = x.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _intervals(x: Floats, number: int, rng: np.random.Generator) -> Labels:
    """Cells of a line with equally many rows, but for the first and the last, which share the rows of one."""
    edges = np.unique(np.quantile(x[:, 0], (np.arange(number) + rng.random()) / number))
    return lambda states: np.searchsorted(edges, states[:, 0])


def _voronoi(x: Floats, number: int, rng: np.random.Generator) -> Labels:
    """The cells of rows drawn at random: a state belongs to the nearest of them."""
    scale = coordinate_scale(x)
    tree = cKDTree(x[rng.choice(len(x), size=min(number, len(x)), replace=False)] / scale)
    return lambda states: np.asarray(tree.query(states / scale)[1], dtype=np.int64)


def _ratio(cell: Integers, next_cell: Integers, moved: Bools, steps: int | None) -> Floats:
    """Estimate τ at each row on one partition, scaled to mean 1, from the rows that moved."""
    if steps is None:
        return _fixed_point(cell, next_cell, moved)
    # The solver itself, without the diagnostics of `VPM`, which take as long as the fit, and without remarks on closed
    # cells, which are expected: the median is there for them.
    data = Transitions(cell[moved], next_cell[moved])
    ratio = Tabular(steps=steps, unseen="restart").ratio(data, gamma=1.0)(cell)
    return ratio / ratio.mean()


def _fixed_point(cell: Integers, next_cell: Integers, moved: Bools) -> Floats:
    """The limit of the power steps, by a dense linear system: a tenth of the time of the sparse solver's exact answer.

    μ = (1 - ε)μ𝒯 + εp, with p the data's distribution over cells. What reaches a cell without moves begins again at p.
    """
    size = int(max(cell.max(), next_cell.max())) + 1
    counts = np.bincount(cell[moved] * size + next_cell[moved], minlength=size * size).reshape(size, size)
    total = counts.sum(axis=1, dtype=np.float64)
    p = total / total.sum()
    kernel = np.where(total[:, None] > 0, counts / np.maximum(total, 1.0)[:, None], p)
    mu = np.linalg.solve(np.eye(size) - (1 - RESTART) * kernel.T, RESTART * p)
    # the equations hold for the rows that moved, so that their share divides μ
    ratio = np.divide(np.maximum(mu, 0), p, out=np.zeros(size), where=p > 0)[cell]
    return ratio / ratio.mean()
