"""The second pass over rows: ratios and residuals of each row, or their sums over groups of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Batch, Batches, combined
from ope_vpm.threads import cached_property


@dataclass(frozen=True)
class Coefficients:
    """β and θ, which a pass over the rows turns into ratios τ = w·βᵀφ and residuals r - Δᵀθ.

    Δ is φ - γφ'; at γ = 1, where a constant never changes, its first entry is 1 instead of 0 (see `system`).
    """

    beta: Floats
    """Shape (D,), or (D, m) for m of them."""
    theta: Floats
    """Like beta."""
    gamma: float
    """The discount."""
    after_end: Floats | None = None
    """φ' after an end, shape (D,): E₀[φ] where ends restart. None: 0."""
    of_ends: int = 0
    """How many of the last columns have the reward 1[the episode ended] instead of the rows' own; for sums alone."""

    @cached_property
    def after_step(self) -> Floats:
        """(D, m): θ as φ' is multiplied with it: at γ = 1 without the constant's entry, so that Δ begins with 1."""
        theta = np.column_stack([self.theta])
        return np.vstack([np.zeros_like(theta[:1]), theta[1:]]) if self.gamma == 1 else theta


def apply(
    batches: Batches, beta: Floats, theta: Floats, gamma: float, after_end: Floats | None = None
) -> tuple[Floats, Floats]:
    """The second pass: τ and the residual of each row, for one or several β and θ; see `Coefficients`.

    Returns:
        Two arrays of shape (rows,) or (rows, m).
    """
    (found,) = apply_all(batches, [Coefficients(beta, theta, gamma, after_end)])
    return found


def apply_all(batches: Batches, asked: Sequence[Coefficients]) -> list[tuple[Floats, Floats]]:
    """τ and residuals of each row as `apply` gives them, for coefficients of several discounts in one pass."""
    rows = len(batches)
    shapes = [(rows, *each.theta.shape[1:]) for each in asked]
    found: list[tuple[Floats, Floats]] = [(np.empty(shape), np.empty(shape)) for shape in shapes]
    together = SideBySide.of(asked)
    for batch in batches:
        for (tau, residual), (ratio, left) in zip(found, together.of_rows(batch), strict=True):
            tau[batch.rows], residual[batch.rows] = ratio.reshape(-1, *tau.shape[1:]), left.reshape(-1, *tau.shape[1:])
    return found


@dataclass(frozen=True)
class GroupSums:
    """Sums of a second pass over the rows of each group, for m pairs of β and θ."""

    influence: Floats
    """Σ τ·residual, shape (groups, m)."""
    ended: Floats
    """Σ τ over all rows after which the episode ended, shape (m,)."""
    weights: WeightSums | None = None
    """Sums of τ, for the columns with the rows' own rewards, where they were asked for."""

    @classmethod
    def empty(cls, groups: int, columns: int, of_ends: int, weights: bool) -> GroupSums:
        """Empty sums, to which a pass can add; arguments as in `apply_to_groups`."""
        of_weights = WeightSums.empty(groups, columns - of_ends) if weights else None
        return cls(np.zeros((groups, columns)), np.zeros(columns), of_weights)

    def merge(self, other: GroupSums, mine: slice, theirs: slice) -> GroupSums:
        """The sums of two sets of rows; `mine` and `theirs` are the places of their groups among those of both."""
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = self.weights.merge(other.weights, mine, theirs)
        influence = added(self.influence, other.influence, mine, theirs)
        return GroupSums(influence, self.ended + other.ended, weights)


