"""Moments of features over rows: all that a linear system needs to know of the data.

A row is a transition with features φ of where it starts and φ' of where it leads, a weight w and a reward r. Its
moments are w·φφᵀ, w·φ(φ - φ')ᵀ and w·φr. They are kept as sums, so that those of several parts of the data, files or
machines can be merged. φφᵀ and φ(φ - φ')ᵀ are kept apart, so that one pass serves every γ; φ - φ' rather than φ', so
that subtraction loses nothing at γ near 1.

Features may come in single precision, which halves the time of a pass. Products are then taken in single precision
within a batch of a few thousand rows, and batches are added up in double precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import reduce
from itertools import pairwise
from typing import ClassVar, Protocol

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers


@dataclass(frozen=True)
class Batch:
    """Some rows of the data, as features. Its arrays may be overwritten when the next batch is asked for."""

    rows: Integers
    """The number of each row, from 0, by which results of the second pass are put in order."""
    phi: Array
    """φ, shape (rows, D), in double or single precision. The first column is 1."""
    phi_next: Array
    """φ', shape (rows, k): the first k ≤ D columns. The others have mean 0 after a step, whatever its start, and are
    left out. A row is 0 in all columns, the first included, where the episode ended and nothing follows."""
    weight: Floats | None = None
    """w ≥ 0; None: 1 for every row."""
    reward: Floats | None = None
    """R; None: 0 for every row."""

    def __len__(self) -> int:
        return len(self.phi)

    def select(self, chosen: Integers | slice) -> Batch:
        """Only the chosen rows; as views where they are a slice."""
        weight, reward = (None if each is None else each[chosen] for each in (self.weight, self.reward))
        return Batch(self.rows[chosen], self.phi[chosen], self.phi_next[chosen], weight, reward)


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
        return self.gram[:, : self.change.shape[1]] - self.change

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

    adds_up: ClassVar[bool] = True
    """Those of many parts are as large as those of one."""
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
        """Empty moments, to which batches can be added."""
        square, vector = np.zeros((size, size)), np.zeros(size)
        return cls(0, 0.0, square, np.zeros((size, next_size)), vector, vector.copy(), 0.0, np.zeros(next_size))

    def add(self, batch: Batch) -> None:
        """Add the rows of a batch."""
        self.count += len(batch)
        self.weight += len(batch) if batch.weight is None else float(batch.weight.sum())
        self.squares += np.einsum("nd,nd->d", batch.phi, batch.phi)
        if batch.weight is not None and 2 * np.count_nonzero(batch.weight) < len(batch):
            batch = batch.select(np.flatnonzero(batch.weight))
        phi, k = batch.phi, len(self.initial)
        change = phi[:, :k] - batch.phi_next
        reward = batch.reward
        if batch.weight is not None:
            # √w on both sides: numpy then takes φᵀφ as a symmetric product, in half of the time.
            root = np.sqrt(batch.weight)
            column = root.astype(phi.dtype)[:, None]
            phi = phi * column
            change *= column
            reward = None if reward is None else root * reward
        self.gram += phi.T @ phi
        self.change += phi.T @ change
        if reward is not None:
            self.reward += phi.T @ reward.astype(phi.dtype)

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows together."""
        return Moments(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def without(self, part: Moments) -> Moments:
        """The moments of the rows that are not in `part`, which must be among these."""
        return Moments(*(getattr(self, each.name) - getattr(part, each.name) for each in fields(self)))

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


def accumulate_initial(batches: Batches) -> Moments:
    """The moments of the initial states alone."""
    moments = Moments.empty(batches.size, batches.next_size)
    for phi, weight in batches.initial():
        moments.initial_weight += len(phi) if weight is None else float(weight.sum())
        moments.initial += phi.sum(axis=0) if weight is None else weight @ phi
    return moments


def accumulate_where_positive(batches: Batches, beta: Floats) -> Moments:
    """The moments of rows with βᵀφ > 0; the others are counted as rows of weight 0. Initial states are left out."""
    moments = Moments.empty(batches.size, batches.next_size)
    for batch in batches:
        positive = (combined(batch.phi, beta) > 0).astype(np.float64)
        weight = positive if batch.weight is None else batch.weight * positive
        moments.add(Batch(batch.rows, batch.phi, batch.phi_next, weight, batch.reward))
    return moments


def combined(features: Array, coefficients: Floats) -> Floats:
    """Features times coefficients, in the features' precision, as float64."""
    product: Array = features @ coefficients.astype(features.dtype, copy=False)
    return product.astype(np.float64, copy=False)


def accumulate_folds(batches: Batches, fold: Integers, count: int) -> list[Moments]:
    """The moments of each fold's rows, in one pass; initial states are left out.

    Args:
        batches: the rows.
        fold: the fold of each row, 0 … count - 1.
        count: the number of folds.
    """
    folds = [Moments.empty(batches.size, batches.next_size) for _ in range(count)]
    for batch in batches:
        for moments, part in zip(folds, by_fold(batch, fold, count), strict=True):
            moments.add(part)
    return folds


def by_fold(batch: Batch, fold: Integers, count: int) -> list[Batch]:
    """The rows of each fold; they are put in the order of folds once, so that the parts are views."""
    of_rows = fold[batch.rows]
    rising = (np.diff(of_rows) >= 0).all()
    ordered = batch if rising else batch.select(np.argsort(of_rows, kind="stable"))
    bounds = np.searchsorted(fold[ordered.rows], np.arange(count + 1)).tolist()
    return [ordered.select(slice(first, last)) for first, last in pairwise(bounds)]


def all_but_each(folds: list[Moments]) -> list[Moments]:
    """For each fold the moments of the rows in the others; of all rows where there is one fold only."""
    whole = reduce(Moments.merge, folds)
    return [whole] if len(folds) == 1 else [whole.without(part) for part in folds]
