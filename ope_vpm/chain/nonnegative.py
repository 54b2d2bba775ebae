"""The power step over ratios τ = max(βᵀφ, 0): linear features, but never below zero.

With φ(τ) = τ²/2 on τ ≥ 0 the conjugate is φ*(ν) = max(ν, 0)²/2, so eq:general_ratio_power over ν = βᵀφ is convex
and its ratio ∂φ*(ν) = max(ν, 0) cannot be negative. Setting a linear solution's negative values to zero
afterwards instead leaves its positive lobes far from the law's bulk, and biases every tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvals, solve

from ope_vpm.arrays import Floats, chunks
from ope_vpm.chain.features import Features
from ope_vpm.chain.monitor import Monitor
from ope_vpm.chain.statistics import CHUNK_ROWS, JITTER, Statistics, collect, next_features, solve_gram
from ope_vpm.chain.transitions import Transitions

Single = npt.NDArray[np.float32]


@dataclass(frozen=True)
class FeatureRows:
    """Some rows' features, kept in memory in single precision for many matrix-vector products."""

    here: Single
    there: Single
    weight: Single
    """Mean 1."""

    @classmethod
    def of(cls, transitions: Transitions, features: Features) -> FeatureRows:
        """Compute them in chunks."""
        width = features(transitions.x[:1]).shape[1]
        here, there = (np.empty((len(transitions), width), dtype=np.float32) for _ in range(2))
        for rows in chunks(len(transitions), CHUNK_ROWS):
            here[rows], there[rows] = features(transitions.x[rows]), next_features(transitions, features, rows)
        return cls(here, there, transitions.row_weights.astype(np.float32))

    def gram(self, chosen: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Σ w φφᵀ over these rows, or the chosen ones, summed in double precision: a ridge of 1e-6 must show."""
        here, weight = (self.here, self.weight) if chosen is None else (self.here[chosen], self.weight[chosen])
        total = np.zeros((here.shape[1], here.shape[1]))
        for rows in chunks(len(here), CHUNK_ROWS):
            part = here[rows].astype(np.float64)
            total += (part * weight[rows, None]).T @ part
        return total

    def ratio(self, beta: Floats) -> Single:
        """τ = max(βᵀφ, 0) at the rows' x."""
        return np.maximum(self.here @ beta.astype(np.float32), 0)

    def flows(self, tau: Single) -> tuple[Floats, Floats]:
        """E_p[φ(x)τ(x)] and E[φ(x')τ(x)]."""
        weighted = self.weight * tau
        rows = len(tau)
        return (weighted @ self.here).astype(float) / rows, (weighted @ self.there).astype(float) / rows


@dataclass(frozen=True)
class Equation:
    """The fixed point asked for: E[φ(x)τ(x)] + penalty·β = γE[φ(x')τ(x)] + (1-γ)E₀[φ]."""

    gamma: float
    initial: Floats
    """E₀[φ]."""
    penalty: Floats
    """The ridge on each coefficient; 0 on the constant."""


def power_steps(
    rows: FeatureRows, equation: Equation, gram: Floats, steps: int, tolerance: float, monitor: Monitor
) -> Floats:
    """Power steps on the dual: ν ← ν + P(γ𝒯τ + (1-γ)μ₀ - τ), τ = max(ν, 0), P the ridge projection.

    `gram` bounds the objective's curvature wherever ν is, so that each step goes down, however the set of
    positive τ changes.
    """
    beta = np.zeros(len(gram))
    beta[0] = 1.0
    factor = cho_factor(gram + np.diag(equation.penalty + JITTER * np.diag(gram)))
    tau = rows.ratio(beta)
    with monitor:
        for step in range(1, steps + 1):
            held, moved = rows.flows(tau)
            goal = equation.gamma * moved + (1 - equation.gamma) * equation.initial
            update = beta - cho_solve(factor, held + equation.penalty * beta - goal)
            new = rows.ratio(update)
            mass = float(np.mean(rows.weight * new))
            beta, new = update / mass, new / np.float32(mass)
            change, tau = float(np.mean(rows.weight * np.abs(new - tau))), new
            monitor.report(step, {"change": change})
            if change < tolerance:
                break
    return beta


def newton(transitions: Transitions, features: Features, equation: Equation, beta: Floats) -> Floats | None:
    """The fixed point itself, by Newton's method on the set of rows with τ > 0; None if it is not reached.

    It has settled when the rows that changed sides move no feature's mean by a hundredth of its chance error.
    """
    tolerance = 0.01 / np.sqrt(len(transitions))
    active = collect(transitions, features, where_positive=beta)
    for _ in range(20):
        try:
            update = solve(*linear_system(active, equation))
        except LinAlgError:
            return None
        refreshed = collect(transitions, features, where_positive=update)
        settled = np.allclose(refreshed.gram[0], active.gram[0], rtol=0, atol=tolerance)
        beta, active = update, refreshed
        if not np.isfinite(beta).all():
            return None
        if settled:
            return beta
    return None


def linear_system(means: Statistics, equation: Equation) -> tuple[Floats, Floats]:
    """The fixed point as Aβ = b. At γ = 1 the constant's equation is empty; E_p[τ] = 1 takes its place."""
    matrix = means.gram - equation.gamma * means.cross.T + np.diag(equation.penalty)
    if equation.gamma < 1:
        return matrix, (1 - equation.gamma) * equation.initial
    matrix[0] = means.gram[0]
    return matrix, np.eye(len(matrix))[0]


def slowest_decay(means: Statistics, equation: Equation) -> float:
    """How much of the slowest error is left after one power step: |λ₂| of the estimated operator (γ|λ₂|)."""
    operator = solve_gram(means.gram, equation.penalty, means.cross.T)
    size = np.sort(np.abs(eigvals(operator)))
    return float(equation.gamma * (size[-2] if equation.gamma == 1 else size[-1]))
