"""Moments of features over rows: all that a linear system needs to know of the data.

A row is a transition with features φ of where it starts and φ' of where it leads, a weight w and a reward r. Its
moments are w·φφᵀ, w·φ(φ - φ')ᵀ and w·φr. They are kept as sums, so that those of several parts of the data, files or
machines can be merged. φφᵀ and φ(φ - φ')ᵀ are kept apart, so that one pass serves every γ; φ - φ' rather than φ', so
that subtraction loses nothing at γ near 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers


@dataclass(frozen=True)
class Batch:
    """Some rows of the data, as features."""

    rows: Integers
    """The number of each row, from 0, by which results of the second pass are put in order."""
    phi: Floats
    """φ, shape (rows, D). The first column is 1."""
    phi_next: Floats
    """φ', shape (rows, k): the first k ≤ D columns. The others have mean 0 after a step, whatever its start, and are
    left out. A row is 0 in all columns, the first included, where the episode ended and nothing follows."""
    weight: Floats | None = None
    """w ≥ 0; None: 1 for every row."""
    reward: Floats | None = None
    """R; None: 0 for every row."""

    def __len__(self) -> int:
        return len(self.phi)

    def select(self, chosen: Bools | Integers) -> Batch:
        """Only the chosen rows."""
        return Batch(
            self.rows[chosen],
            self.phi[chosen],
            self.phi_next[chosen],
            None if self.weight is None else self.weight[chosen],
            None if self.reward is None else self.reward[chosen],
        )


class Batches(Protocol):
    """Something that yields the rows of some data, a few thousand at a time, as often as it is asked to."""

    def __len__(self) -> int:
        """The number of rows."""

    @property
    def size(self) -> int:
        """D, the number of features of a row."""

    @property
    def next_size(self) -> int:
        """The number k of features after a step that may have a mean other than 0."""

    def __iter__(self) -> Iterator[Batch]:
        """All rows, in batches; each call begins a new pass."""

    def initial(self) -> Iterable[tuple[Floats, Floats | None]]:
        """The initial states in batches: the first k features, shape (n, k), and weights or None for 1."""


@dataclass(frozen=True)
class Means:
    """Moments divided by the number of rows: what the linear systems are made of."""

    gram: Floats
    """E[w φφᵀ], shape (D, D)."""
    change: Floats
    """E[w φ(φ - φ')ᵀ] in the first k columns of φ and φ', shape (D, k), with φ' = 0 after an end."""
    reward: Floats
    """E[w φr], shape (D,)."""
    squares: Floats
    """E[φ²], without weights, shape (D,)."""
    initial: Floats
    """E₀[φ] over initial states, shape (D,); 0 where there are none."""

    @property
    def cross(self) -> Floats:
        """E[w φφ'ᵀ], shape (D, k)."""
        cross: Floats = self.gram[:, : self.change.shape[1]] - self.change
        return cross

    @property
    def ended(self) -> Floats:
        """E[w φ 1(the episode ended)], shape (D,): the constant changes from 1 to 0 at an end, and nowhere else."""
        return self.change[:, 0]

    def flow(self, gamma: float, restart: bool) -> Floats:
        """E[w φ(φ - γφ')ᵀ], shape (D, D).

        Args:
            gamma: the discount.
            restart: whether an initial state follows an end, so that φ' is E₀[φ] there; otherwise φ' is 0 there.
        """
        k = self.change.shape[1]
        change = self.change - np.outer(self.ended, self.initial[:k]) if restart else self.change
        matrix = self.gram.copy()
        matrix[:, :k] = (1 - gamma) * self.gram[:, :k] + gamma * change
        return matrix


@dataclass
class Moments:
    """Sums over rows; those of disjoint sets of rows can be merged, and a part can be taken out again."""

    count: int
    """The number of rows."""
    weight: float
    """Σ w."""
    gram: Floats
    """Σ w φφᵀ, shape (D, D)."""
    change: Floats
    """Σ w φ(φ - φ')ᵀ in the first k columns of φ and φ', shape (D, k)."""
    reward: Floats
    """Σ w φr, shape (D,)."""
    squares: Floats
    """Σ φ², without weights, shape (D,)."""
    initial_weight: float
    """The number of initial states, or the sum of their weights."""
    initial: Floats
    """Σ φ over initial states, weighted, shape (k,)."""

    @classmethod
    def empty(cls, size: int, next_size: int) -> Moments:
        """Of no rows."""
        square, vector = np.zeros((size, size)), np.zeros(size)
        return cls(0, 0.0, square, np.zeros((size, next_size)), vector, vector.copy(), 0.0, np.zeros(next_size))

    def add(self, batch: Batch) -> None:
        """Add the rows of a batch."""
        self.count += len(batch)
        self.squares += np.einsum("nd,nd->d", batch.phi, batch.phi)
        self.weight += len(batch) if batch.weight is None else float(batch.weight.sum())
        if batch.weight is not None and not batch.weight.all():
            batch = batch.select(np.flatnonzero(batch.weight))
        phi, change = batch.phi, batch.phi[:, : len(self.initial)] - batch.phi_next
        if batch.weight is not None:
            # √w on both sides: numpy then takes φᵀφ as a symmetric product, in half of the time.
            root = np.sqrt(batch.weight)[:, None]
            phi, change = phi * root, change * root
        self.gram += phi.T @ phi
        self.change += phi.T @ change
        if batch.reward is not None:
            self.reward += batch.phi.T @ (batch.reward if batch.weight is None else batch.weight * batch.reward)

    def add_initial(self, phi: Floats, weight: Floats | None = None) -> None:
        """Add initial states by their features, shape (n, k)."""
        self.initial_weight += len(phi) if weight is None else float(weight.sum())
        self.initial += phi.sum(axis=0) if weight is None else weight @ phi

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows together."""
        return self._plus(other, 1)

    def without(self, part: Moments) -> Moments:
        """The moments of the rows that are not in `part`, which must be among these."""
        return self._plus(part, -1)

    def _plus(self, other: Moments, sign: int) -> Moments:
        return Moments(
            self.count + sign * other.count,
            self.weight + sign * other.weight,
            self.gram + sign * other.gram,
            self.change + sign * other.change,
            self.reward + sign * other.reward,
            self.squares + sign * other.squares,
            self.initial_weight + sign * other.initial_weight,
            self.initial + sign * other.initial,
        )

    def initial_mean(self) -> Floats:
        """E₀[φ], shape (D,): 0 in the columns beyond k, and everywhere where there are no initial states."""
        mean = np.zeros(len(self.gram))
        if self.initial_weight > 0:
            mean[: len(self.initial)] = self.initial / self.initial_weight
        return mean

    def means(self) -> Means:
        """Divide the sums over rows by their number, and those over initial states by theirs."""
        n = self.count
        return Means(self.gram / n, self.change / n, self.reward / n, self.squares / n, self.initial_mean())


def accumulate(batches: Batches) -> Moments:
    """The first pass: the moments of all rows and initial states."""
    moments = accumulate_initial(batches)
    for batch in batches:
        moments.add(batch)
    return moments


def accumulate_beyond(known: Moments, batches: Batches) -> Moments:
    """The moments of rows whose first features have known moments: only products with the others are computed.

    Args:
        known: the moments of the same rows and initial states in the first `batches.next_size` features.
        batches: the rows, without weights.
    """
    k, moments = batches.next_size, Moments.empty(batches.size, batches.next_size)
    for batch in batches:
        here, more = batch.phi[:, :k], batch.phi[:, k:]
        moments.gram[k:, :k] += more.T @ here
        moments.gram[k:, k:] += more.T @ more
        moments.change[k:] += more.T @ (here - batch.phi_next)
        moments.squares[k:] += np.einsum("nd,nd->d", more, more)
        if batch.reward is not None:
            moments.reward[k:] += more.T @ batch.reward
    moments.gram[:k, k:] = moments.gram[k:, :k].T
    moments.gram[:k, :k], moments.change[:k] = known.gram, known.change
    moments.squares[:k], moments.reward[:k] = known.squares, known.reward
    moments.count, moments.weight = known.count, known.weight
    moments.initial_weight, moments.initial = known.initial_weight, known.initial
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
