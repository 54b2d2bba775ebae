"""Ridge regressions of several columns on features that need not all be in memory, and how certain they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import ROUNDING, Bools, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, Standardiser

RIDGES = 10.0 ** np.arange(-9, -0.5, 0.5)
"""In units of the mean eigenvalue of the features' Gram matrix; the best one for each column is taken on held-out
episodes."""


@dataclass(frozen=True)
class Columns:
    """Columns to be regressed, in units of their deviation over the rows that are fitted."""

    scaled: Floats
    """(n, columns): (y - mean)/deviation."""
    mean: Floats
    deviation: Floats
    constant: Bools
    """(columns,): which do not vary but for rounding."""

    @classmethod
    def of(cls, y: Floats, train: Bools, held_out: Bools, size: float) -> Columns:
        """Scale the columns.

        Args:
            y: (n, columns).
            train: (n,): the rows that are fitted.
            held_out: (n,): the rows that judge.
            size: of what the columns were computed from: what varies by a rounding error of it is constant.
        """
        scale = Standardiser.fit(y[train])
        constant = np.ptp(y[train | held_out], axis=0) <= ROUNDING * (size + np.abs(scale.mean))
        return cls((y - scale.mean) / scale.std, scale.mean, scale.std, constant)

    def beside(self, other: Columns) -> Columns:
        """These columns, then those of another."""
        return Columns(
            np.hstack([self.scaled, other.scaled]),
            np.concatenate([self.mean, other.mean]),
            np.concatenate([self.deviation, other.deviation]),
            np.concatenate([self.constant, other.constant]),
        )

    def part(self, columns: slice) -> Columns:
        """Some of these columns."""
        return Columns(self.scaled[:, columns], self.mean[columns], self.deviation[columns], self.constant[columns])


@dataclass(frozen=True)
class Sums:
    """Sums over rows with features x and columns y."""

    count: int
    square: Floats
    """Σ xxᵀ."""
    product: Floats
    """Σ xyᵀ."""

    @classmethod
    def of(cls, x: Floats, y: Floats) -> Sums:
        """Sums over some rows."""
        return cls(len(x), x.T @ x, x.T @ y)

    def merge(self, other: Sums) -> Sums:
        """Sums over both sets of rows."""
        return Sums(self.count + other.count, self.square + other.square, self.product + other.product)

    def part(self, columns: slice) -> Sums:
        """Sums of some columns."""
        return replace(self, product=self.product[:, columns])


def sums_over(features: Callable[[Integers], Floats], y: Floats, groups: Sequence[Bools]) -> list[Sums]:
    """The sums over each of some disjoint groups of rows, whose features are made some at a time.

    Args:
        features: from the numbers of some rows to their features.
        y: (n, columns).
        groups: (n,) each: the rows of a group.
    """
    wanted = np.logical_or.reduce(groups)
    found: list[Sums | None] = [None] * len(groups)
    for part in chunks(len(y), BATCH_ROWS):
        rows = part.start + np.flatnonzero(wanted[part])
        x = features(rows)
        for number, group in enumerate(groups):
            chosen = group[rows]
            some = Sums.of(*((x, y[rows]) if chosen.all() else (x[chosen], y[rows[chosen]])))
            before = found[number]
            found[number] = some if before is None else before.merge(some)
    return [each for each in found if each is not None]


@dataclass(frozen=True)
class Regression:
    """A ridge regression of several columns, and the uncertainty of its coefficients."""

    coefficients: Floats
    """(features, columns), in units of each column's deviation."""
    mean: Floats
    deviation: Floats
    explained: Floats
    """(columns,): the share of each column's variance that is explained on held-out rows."""
    axes: Floats
    """Eigenvectors of the features' Gram matrix."""
    spread: Floats
    """(features, columns): the standard deviation of the coefficients along these axes, given the noise."""

    @classmethod
    def fit(cls, x: Floats, y: Floats, held_out: Bools) -> Regression:
        """Fit the rows that are not held out, with the ridge of each column that predicts the others best.

        Args:
            x: (n, features).
            y: (n, columns).
            held_out: (n,): the rows that judge.
        """
        columns = Columns.of(y, ~held_out, held_out, size=float(np.abs(y).max(initial=0.0)))
        (sums,) = sums_over(lambda rows: x[rows], columns.scaled, [~held_out])
        return cls.of_sums(sums, columns, x[held_out], columns.scaled[held_out])

    @classmethod
    def of_sums(cls, sums: Sums, columns: Columns, x: Floats, y: Floats) -> Regression:
        """Fit by sums over the rows that are fitted.

        Args:
            sums: of the features and the scaled columns.
            columns: what is regressed.
            x: the features of the rows that judge.
            y: their scaled columns.
        """
        size, axes = np.linalg.eigh(sums.square / sums.count)
        target = axes.T @ (sums.product / sums.count)
        shrunk = [size[:, None] + ridge * size.mean() for ridge in RIDGES]
        errors = np.array([np.mean((x @ (axes @ (target / each)) - y) ** 2, axis=0) for each in shrunk])
        best = errors.argmin(axis=0)
        chosen = size[:, None] + RIDGES[best] * size.mean()
        noise = errors[best, np.arange(y.shape[1])]
        # A column may vary in the fitted rows alone; whatever it is then predicted to do there is unexplained.
        variance = np.maximum(np.where(columns.constant, 1.0, np.mean(y**2, axis=0)), 1e-300)
        explained = np.where(columns.constant, 1.0, 1 - noise / variance)
        spread = np.sqrt(noise / (sums.count * chosen))
        return cls(axes @ (target / chosen), columns.mean, columns.deviation, explained, axes, spread)

    def part(self, columns: slice) -> Regression:
        """The regression of some of the columns."""
        return Regression(
            self.coefficients[:, columns],
            self.mean[columns],
            self.deviation[columns],
            self.explained[columns],
            self.axes,
            self.spread[:, columns],
        )

    def __call__(self, x: Floats) -> Floats:
        """The predicted columns of each row."""
        return x @ self.coefficients * self.deviation + self.mean

    def variance(self, x: Floats) -> Floats:
        """(n, columns): the variance of each prediction by that of the coefficients, in units of the column's own."""
        return np.square(x @ self.axes) @ np.square(self.spread)

    def drawn(self, rng: np.random.Generator) -> Regression:
        """The regression with coefficients drawn from their posterior distribution."""
        # Rotated to the axes and back: a draw then does not depend on which of several equal axes were found.
        noise = self.axes @ (self.spread * (self.axes.T @ rng.standard_normal(self.spread.shape)))
        return replace(self, coefficients=self.coefficients + noise)
