"""The two passes over rows that estimates linear in features need.

The first pass adds up moments, from which `system` solves for θ and β. The second one gives the ratio τ = w·βᵀφ and the
Bellman residual r - (φ - γφ')ᵀθ of each row.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Batch, Batches, Moments


def accumulate(batches: Batches) -> Moments:
    """The first pass: the moments of all rows and initial states."""
    moments = accumulate_initial(batches)
    for batch in batches:
        moments.add(batch)
    return moments


def accumulate_initial(batches: Batches) -> Moments:
    """The moments of the initial states alone."""
    moments = Moments.empty(batches.size, batches.next_size)
    for phi, weight in batches.initial():
        moments.add_initial(phi, weight)
    return moments


def accumulate_where_positive(batches: Batches, beta: Floats) -> Moments:
    """The moments of rows with βᵀφ > 0; the others are counted as rows of weight 0. Initial states are left out."""
    moments = Moments.empty(batches.size, batches.next_size)
    for batch in batches:
        positive = (batch.phi @ beta > 0).astype(np.float64)
        weight = positive if batch.weight is None else batch.weight * positive
        moments.add(Batch(batch.rows, batch.phi, batch.phi_next, weight, batch.reward))
    return moments


def accumulate_folds(batches: Batches, fold: Integers, count: int) -> list[Moments]:
    """The moments of each fold's rows, in one pass; initial states are left out.

    Args:
        batches: the rows.
        fold: the fold of each row, 0 … count - 1.
        count: the number of folds.
    """
    folds = [Moments.empty(batches.size, batches.next_size) for _ in range(count)]
    for batch in batches:
        for k, moments in enumerate(folds):
            moments.add(batch.select(np.flatnonzero(fold[batch.rows] == k)))
    return folds


def all_but_each(folds: list[Moments]) -> list[Moments]:
    """For each fold the moments of the rows in the others; of all rows where there is one fold only."""
    whole = reduce(Moments.merge, folds)
    return [whole] if len(folds) == 1 else [whole.without(part) for part in folds]


def apply(
    batches: Batches, beta: Floats, theta: Floats, gamma: float, after_end: Floats | None = None
) -> tuple[Floats, Floats]:
    """The second pass: the ratio τ = w·βᵀφ and the residual r - Δᵀθ of each row, for one or several β and θ.

    Δ is φ - γφ'; at γ = 1, where a constant never changes, its first entry is 1 instead of 0 (see `system`).

    Args:
        batches: the rows.
        beta: shape (D,), or (D, m) for m of them.
        theta: like beta.
        gamma: the discount.
        after_end: φ' after an end, shape (D,): E₀[φ] where ends restart. None: 0.

    Returns:
        Two arrays of shape (rows,) or (rows, m).
    """
    shape = (len(batches), *theta.shape[1:])
    tau, residual = np.empty(shape), np.empty(shape)
    for batch in batches:
        ratio = batch.phi @ beta
        tau[batch.rows] = ratio if batch.weight is None else (batch.weight * ratio.T).T
        residual[batch.rows] = _residual(batch, theta, gamma, after_end)
    return tau, residual


def apply_folds(
    batches: Batches, fold: Integers, theta: Floats, gamma: float, after_end: Floats | None = None
) -> Floats:
    """The residual r - Δᵀθ of each row with the θ of its fold, shape (rows, m).

    Args:
        batches: the rows.
        fold: the fold of each row.
        theta: shape (folds, D, m).
        gamma: the discount.
        after_end: as in `apply`.
    """
    residual = np.empty((len(batches), theta.shape[2]))
    for batch in batches:
        for k, of_fold in enumerate(theta):
            part = batch.select(np.flatnonzero(fold[batch.rows] == k))
            residual[part.rows] = _residual(part, of_fold, gamma, after_end)
    return residual


def _residual(batch: Batch, theta: Floats, gamma: float, after_end: Floats | None) -> Floats:
    k = batch.phi_next.shape[1]
    start = 1 if gamma == 1 else 0  # at γ = 1 the constant's entry of φ' is left out, which makes Δ's first entry 1
    following = batch.phi_next[:, start:] @ theta[start:k]
    if after_end is not None:
        ended, value = 1 - batch.phi_next[:, 0], after_end[start:] @ theta[start:]
        following = following + np.multiply.outer(ended, value)
    reward = 0.0 if batch.reward is None else batch.reward
    residual: Floats = (reward - (batch.phi @ theta - gamma * following).T).T
    return residual
