"""What a clone is regressed on and what is regressed: features of states, and actions in units of the target.

Some actions were clipped to a bound: of these densities and expectations are those of a Gaussian's tail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks, group_sums
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.ope.adapter.states import KEPT_ROWS, StateFeatures
from ope_vpm.ope.log import Precision, precision_for
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.policy.continuous import LOG_ROOT_TWO_PI, log_densities
from ope_vpm.threads import cached_property

FAR_BEYOND = 25.0
"""Deviations beyond which the probability of a tail is taken by its logarithm: at 38 it is no longer a number."""
NO_RIDGE = 1e-8
"""On the constant and on linear features: it only keeps collinear states from a singular matrix."""
KEPT_NUMBERS = 1 << 22
"""Linear features that are kept, 32 MB, though all features are too many: two policies are told apart in some forty
passes over them."""


@dataclass(frozen=True, eq=False)
class Design:
    """The regressors of every row: a constant, features that are linear in the state, then others."""

    length: int
    """The number of rows."""
    size: int
    """The number of features."""
    linear: int
    """How many of them are linear."""
    features: Callable[[slice], Floats]
    """All features of some rows."""
    linear_features: Callable[[slice], Floats]
    """The constant and the linear features of some rows."""
    step: int
    """How many rows are looked at together."""
    maps: tuple[Array, ...] = ()
    """What the rows are read from, where it may be on disk."""

    @classmethod
    def table(cls, features: Floats, linear: int) -> Design:
        """Features (n, D) that are there already."""
        size, plain = int(features.shape[1]), np.ascontiguousarray(features[:, : 1 + linear])
        return cls(len(features), size, linear, features.__getitem__, plain.__getitem__, len(features))

    @classmethod
    def of_states(cls, states: StateFeatures, observations: Array, precision: Precision | None = None) -> Design:
        """Features of observed states: a table where they are few, otherwise computed whenever they are needed.

        Args:
            states: the features.
            observations: the states.
            precision: of the features; by default single where there are many.
        """
        precision = precision or precision_for(len(observations))
        if len(observations) <= KEPT_ROWS and precision is np.float64:
            return cls.table(states(observations), states.linear)

        def features(rows: slice) -> Floats:
            out = np.empty((rows.stop - rows.start, states.size), precision)
            states.fill(observations[rows], None, out)
            return out.astype(np.float64, copy=False)

        def plain(rows: slice) -> Floats:
            z = states.limited_coordinates(observations[rows])
            return np.column_stack([np.ones(len(z)), z])

        @cache
        def table() -> Floats:
            return np.concatenate([plain(some) for some in chunks(len(observations), BATCH_ROWS)])

        kept = len(observations) * (1 + states.linear) <= KEPT_NUMBERS
        linear = (lambda rows: table()[rows]) if kept else plain
        return cls(len(observations), states.size, states.linear, features, linear, BATCH_ROWS, (observations,))

    @property
    def plain(self) -> Design:
        """The constant and the linear features alone."""
        return replace(self, size=1 + self.linear, features=self.linear_features)

    def batches(self) -> Iterator[tuple[slice, Floats]]:
        """All rows in order, some at a time: which ones, and their features."""
        for rows in chunks(self.length, self.step, of=self.maps):
            yield rows, self.features(rows)

    def penalty(self, ridge: float) -> Floats:
        """(size,): the ridge on features that are not linear, next to nothing on the others."""
        penalty = np.full(self.size, NO_RIDGE)
        penalty[1 + self.linear :] = ridge
        return penalty

    def gram(self, weight: Floats) -> Floats:
        """Σ w φφᵀ, shape (size, size)."""
        total, root = np.zeros((self.size, self.size)), np.sqrt(weight)
        for rows, features in self.batches():
            weighted = features * root[rows, None]
            total += weighted.T @ weighted  # a symmetric product, which numpy takes in half of the time
        return total


@dataclass(frozen=True)
class ClippedEntries:
    """The clipped entries among (n, m) draws, one after another."""

    place: Integers
    """The place of each in the flat array of draws."""
    column: Integers
    """Its coordinate."""
    side: Floats
    """-1 at a lower bound, +1 at an upper one."""
    bound: Floats
    """In units of the target."""


@dataclass(frozen=True)
class Draws:
    """Actions in units of the target, and which of their coordinates were clipped."""

    z: Floats
    """(n, m); at a clipped entry that of the bound."""
    below: Bools
    """(n, m): clipped to the lower bound."""
    above: Bools
    """(n, m): clipped to the upper bound."""
    memory: Memory = field(default_factory=Memory, repr=False, compare=False)

    @classmethod
    def unclipped(cls, z: Floats) -> Draws:
        """Draws that no bound touched."""
        nowhere = np.zeros(z.shape, dtype=np.bool_)
        return cls(z, nowhere, nowhere)

    @property
    def clipped(self) -> Bools:
        """Where either bound was hit."""
        return self.below | self.above

    @cached_property
    def any_clipped(self) -> bool:
        """Whether a bound was hit anywhere."""
        return bool(self.below.any() or self.above.any())

    @cached_property
    def entries(self) -> ClippedEntries:
        """The clipped entries."""
        place = np.flatnonzero(self.clipped)
        side = np.where(self.above.ravel()[place], 1.0, -1.0)
        return ClippedEntries(place, place % self.z.shape[1], side, self.z.ravel()[place])

    @remembered
    def at(self, start: int, stop: int) -> Draws:
        """The rows of a batch, which rounds look at many times."""
        return self.chosen(slice(start, stop))

    def chosen(self, rows: Bools | slice) -> Draws:
        """Some of the rows."""
        return Draws(self.z[rows], self.below[rows], self.above[rows])

    def seen(self, mean: Floats, std: Floats) -> Seen:
        """The draws under a Gaussian with a mean for each entry, (n, m), and deviations (m,)."""
        return Seen(self, mean, std)

    def log_density(self, mean: Floats, std: Floats) -> Floats:
        """(n,): the log-density of what was seen, with the probability of the tail where it was clipped."""
        return self.seen(mean, std).log_density()

    def expected(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each draw, (n, m), given what was seen of it."""
        seen, variance = self.seen(mean, std), np.zeros_like(self.z)
        variance.ravel()[self.entries.place] = seen.variance
        return seen.centre, variance


