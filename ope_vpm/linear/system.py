"""The linear system of an estimate that is linear in features, for one γ, from the moments of one pass.

With X = w·φ and Δ = φ - γφ' the fixed point of the power iteration has the matrix A = E[XΔᵀ]. The same matrix,
transposed, gives the value function, so that the value, the ratio and the influence function come from one
factorisation:

    M = A + λΛ,   θ = M⁻¹ E[Xr],   β = M⁻ᵀ c,   τ = Xᵀβ,   value = cᵀθ = E[τr].

γ < 1: c = (1-γ)E₀[φ]. γ = 1: a constant never changes, so that the first column of A would be 0; it is E[X] instead,
and c = e₁. The first equation for β then says E[τ] = 1, and θ₁ is the average reward.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgWarning, eigvals, lu_factor, lu_solve, solve

from ope_vpm.arrays import Floats
from ope_vpm.linear.moments import Means

JITTER = 1e-10
"""Added to each feature's mean square, of which it is a share: repeated features stay solvable."""
SMALLEST_SQUARE = 1e-6
"""Features whose mean square is smaller are penalised as if it were 1: a column of zeros still needs a pivot."""


@dataclass(frozen=True)
class LinearSystem:
    """The matrices of the system, and its solution for any ridge."""

    matrix: Floats
    """A, shape (D, D)."""
    reward: Floats
    """E[Xr], shape (D,)."""
    source: Floats
    """The right-hand side c of the equation for β, shape (D,)."""
    scale: Floats
    """The diagonal of Λ, shape (D,)."""

    @classmethod
    def of(cls, means: Means, gamma: float, *, restart: bool = False, scale: Floats | None = None) -> LinearSystem:
        """Put the system together.

        Args:
            means: of the rows and the initial states.
            gamma: the discount.
            restart: whether an initial state follows the end of an episode; otherwise nothing does.
            scale: the diagonal of Λ. None: the features' mean squares without weights, 0 for the constant.
        """
        matrix = means.flow(gamma, restart)
        if gamma == 1:
            matrix[:, 0] = means.gram[:, 0]
            source: Floats = np.eye(len(matrix))[0]
        else:
            source = (1 - gamma) * means.initial
        return cls(matrix, means.reward, source, penalty_scale(means.squares) if scale is None else scale)

    def solve(self, ridge: float) -> tuple[Floats, Floats]:
        """θ and β; not finite where the matrix is singular."""
        factor = self._factor(ridge)
        return lu_solve(factor, self.reward), lu_solve(factor, self.source, trans=1)

    def degrees_of_freedom(self, ridge: float) -> float:
        """The trace of M⁻¹A: how many features the ridge leaves free."""
        return float(np.trace(lu_solve(self._factor(ridge), self.matrix)))

    def _factor(self, ridge: float) -> tuple[Floats, Floats]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LinAlgWarning)  # a singular matrix shows in its solution
            factor: tuple[Floats, Floats] = lu_factor(self.matrix + ridge * np.diag(self.scale))
        return factor


@dataclass(frozen=True)
class FixedPoint:
    """The fixed point that power steps go to: E[Xτ] + penalty·β = γE[φ'τ] + (1-γ)E₀[φ]."""

    gamma: float
    initial: Floats
    """E₀[φ]."""
    penalty: Floats
    """The ridge on each coefficient; 0 on the constant."""


def penalty_scale(squares: Floats) -> Floats:
    """The diagonal of Λ from the features' mean squares: 0 for the constant, which is not penalised."""
    scale = np.where(squares > SMALLEST_SQUARE, squares, 1.0)
    scale[0] = 0
    return scale


def gram_penalty(gram: Floats, ridge: float) -> Floats:
    """The ridge on each coefficient in units of its feature's weighted mean square; 0 on the constant."""
    penalty = ridge * np.diag(gram)
    penalty[0] = 0
    return penalty


def solve_gram(gram: Floats, penalty: Floats, source: Floats) -> Floats:
    """(gram + diag(penalty))⁻¹ source, in units in which every feature has mean square 1: sizes then do no harm."""
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))  # a feature that is 0 everywhere has size 0
    scaled = gram / size[:, None] / size + np.diag(penalty / size**2 + JITTER)
    solution: Floats = (solve(scaled, (source.T / size).T, assume_a="pos").T / size).T
    return solution


def power_steps(means: Means, equation: FixedPoint, alphas: Iterable[float]) -> Iterator[tuple[Floats, float]]:
    """Power steps of the ratio τ = βᵀφ from τ = 1, which may become negative; algebra on D x D matrices only.

    Args:
        means: of all rows.
        equation: the fixed point that they go to.
        alphas: the damping α of each step; 1 is a whole step.

    Yields:
        β after each step, and how much it changed τ in L₂(p).
    """
    operator = solve_gram(means.gram, equation.penalty, equation.gamma * means.cross.T)
    source = solve_gram(means.gram, equation.penalty, (1 - equation.gamma) * equation.initial)
    beta: Floats = np.eye(len(operator))[0]
    for alpha in alphas:
        change = alpha * (operator @ beta + source - beta)
        beta = beta + change
        yield beta, float(np.sqrt(change @ means.gram @ change))


def slowest_decay(means: Means, equation: FixedPoint) -> float:
    """The share of the slowest error that is left after one power step: γ times |λ₂| of the estimated operator.

    Below γ = 1 the constant decays, too, so that it is γ times the largest eigenvalue.
    """
    operator = solve_gram(means.gram, equation.penalty, means.cross.T)
    size = np.sort(np.abs(eigvals(operator)))
    return float(equation.gamma * (size[-2] if equation.gamma == 1 else size[-1]))
