"""Features of the states of a log as regressors: a table of a short log, or computed a few thousand rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Floats, chunks
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.ope.adapter.encoding import StateFeatures
from ope_vpm.ope.adapter.pair_features import KEPT_ROWS, SINGLE_PRECISION_ROWS


class Design(ABC):
    """A constant, then features that are linear in the state, then others, for every row of a log."""

    linear: int
    """How many are linear."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of features."""

    @property
    @abstractmethod
    def plain(self) -> Design:
        """The constant and the linear features alone."""

    @abstractmethod
    def batches(self) -> Iterator[tuple[slice, Floats]]:
        """All rows in order, some at a time: which ones, and their features, valid until the next are asked for."""

    def penalty(self, ridge: float, least: float) -> Floats:
        """(size,): the ridge on features that are not linear, and `least` on the others."""
        penalty = np.full(self.size, least)
        penalty[1 + self.linear :] = ridge
        return penalty

    def gram(self, weight: Floats) -> Floats:
        """Σ w φφᵀ, shape (size, size)."""
        total = np.zeros((self.size, self.size))
        for rows, features in self.batches():
            total += (features * weight[rows, None]).T @ features
        return total


@dataclass(frozen=True, eq=False)
class Table(Design):
    """Features that are there already."""

    features: Floats
    """(n, D)."""
    linear: int

    def __len__(self) -> int:
        return len(self.features)

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    @property
    def plain(self) -> Table:
        """The constant and the linear features alone."""
        return Table(self.features[:, : 1 + self.linear], self.linear)

    def batches(self) -> Iterator[tuple[slice, Floats]]:
        """All rows at once."""
        yield slice(0, len(self)), self.features


@dataclass(frozen=True, eq=False)
class Computed(Design):
    """Features that are computed whenever they are asked for, in single precision where rows are many."""

    features: StateFeatures
    observations: Array
    only_plain: bool = False

    @property
    def linear(self) -> int:  # type: ignore[override]  # known from the features
        """How many features are linear."""
        return self.features.linear

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def size(self) -> int:
        """The number of features."""
        return 1 + self.linear if self.only_plain else self.features.size

    @property
    def plain(self) -> Computed:
        """The constant and the linear features alone."""
        return Computed(self.features, self.observations, only_plain=True)

    def batches(self) -> Iterator[tuple[slice, Floats]]:
        """All rows, a few thousand at a time."""
        out = np.ones((min(len(self), BATCH_ROWS), self.size))
        precision = np.float32 if len(self) >= SINGLE_PRECISION_ROWS else np.float64
        computed = np.empty(out.shape, precision)
        for rows in chunks(len(self), BATCH_ROWS, of=[self.observations]):
            part = out[: rows.stop - rows.start]
            if self.only_plain:
                part[:, 1:] = self.features.limited_coordinates(self.observations[rows])
            else:
                self.features.fill(self.observations[rows], None, computed[: len(part)])
                part[:] = computed[: len(part)]
            yield rows, part


def design_of(features: StateFeatures, observations: Array) -> Design:
    """The features of the states, kept in memory where they are few."""
    if len(observations) <= KEPT_ROWS:
        return Table(features(observations), features.linear)
    return Computed(features, observations)
