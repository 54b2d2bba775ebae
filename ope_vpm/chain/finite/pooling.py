"""Ordered states, few data: each state's distribution of increments x' - x, shrunk towards the one of all states.

A queue moves by the same rule at every length but the shortest. Sharing what all states show about increments makes
the ratio smooth; how far to share is read off the data's own likelihood.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

from ope_vpm.arrays import Array, Floats, group_sums
from ope_vpm.chain.finite.counts import CountedChain, StateIndex
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.chain.transitions import Transitions

STRENGTHS = np.logspace(-1, 5, 61)
"""The concentrations κ that are tried, ten per decade: from a tenth of an observation, which changes nothing, to 10⁵,
with which all states move alike."""
MOST_ENTRIES = 50_000_000
"""The largest matrix of states by increments: 400 MB."""


def pooled(transitions: Transitions, strength: bool | float) -> CountedChain:
    """Count transitions over the whole range of states, each row mixed with the pooled distribution of increments.

    Args:
        transitions: between ordered states; every whole number in their range becomes a state.
        strength: how many observations the pooled distribution is worth in each state; True: by likelihood.
    """
    transitions = transitions.with_weight()
    x, x_next = transitions.x, transitions.successors
    low, high = int(min(x.min(), x_next.min())), int(max(x.max(), x_next.max()))
    increments = np.unique(x_next - x[:, None])
    size = high - low + 1
    if size * increments.size > MOST_ENTRIES:
        raise ValueError(
            f"pool_increments needs a short range of ordered states: {size} states x {increments.size} increments"
        )
    share = 1.0 if transitions.next_weight is None else transitions.next_weight
    weight = np.broadcast_to(transitions.row_weights[:, None] * share, x_next.shape)
    counts = _matrix(np.broadcast_to(x[:, None] - low, x_next.shape), x_next - low, weight, size)
    prior = _pooled_increments(x_next - x[:, None], weight, increments, size)
    kappa = float(strength) if strength is not True else likeliest_strength(counts, prior)
    times = np.asarray(counts.sum(axis=1)).ravel()
    mixed = (sparse.diags_array(1 / (times + kappa)) @ (counts + kappa * prior)).tocsr()
    mixed.eliminate_zeros()
    p = times / times.sum()
    return CountedChain(
        index=StateIndex.of(np.arange(low, high + 1)),
        p=p,
        kernel=mixed,
        lost=np.zeros(size),
        restart=p,
        known_initial=_initial(transitions, low, size),
        unseen=(times == 0).astype(np.float64),
        times=np.bincount(x - low, minlength=size),
    )


def likeliest_strength(counts: SparseMatrix, prior: SparseMatrix) -> float:
    """The concentration κ of the Dirichlet prior κ·prior under which the counts are most likely."""
    counts = counts.tocoo()
    probability = np.asarray(prior.tocsr()[counts.row, counts.col]).ravel()
    times = np.bincount(counts.row, weights=counts.data)
    times = times[times > 0]

    def log_likelihood(kappa: float) -> float:
        rows = times.size * gammaln(kappa) - gammaln(kappa + times).sum()
        cells = gammaln(kappa * probability + counts.data) - gammaln(kappa * probability)
        return float(rows + cells.sum())

    return float(max(STRENGTHS, key=log_likelihood))


def _pooled_increments(increment: Array, weight: Floats, increments: Array, size: int) -> SparseMatrix:
    """The pooled distribution of increments applied to each state; what would leave the range stays at its end."""
    share = group_sums(np.searchsorted(increments, increment.ravel()), weight.ravel())
    state = np.arange(size)
    target = np.clip(state[:, None] + increments, 0, size - 1)
    return _matrix(np.repeat(state, increments.size), target, np.tile(share / share.sum(), size), size)


def _matrix(row: npt.ArrayLike, column: npt.ArrayLike, value: npt.ArrayLike, size: int) -> SparseMatrix:
    entries = (np.ravel(value), (np.ravel(row), np.ravel(column)))
    return sparse.coo_array(entries, shape=(size, size)).tocsr()


def _initial(transitions: Transitions, low: int, size: int) -> Floats | None:
    """The distribution of initial states, those beyond the range moved to its ends; None where there are none."""
    if transitions.x_initial is None:
        return None
    number = np.clip(transitions.x_initial - low, 0, size - 1)
    return group_sums(number, transitions.initial_weights, size) / len(number)
