"""Ratios τ = max(βᵀφ, 0): linear in features, but never below zero.

With φ(τ) = τ²/2 on τ ≥ 0 the conjugate is φ*(ν) = max(ν, 0)²/2, so eq:general_ratio_power over ν = βᵀφ is convex and
its ratio ∂φ*(ν) = max(ν, 0) cannot be negative. Setting the negative values of a linear solution to zero afterwards
instead leaves its positive lobes far from where the mass is, and biases every tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from ope_vpm.arrays import Floats, chunks
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.linear.moments import Batch, Batches, Means, accumulate_where_positive
from ope_vpm.linear.system import JITTER, FixedPoint, LinearSystem

Single = npt.NDArray[np.float32]
NEWTON_STEPS = 20
"""A bound: where the set of positive rows goes in circles, more steps would not help."""
SETTLED = 0.01
"""Newton's method stops when the rows that change sides move no feature's mean by this share of its standard error."""


@dataclass(frozen=True)
class FeatureRows:
    """Features of some rows, kept in memory in single precision for many matrix-vector products."""

    here: Single
    there: Single
    weight: Single
    """Mean 1."""

    @classmethod
    def of(cls, batches: Batches) -> FeatureRows:
        """Compute the features of all rows and keep them in memory."""
        here = np.empty((len(batches), batches.size), dtype=np.float32)
        there = np.empty((len(batches), batches.next_size), dtype=np.float32)
        weight = np.ones(len(batches), dtype=np.float32)
        for batch in batches:
            here[batch.rows], there[batch.rows] = batch.phi, batch.phi_next
            if batch.weight is not None:
                weight[batch.rows] = batch.weight
        return cls(here, there, weight)

    def __len__(self) -> int:
        return len(self.here)

    @property
    def size(self) -> int:
        """D, the number of features."""
        return int(self.here.shape[1])

    @property
    def next_size(self) -> int:
        """0: passes over these rows are for E[w φφᵀ] only."""
        return 0

    def __iter__(self) -> Iterator[Batch]:
        """The rows in double precision, without φ': in sums of squares a ridge of 1e-6 must show."""
        for rows in chunks(len(self), BATCH_ROWS):
            phi = self.here[rows].astype(np.float64)
            yield Batch(np.arange(rows.start, rows.stop), phi, phi[:, :0], self.weight[rows].astype(np.float64))

    def initial(self) -> tuple[()]:
        """No initial states are kept."""
        return ()

    def ratio(self, beta: Floats) -> Single:
        """τ = max(βᵀφ, 0) of each row."""
        return np.maximum(self.here @ beta.astype(np.float32), 0)

    def flows(self, tau: Single) -> tuple[Floats, Floats]:
        """E_p[φτ] and E[φ'τ]."""
        weighted = self.weight * tau
        rows = len(tau)
        return (weighted @ self.here).astype(float) / rows, (weighted @ self.there).astype(float) / rows


def nonnegative_steps(rows: FeatureRows, equation: FixedPoint, gram: Floats) -> Iterator[tuple[Floats, float]]:
    """Power steps on the dual, from τ = 1: ν ← ν + P(γ𝒯τ + (1-γ)μ₀ - τ), τ = max(ν, 0), P the ridge projection.

    Args:
        rows: the rows that the steps look at.
        equation: the fixed point that they go to.
        gram: E[w φφᵀ]. It bounds the objective's curvature wherever ν is, so that each step goes down, however the
            set of positive τ changes.

    Yields:
        β after each step, scaled to E_p[τ] = 1, and how much it changed τ in L₁(p).
    """
    beta: Floats = np.eye(len(gram))[0]
    factor = cho_factor(gram + np.diag(equation.penalty + JITTER * np.diag(gram)))
    tau = rows.ratio(beta)
    while True:
        held, moved = rows.flows(tau)
        goal = equation.gamma * moved + (1 - equation.gamma) * equation.initial
        update = beta - cho_solve(factor, held + equation.penalty * beta - goal)
        new = rows.ratio(update)
        mass = float(np.mean(rows.weight * new))
        beta, new = update / mass, new / np.float32(mass)
        change, tau = float(np.mean(rows.weight * np.abs(new - tau))), new
        yield beta, change


def newton(batches: Batches, equation: FixedPoint, beta: Floats) -> Floats | None:
    """The fixed point itself, by Newton's method on the set of rows with τ > 0; None if it is not reached.

    Args:
        batches: the rows; each of Newton's steps is one pass over them.
        equation: the fixed point.
        beta: where to begin.
    """
    tolerance = SETTLED / np.sqrt(len(batches))
    active = accumulate_where_positive(batches, beta).means()
    for _ in range(NEWTON_STEPS):
        _, beta = positive_system(active, equation).solve(1.0)
        if not np.isfinite(beta).all():
            return None
        before, active = active, accumulate_where_positive(batches, beta).means()
        if np.allclose(active.gram[0], before.gram[0], rtol=0, atol=tolerance):
            return beta
    return None


def positive_system(active: Means, equation: FixedPoint) -> LinearSystem:
    """The system over the rows with τ > 0, whose Λ is the equation's penalty: it is solved with a ridge of 1."""
    means = replace(active, initial=equation.initial)
    return LinearSystem.of(means, equation.gamma, scale=equation.penalty)