def apply_to_groups(
    batches: Batches, group: Integers, groups: int, asked: Sequence[Coefficients], weights: bool = False
) -> list[GroupSums]:
    """The second pass where only sums over groups of rows are wanted, and nothing is kept of single rows.

    Args:
        batches: the rows.
        group: the number of each row's group, from 0; rows of a group mostly follow one another.
        groups: how many groups there are.
        asked: coefficients of shape (D, m), as of several discounts, which all take one pass.
        weights: whether sums of τ are wanted, too.

    Returns:
        The sums for each of `asked`.
    """
    found = [GroupSums.empty(groups, each.theta.shape[1], each.of_ends, weights) for each in asked]
    together = SideBySide.of(asked)
    for batch in batches:
        of_rows, ended = group[batch.rows], batch.phi_next[:, 0] == 0
        first = np.flatnonzero(np.diff(of_rows, prepend=-1))
        for number, (tau, residual) in enumerate(together.of_rows(batch)):
            sums, each = found[number], asked[number]
            if each.of_ends:
                residual[:, -each.of_ends :] += ended[:, None]
                residual[:, -each.of_ends :] -= 0.0 if batch.reward is None else batch.reward[:, None]
            np.add.at(sums.influence, of_rows[first], np.add.reduceat(tau * residual, first, axis=0))
            sums.ended[:] += tau[ended].sum(axis=0)
            if sums.weights is not None:
                sums.weights.add(tau[:, : tau.shape[1] - each.of_ends], of_rows, first)
    return found


@dataclass(frozen=True)
class SideBySide:
    """Coefficients of several kinds side by side, so that a batch is multiplied with all of them at once.

    Narrow matrices make slow products: three of 26 columns take half as long again as one of 78.
    """

    asked: Sequence[Coefficients]
    here: Floats
    """(D, columns): β and θ of each."""
    there: Floats
    """(D, columns): θ of each."""

    @classmethod
    def of(cls, asked: Sequence[Coefficients]) -> SideBySide:
        """The sums of one pass over the rows."""
        pairs = [np.column_stack([each.beta, each.theta]) for each in asked]
        return cls(asked, np.hstack(pairs), np.hstack([each.after_step for each in asked]))

    def of_rows(self, batch: Batch) -> Iterator[tuple[Floats, Floats]]:
        """τ and the residual of each row, (rows, m), for each of the coefficients."""
        here = combined(batch.phi, self.here)
        there = combined(batch.phi_next, self.there[: batch.phi_next.shape[1]])
        place, first = 0, 0
        for each in self.asked:
            k, m = each.beta[0].size, each.theta[0].size
            ratio, value = here[:, place : place + k], here[:, place + k : place + k + m]
            following = there[:, first : first + m]
            place, first = place + k + m, first + m
            if each.after_end is not None:
                following = following + np.multiply.outer(1.0 - batch.phi_next[:, 0], each.after_end @ each.after_step)
            tau = ratio if batch.weight is None else batch.weight[:, None] * ratio
            yield tau, (0.0 if batch.reward is None else batch.reward[:, None]) - (value - each.gamma * following)


@dataclass(frozen=True)
class WeightSums:
    """Sums of weights τ over rows, as verdicts need them; for one set of weights, or for each of m columns of them."""

    positive: Floats
    """Σ max(τ, 0), (m,)."""
    squares: Floats
    """Σ max(τ, 0)², (m,)."""
    by_group: Floats
    """Σ max(τ, 0) over the rows of each group, (groups, m)."""

    @classmethod
    def empty(cls, groups: int, columns: int) -> WeightSums:
        """Empty sums, to which batches can be added."""
        zeros = np.zeros(columns)
        return cls(zeros, zeros.copy(), np.zeros((groups, columns)))

    def add(self, tau: Floats, group: Integers, first: Integers) -> None:
        """Add rows, whose groups begin at the places `first`."""
        positive = np.maximum(tau, 0)
        self.positive[:] += positive.sum(axis=0)
        self.squares[:] += np.einsum("nm,nm->m", positive, positive)
        np.add.at(self.by_group, group[first], np.add.reduceat(positive, first, axis=0))

    def merge(self, other: WeightSums, mine: slice, theirs: slice) -> WeightSums:
        """Merge the sums of two sets of rows, as `GroupSums.merge` does."""
        return WeightSums(
            self.positive + other.positive,
            self.squares + other.squares,
            added(self.by_group, other.by_group, mine, theirs),
        )

    def column(self, number: int) -> WeightSums:
        """The sums of one column of coefficients."""
        return WeightSums(self.positive[number], self.squares[number], self.by_group[:, number])


def added(one: Floats, other: Floats, mine: slice, theirs: slice) -> Floats:
    """Two arrays added where they lie in a larger one."""
    total = np.zeros((max(mine.stop, theirs.stop), *one.shape[1:]))
    total[mine] += one
    total[theirs] += other
    return total
