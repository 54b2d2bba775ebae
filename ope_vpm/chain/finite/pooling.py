"""Ordered states, few data: each state's law of increments x' - x, shrunk towards the one of all states.

A queue moves by the same rule at every length but the shortest. Sharing what all states show about
increments is a smooth class of ratios; how far to share is read off the data's own likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from ope_vpm.arrays import Floats
from ope_vpm.chain.finite.counts import CountedChain, StateIndex
from ope_vpm.chain.transitions import Transitions

STRENGTHS = np.logspace(-1, 5, 61)
MOST_ENTRIES = 50_000_000


def pooled(transitions: Transitions, strength: bool | float) -> CountedChain:
    """Count transitions over the whole range of states, each row mixed with the pooled law of increments.

    Args:
        transitions: between ordered states; every whole number in their range becomes a state.
        strength: how many observations the pooled law is worth in each state; True: by likelihood.
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
    weight = transitions.row_weights[:, None] * (1 if transitions.next_weight is None else transitions.next_weight)
    counts = _matrix(np.broadcast_to(x[:, None], x_next.shape) - low, x_next - low, weight, size)
    prior = _pooled_law(x_next - x[:, None], weight, increments, size)
    kappa = float(strength) if strength is not True else likeliest_strength(counts, prior)
    times = np.asarray(counts.sum(axis=1)).ravel()
    mixed = sparse.diags_array(1 / (times + kappa)) @ (counts + kappa * prior)
    p = times / times.sum()
    index = StateIndex.of(np.arange(low, high + 1))
    initial = _initial(transitions, low, size)
    nothing = np.zeros(size)
    mixed = mixed.tocsr()
    mixed.eliminate_zeros()
    rows = np.bincount(x - low, minlength=size)
    return CountedChain(index, p, mixed, nothing, p, initial, (times == 0).astype(np.float64), rows)


def likeliest_strength(counts: Any, prior: Any) -> float:
    """The concentration κ of the Dirichlet prior κ·law under which the counts are most likely."""
    counts = counts.tocoo()
    law = np.asarray(prior.tocsr()[counts.row, counts.col]).ravel()
    times = np.bincount(counts.row, weights=counts.data)
    times = times[times > 0]

    def log_likelihood(kappa: float) -> float:
        rows = times.size * gammaln(kappa) - gammaln(kappa + times).sum()
        cells = gammaln(kappa * law + counts.data) - gammaln(kappa * law)
        return float(rows + cells.sum())

    return float(max(STRENGTHS, key=log_likelihood))


def _pooled_law(increment: Any, weight: Any, increments: Any, size: int) -> Any:
    """From each state, the pooled law of increments; what would leave the range stays at its end."""
    weights = np.broadcast_to(weight, increment.shape).ravel()
    share = np.bincount(np.searchsorted(increments, increment.ravel()), weights=weights)
    state = np.arange(size)
    target = np.clip(state[:, None] + increments, 0, size - 1)
    return _matrix(np.repeat(state, increments.size), target, np.tile(share / share.sum(), size), size)


def _matrix(row: Any, column: Any, value: Any, size: int) -> Any:
    entries = (
        np.broadcast_to(value, np.shape(column)).ravel() if np.ndim(value) > 1 else value,
        (np.ravel(row), np.ravel(column)),
    )
    return sparse.coo_array(entries, shape=(size, size)).tocsr()


def _initial(transitions: Transitions, low: int, size: int) -> Floats | None:
    if transitions.x_initial is None:
        return None
    number = np.clip(transitions.x_initial - low, 0, size - 1)
    law: Floats = np.bincount(number, weights=transitions.initial_weights, minlength=size) / len(number)
    return law
