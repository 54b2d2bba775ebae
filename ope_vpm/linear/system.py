"""The linear system of an estimate that is linear in features, for one γ, from the moments of one pass.

With X = w·φ and Δ = φ - γφ' the fixed point of the power iteration has the matrix A = E[XΔᵀ]. The same matrix,
transposed, gives the value function, so that the value, the ratio and the influence function come from one
factorisation:

    M = A + λΛ,   θ = M⁻¹ E[Xr],   β = M⁻ᵀ c,   τ = Xᵀβ,   value = cᵀθ = E[τr].

γ < 1: c = (1-γ)E₀[φ]. γ = 1: a constant never changes, so that the first column of A would be 0; it is E[X] instead,
and c = e₁. The first equation for β then says E[τ] = 1, and θ₁ is the average reward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvals, lu_solve, solve
from scipy.linalg.lapack import dgetrf

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.linear.moments import Means
from ope_vpm.threads import cached_property

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

    def halves(self, seed: int = 0) -> Iterator[LinearSystem]:
        """The systems in each half of the features, the constant in both, for two random divisions of them."""
        rng, size = np.random.default_rng(seed), len(self.matrix)
        for _ in range(2):
            for half in np.array_split(1 + rng.permutation(size - 1), 2):
                kept = np.concatenate([[0], np.sort(half)])
                yield LinearSystem(
                    self.matrix[np.ix_(kept, kept)], self.reward[kept], self.source[kept], self.scale[kept]
                )

    def degrees_of_freedom(self, ridge: float) -> float:
        """The trace of M⁻¹A: how many features the ridge leaves free."""
        return float(np.trace(lu_solve(self._factor(ridge), self.matrix)))

    def _factor(self, ridge: float) -> tuple[Floats, Floats]:
        # LAPACK itself, which does not warn of a singular matrix: that shows in its solution.
        penalised = self.matrix.copy(order="F")
        np.einsum("ii->i", penalised)[:] += ridge * self.scale
        lu, pivots, _ = dgetrf(penalised, overwrite_a=True)
        return lu, pivots


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
    return (solve(scaled, (source.T / size).T, assume_a="pos").T / size).T


@dataclass(frozen=True, eq=False)
class Halves:
    """Ridge regressions on x in which each half of the rows is predicted by the other."""

    x: Array
    """(n, k), the first column constant."""
    fold: Integers
    """(n,): 0 or 1."""

    @cached_property
    def rows(self) -> list[Integers]:
        """The numbers of the rows of each half."""
        return [np.flatnonzero(self.fold == half) for half in (0, 1)]

    @cached_property
    def halves(self) -> list[Array]:
        """The rows of x of each half."""
        return [self.x[rows] for rows in self.rows]

    @cached_property
    def grams(self) -> list[Floats]:
        """Σ xxᵀ of each half, whatever is predicted."""
        # Sums of single-precision regressors are solved in double precision: a column of zeros needs its pivot.
        return [(half.T @ half).astype(np.float64, copy=False) for half in self.halves]

    def products(self, values: Floats) -> list[Floats]:
        """Σ x·value over the rows of each half, whatever the columns and the ridge."""
        return [half.T @ values[rows] for half, rows in zip(self.halves, self.rows, strict=True)]

    def predicted(self, values: Floats, ridge: float, columns: Integers | slice = slice(None)) -> Floats:
        """The values, (n,) or (n, m), as some columns of x predict them; the ridge is in units of mean squares."""
        return self.each_predicted(self.products(values), [(ridge, columns)])[:, 0]

    def each_predicted(self, products: Sequence[Floats], asked: Sequence[tuple[float, Integers | slice]]) -> Floats:
        """(n, asked, …): the values that have these `products`, for each of some ridges and columns of x."""
        predicted = np.empty((len(self.x), len(asked), *products[0].shape[1:]))
        for half, rows in enumerate(self.rows):
            product = products[1 - half]
            fitted = np.zeros((len(product), len(asked), *product.shape[1:]))
            for number, (ridge, columns) in enumerate(asked):
                gram = self.grams[1 - half][columns][:, columns]
                fitted[columns, number] = solve_gram(gram, gram_penalty(gram, ridge), product[columns])
            predicted[rows] = np.tensordot(self.halves[half], fitted, axes=1)
        return predicted

    def predicted_mean(self, y: Floats, at: Floats, group: Integers, ridges: Sequence[float]) -> tuple[float, float]:
        """The mean prediction at other places by a ridge regression of y on x, atᵀc, and its standard error.

        The ridge is the one with which each half is best predicted by the other. Rows of a group, such as an episode,
        err together: the error is that of Σ (xᵀM⁻¹at)·ε over groups, M the penalised Gram matrix, ε what is left.

        Args:
            y: (n,).
            at: (k,): the mean of the regressors at the other places.
            group: (n,): the number of each row's group, from 0; all of a group are in one half.
            ridges: to choose from, in units of the regressors' mean squares.
        """
        products = self.products(y)
        predicted = self.each_predicted(products, [(ridge, slice(None)) for ridge in ridges])
        ridge = ridges[int(np.argmin(np.sum((y[:, None] - predicted) ** 2, axis=0)))]
        gram = self.grams[0] + self.grams[1]
        both = solve_gram(gram, gram_penalty(gram, ridge), np.stack([products[0] + products[1], at], axis=1))
        influence = np.bincount(group, (self.x @ both[:, 1]) * (y - self.x @ both[:, 0]))
        return float(at @ both[:, 0]), float(np.linalg.norm(influence))


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


RIDGES = tuple(10 ** (exponent / 2) for exponent in range(-12, -1))
"""10⁻⁶ … 10⁻¹ in half decades, in units of the features' mean squares: the grid on which `TOLERANCE` was measured."""
COARSE_RIDGES = RIDGES[::2]
"""Whole decades, where every candidate costs a fit for each fold and each bandwidth."""
TOLERANCE = 1.5
"""How much larger than the least the standard error of the chosen ridge may be. Frozen on logs 0 to 5 of Reacher and
HalfCheetah tasks and confirmed on logs 6 to 15; on the tasks of note 005 1.1, 1.2 and 2.0 give 1.81, 1.70 and
1.59 times the error of on-policy means where 1.5 gives 1.54. For the mean of vpm and LSTD-Q 1.1 to 1.5 are level (80
generated tasks, 719 cells: 1.00 to 0.97 floors), and with 1.1 the ridge asks for caution in 27 % of them, not 7 %."""

