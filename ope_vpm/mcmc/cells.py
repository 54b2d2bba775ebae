"""VPM on random cells: a piecewise constant ratio for continuous states in a few dimensions.

The space is partitioned at random into cells, the finite-state solver finds τ on the cells, and the median over several
partitions is the estimate.

A Metropolis sampler rejects proposals, and a rejected row (x' = x) adds τ(x)(g(x') - g(x)) = 0 to every stationarity
equation: it holds no information about τ. Where nearly every proposal is rejected (steep tails, seen from a uniform
start), a smooth class of ratios cannot tell states that are never left from states that are never reached, and leaves
the probability there as it is in the data. Counting the moves between cells can: a cell without moves gets weight 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions
from ope_vpm.chain.solvers.tabular import Tabular

ROWS_PER_CELL = 30
"""Larger cells blur the ratio, smaller ones make the counts noisier; chosen on the tuning seeds of the MCMC study."""
PARTITIONS = 11
"""Odd, so that the median is one of the estimates; time grows in proportion. Chosen on the same seeds."""
STEPS = 150
"""The paper's number T of power steps in its MCMC study."""


def cell_ratio(
    transitions: Transitions,
    *,
    rows_per_cell: int = ROWS_PER_CELL,
    partitions: int = PARTITIONS,
    steps: int = STEPS,
    seed: int = 0,
) -> Floats:
    """Estimate the ratio τ = μ/p at each row, scaled to mean 1, by the median over random partitions into cells.

    A partition is the Voronoi diagram of rows drawn at random; τ is constant on a cell, and comes from closed-form
    power steps on the counted moves between cells.

    Args:
        transitions: between continuous states, with one successor per row.
        rows_per_cell: the mean number of rows in a cell, which decides how many cells there are.
        partitions: how many partitions the median is taken over. A cell that happens never to be left absorbs all
            probability in its own partition; the median is not moved by it.
        steps: undamped power steps from τ = 1.
        seed: of the draw of the cells' centres.
    """
    if transitions.finite or transitions.next_weight is not None:
        raise ValueError("cell_ratio needs continuous states (floats) with one successor per row")
    x, x_next = np.asarray(transitions.x), np.asarray(transitions.x_next)
    moved = (x != x_next).any(axis=1)
    if not moved.any():
        raise ValueError("every row has x' = x: a chain that never moves shows nothing of its stationary distribution")
    scale = coordinate_scale(x)
    here, there = x / scale, x_next / scale
    number = max(2, len(x) // rows_per_cell)
    rng = np.random.default_rng(seed)
    estimates = []
    for _ in range(partitions):
        tree = cKDTree(here[rng.choice(len(x), size=min(number, len(x)), replace=False)])
        estimates.append(_ratio(tree.query(here)[1], tree.query(there)[1], moved, steps))
    ratio = np.median(estimates, axis=0)
    scaled: Floats = ratio / ratio.mean()
    return scaled


def coordinate_scale(x: Floats) -> Floats:
    """Return the standard deviation of each coordinate, or 1 where it is constant, as the unit of distances."""
    deviation = x.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _ratio(cell: Any, next_cell: Any, moved: Any, steps: int) -> Floats:
    """Estimate τ at each row on one partition, scaled to mean 1, from the rows that moved."""
    # The solver itself, without the diagnostics of `VPM`, which take as long as the fit. Remarks on closed cells are
    # expected: the median is there for them.
    data = Transitions(cell[moved], next_cell[moved])
    ratio = Tabular(steps=steps, unseen="restart").fit(data, gamma=1.0, seed=0, callback=None).ratio(cell)
    scaled: Floats = ratio / ratio.mean()
    return scaled
