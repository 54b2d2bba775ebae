"""Points in a few dimensions without smoothness: VPM in closed form on random cells, and a vote over partitions.

A Metropolis sampler rejects, and a rejected row (x' = x) adds τ(x)(g(x') - g(x)) = 0 to every stationarity equation:
it says nothing about τ. Where nearly every proposal is rejected (steep tails seen from a uniform start), a
smooth class cannot tell "never left" from "never reached" and keeps the data's own mass there. Counting the moves
between cells can: a cell without moves gets no mass.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ope_vpm.arrays import Floats
from ope_vpm.chain import VPM, StationaryWarning, Transitions

ROWS_PER_CELL = 30
PARTITIONS = 11
STEPS = 150
"""The paper's T for its MCMC study."""


def cell_ratio(
    transitions: Transitions,
    *,
    rows_per_cell: int = ROWS_PER_CELL,
    partitions: int = PARTITIONS,
    steps: int = STEPS,
    seed: int = 0,
) -> Floats:
    """τ at each row, with mean 1: the median over random partitions of the closed-form τ on their cells.

    Args:
        transitions: between points, with one successor a row.
        rows_per_cell: cells are as many as this makes them: nearest-neighbour cells of rows drawn at random.
        partitions: how many partitions vote; a trap in one of them (a cell that happens never to be left) is outvoted.
        steps: undamped power steps from τ = 1.
        seed: draws the cells' centres.
    """
    if transitions.finite or transitions.next_weight is not None:
        raise ValueError("cell_ratio needs points (floats) with one successor a row")
    x, x_next = np.asarray(transitions.x), np.asarray(transitions.x_next)
    moved = (x != x_next).any(axis=1)
    if not moved.any():
        raise ValueError("every row has x' = x: a chain that never moves says nothing about its law")
    scale = coordinate_scale(x)
    here, there = x / scale, x_next / scale
    number = max(2, len(x) // rows_per_cell)
    rng = np.random.default_rng(seed)
    votes = []
    for _ in range(partitions):
        tree = cKDTree(here[rng.choice(len(x), size=min(number, len(x)), replace=False)])
        votes.append(_ratio(tree.query(here)[1], tree.query(there)[1], moved, steps))
    ratio = np.median(votes, axis=0)
    scaled: Floats = ratio / ratio.mean()
    return scaled


def coordinate_scale(x: Floats) -> Floats:
    """The standard deviation of each coordinate, so that none rules the distances; 1 where it is constant."""
    deviation = x.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def _ratio(cell: Any, next_cell: Any, moved: Any, steps: int) -> Floats:
    """τ at each row on one partition, from the rows that moved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StationaryWarning)  # closed cells are expected: the vote is about them
        estimate = VPM(solver="tabular", steps=steps, unseen="restart").fit(Transitions(cell[moved], next_cell[moved]))
    ratio = estimate.ratio(cell)
    scaled: Floats = ratio / ratio.mean()
    return scaled
