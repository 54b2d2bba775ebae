"""Gaussians whose mean is linear in features, fitted by expectation and maximisation where draws were clipped.

Dempster, Laird and Rubin (1977): draws beyond a bound are what is not seen. With G = Σ w φφᵀ, P = Σ w φ·E[draw] and
S = Σ w E[draw²] the coefficients are (G + ridge)⁻¹P, and the squares that they leave S - 2βᵀP + βᵀGβ: a round passes
over the rows once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ope_vpm.arrays import Array, Floats, chunks
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.adapter.state_rows import KEPT_ROWS
from ope_vpm.ope.behaviour.draws import Draws, Seen
from ope_vpm.ope.log import Precision, precision_for

NO_RIDGE = 1e-8
"""On the constant and on linear features: it only keeps collinear states from a singular matrix."""
KEPT_NUMBERS = 1 << 22
"""Linear features that are kept, 32 MB, though all features are too many: two policies are told apart in some forty
passes over them."""
LEAST_VARIANCE = 1e-12
"""Added to a variance, so that constant actions have a density."""
LEAST_LEFT = 1e-6
"""The share of Σ w E[draw²] below which what a fit leaves is summed up over rows: a difference of sums would have lost
ten of sixteen digits there."""


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


@dataclass(frozen=True)
class Expectation:
    """Sums over rows of what is expected of each draw."""

    products: Floats
    """Σ w φ·E[draw], shape (D, m)."""
    squares: Floats
    """Σ w E[draw²], shape (m,)."""


def expectation(draws: Draws, now: Gaussian, design: Design, weight: Floats) -> Expectation:
    """The E step: expected draws and squares, under the Gaussian of the round before.

    Args:
        draws: the draws.
        now: the Gaussian.
        design: the features.
        weight: of each row.
    """
    columns = draws.z.shape[1]
    products, squares = np.zeros((design.size, columns)), np.zeros(columns)
    for rows, features in design.batches():
        seen = now.seen(draws.at(rows.start, rows.stop), features)
        products += features.T @ (weight[rows, None] * seen.centre)
        squares += weight[rows] @ np.square(seen.centre) + seen.variances(weight[rows])
    return Expectation(products, squares)


class Regression:
    """Ridge regression with weighted rows, whose matrix is factored once.

    Args:
        design: the features of all rows.
        ridge: on the squared coefficients of features that are not linear, per unit of weight.
        weight: (n,).
        gram: Σ w φφᵀ, where it is known already.
    """

    def __init__(self, design: Design, ridge: float, weight: Floats, gram: Floats | None = None) -> None:
        self.design, self.weight, self.total = design, weight, float(weight.sum())
        self.gram = design.gram(weight) if gram is None else gram
        self.factor = cho_factor(self.gram + np.diag(design.penalty(ridge) * self.total))

    def solve(self, products: Floats) -> Floats:
        """The coefficients, from Σ w φ·value."""
        return cho_solve(self.factor, products)

    def coefficients(self, values: Floats) -> Floats:
        """(size,): of the regression of a value at every row."""
        right = sum(features.T @ (self.weight[rows] * values[rows]) for rows, features in self.design.batches())
        return self.solve(np.asarray(right))

    def fit(self, draws: Draws, start: Gaussian, rounds: int) -> Gaussian:
        """A Gaussian by expectation and maximisation; where nothing was clipped one round is exact.

        Args:
            draws: the draws.
            start: the Gaussian of the first expectation.
            rounds: how often.
        """
        found = start
        for _ in range(rounds if draws.any_clipped else 1):
            found = self.maximised(draws, found, expectation(draws, found, self.design, self.weight))
        return found

    def maximised(self, draws: Draws, now: Gaussian, expected: Expectation) -> Gaussian:
        """The likeliest Gaussian for what is expected under the one of the round before."""
        coefficients = self.solve(expected.products)
        explained = np.sum(coefficients * (2 * expected.products - self.gram @ coefficients), axis=0)
        left = expected.squares - explained
        if (left < LEAST_LEFT * expected.squares).any():
            left = left_squares(draws, now, self.design, self.weight, coefficients)
        return Gaussian(coefficients, np.sqrt(left / self.total + LEAST_VARIANCE))


def left_squares(draws: Draws, now: Gaussian, design: Design, weight: Floats, coefficients: Floats) -> Floats:
    """Σ w E[(draw - φᵀβ)²], shape (m,), row by row, the expectation being under the Gaussian of the round before."""
    total = np.zeros(draws.z.shape[1])
    for rows, features in design.batches():
        seen = now.seen(draws.at(rows.start, rows.stop), features)
        total += weight[rows] @ np.square(seen.centre - features @ coefficients) + seen.variances(weight[rows])
    return total
