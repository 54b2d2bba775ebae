"""The second pass over rows: what a solution says of each of them, its ratio τ = w·βᵀφ and its residual r - Δᵀθ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Batch, Batches, by_fold, combined


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
        tau[batch.rows], residual[batch.rows] = _of_rows(batch, beta, theta, gamma, after_end)
    return tau, residual


@dataclass(frozen=True)
class GroupSums:
    """Sums of a second pass over the rows of each group, for m pairs of β and θ."""

    influence: Floats
    """Σ τ·residual, shape (groups, m)."""
    ended: Floats
    """Σ τ over all rows after which the episode ended, shape (m,)."""


def apply_to_groups(
    batches: Batches,
    group: Integers,
    groups: int,
    beta: Floats,
    theta: Floats,
    gamma: float,
    after_end: Floats | None = None,
    of_ends: int = 0,
) -> GroupSums:
    """The second pass where only sums over groups of rows are wanted: nothing is kept of single rows.

    Args:
        batches: the rows.
        group: the number of each row's group, from 0; rows of a group mostly follow one another.
        groups: how many groups there are.
        beta: shape (D, m).
        theta: shape (D, m).
        gamma: the discount.
        after_end: as in `apply`.
        of_ends: how many of the last columns have the reward 1[the episode ended] instead of the rows' own.
    """
    sums, ended = np.zeros((groups, theta.shape[1])), np.zeros(theta.shape[1])
    for batch in batches:
        tau, residual = _of_rows(batch, beta, theta, gamma, after_end)
        if of_ends:
            residual[:, -of_ends:] += (batch.phi_next[:, 0] == 0)[:, None]
            residual[:, -of_ends:] -= 0.0 if batch.reward is None else batch.reward[:, None]
        of_rows = group[batch.rows]
        first = np.flatnonzero(np.diff(of_rows, prepend=-1))
        np.add.at(sums, of_rows[first], np.add.reduceat(tau * residual, first, axis=0))
        ended += tau[batch.phi_next[:, 0] == 0].sum(axis=0)
    return GroupSums(sums, ended)


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
        for part, of_fold in zip(by_fold(batch, fold, len(theta)), theta, strict=True):
            value = combined(part.phi, of_fold)
            residual[part.rows] = _residual(part, value, of_fold, gamma, after_end)
    return residual


def _of_rows(
    batch: Batch, beta: Floats, theta: Floats, gamma: float, after_end: Floats | None
) -> tuple[Floats, Floats]:
    """τ and the residual of each row; β and θ are applied together, in one product."""
    both = combined(batch.phi, np.column_stack([beta, theta]))
    columns = both.shape[1] // 2
    ratio, value = both[:, :columns].reshape(-1, *beta.shape[1:]), both[:, columns:].reshape(-1, *theta.shape[1:])
    tau = ratio if batch.weight is None else (batch.weight * ratio.T).T
    return tau, _residual(batch, value, theta, gamma, after_end)


def _residual(batch: Batch, value: Floats, theta: Floats, gamma: float, after_end: Floats | None) -> Floats:
    """The residual r - Δᵀθ of each row, from φᵀθ."""
    k = batch.phi_next.shape[1]
    start = 1 if gamma == 1 else 0  # at γ = 1 the constant's entry of φ' is left out, which makes Δ's first entry 1
    following = combined(batch.phi_next[:, start:], theta[start:k])
    if after_end is not None:
        ended, at_start = 1.0 - batch.phi_next[:, 0], after_end[start:] @ theta[start:]
        following = following + np.multiply.outer(ended, at_start)
    reward = 0.0 if batch.reward is None else batch.reward
    residual: Floats = (reward - (value - gamma * following).T).T
    return residual