class Seen:
    """Densities and expectations of partly clipped draws under a Gaussian; tails are looked up once for both.

    Args:
        draws: the draws.
        mean: of the Gaussian at each, (n, m).
        std: its standard deviations, (m,).
    """

    def __init__(self, draws: Draws, mean: Floats, std: Floats) -> None:
        self.draws, self.mean, self.std = draws, mean, std

    @cached_property
    def _tails(self) -> tuple[Floats, Floats, Floats, Floats]:
        """For each clipped entry the standard deviation, the bound's distance from the mean in it, and its tail."""
        entries = self.draws.entries
        width = self.std[entries.column]
        edge = entries.side * (entries.bound - self.mean.ravel()[entries.place]) / width
        return width, edge, *tails(edge)

    def log_density(self) -> Floats:
        """(n,): the log-density of what was seen, with the probability of the tail where it was clipped."""
        logs = log_densities((self.draws.z - self.mean) / self.std, self.std)
        if self.draws.any_clipped:
            logs.ravel()[self.draws.entries.place] = self._tails[2]
        return logs.sum(axis=1)

    @cached_property
    def centre(self) -> Floats:
        """(n, m): the expected draws."""
        if not self.draws.any_clipped:
            return self.draws.z
        centre, entries = self.draws.z.copy(), self.draws.entries
        width, _, _, hazard = self._tails
        centre.ravel()[entries.place] = self.mean.ravel()[entries.place] + entries.side * width * hazard
        return centre

    @cached_property
    def variance(self) -> Floats:
        """The variance of each clipped entry, given that it lies beyond its bound; all others are known."""
        width, edge, _, hazard = self._tails
        return width**2 * np.clip(1 + edge * hazard - hazard**2, 0.0, 1.0)

    def variances(self, weight: Floats) -> Floats:
        """(m,): Σ w·Var[draw]."""
        columns = self.draws.z.shape[1]
        if not self.draws.any_clipped:
            return np.zeros(columns)
        entries = self.draws.entries
        weighted = weight[entries.place // columns] * self.variance
        return group_sums(entries.column, weighted, columns)


def tails(edge: Floats) -> tuple[Floats, Floats]:
    """Log Φ(-x) and φ(x)/Φ(-x) of a standard normal distribution: of the tail beyond x, probability and hazard.

    ndtr is three times as fast as log_ndtr, which is left for what is far beyond.
    """
    logs = np.log(ndtr(-np.minimum(edge, FAR_BEYOND)))
    far = np.flatnonzero(edge > FAR_BEYOND)
    if len(far):
        logs[far] = log_ndtr(-edge[far])
    hazard: Floats = np.exp(-0.5 * edge**2 - LOG_ROOT_TWO_PI - logs)
    return logs, hazard


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian whose mean is linear in features, with one standard deviation per coordinate."""

    coefficients: Floats
    """(k, m), of the first k features."""
    std: Floats
    """(m,)."""

    @classmethod
    def target(cls, draws: Draws) -> Gaussian:
        """N(0, 1), the target itself, where a fit begins."""
        return cls(np.zeros((1, draws.z.shape[1])), np.ones(draws.z.shape[1]))

    def mean(self, features: Floats) -> Floats:
        """(n, m), at rows with these features."""
        return features[:, : len(self.coefficients)] @ self.coefficients

    def seen(self, draws: Draws, features: Floats) -> Seen:
        """Draws at rows with these features, under this Gaussian."""
        return draws.seen(self.mean(features), self.std)

    def log_density(self, draws: Draws, design: Design) -> Floats:
        """(n,): the log-density of what was seen of each draw."""
        batches = design.batches()
        return np.concatenate(
            [self.seen(draws.at(rows.start, rows.stop), features).log_density() for rows, features in batches]
        )