DECADE = 2
"""Places between a ridge and one ten times larger in `RIDGES`."""


def choose_ridge(errors: Floats) -> int:
    """The index of a small ridge whose standard error is at most `TOLERANCE` times the least.

    A ridge biases the estimate towards too little change from the data; the smallest one whose variance can be borne
    has the least bias. It is looked for downwards from the least error and never beyond a ridge with a larger one: the
    matrix is indefinite, so that the solution may have a pole, and what lies behind it is no continuation.

    Args:
        errors: one standard error for each ridge, ridges rising; NaN where there is none.
    """
    finite = np.where(np.isfinite(errors), errors, np.inf)
    if not np.isfinite(finite).any():
        raise ArithmeticError("no ridge gives a finite estimate: the features are degenerate (try solver='kernel')")
    least = int(np.argmin(finite))
    too_large = np.flatnonzero(finite[:least] > TOLERANCE * finite[least])
    return int(too_large[-1]) + 1 if len(too_large) else 0


def suspected_bias(values: Floats, chosen: int) -> float:
    """How far the value moves when the ridge is ten times larger: an estimate of what the chosen one has moved it.

    Args:
        values: one value for each ridge, ridges rising by half decades, up to one ten times larger than the chosen.
        chosen: the index of the ridge that was chosen.
    """
    return abs(float(values[chosen + DECADE] - values[chosen]))


def smallest_as_good(scores: Floats) -> int:
    """The index of the smallest ridge whose held-out score is within one standard error of the best.

    For expectations, bias costs more than variance: so it is the smallest ridge, where rules for prediction take the
    largest (Breiman's one-standard-error rule).

    Args:
        scores: shape (folds, ridges), lower being better.
    """
    best = int(np.argmin(scores.mean(axis=0)))
    behind = scores - scores[:, [best]]
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return int(np.argmax(behind.mean(axis=0) <= error))
