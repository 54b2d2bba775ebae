"""VPM with a factored ratio, τ(s, a) = ρ̂(a|s)^κ·w(s, a), and w linear in features: one linear system.

ρ̂ = π/b̂ is known up to the clone. With κ = 1 a function of the state is left to find; but then the few logged actions
that are likely under π carry all of the weight. With κ = 1/2 they carry less, and w makes up for it. The features of a
pair are Φ = [V(s), u(s, a)⊗(1, s)], u functions of the action with E_π[u(s, ·)] = 0, so that those of the next pair are
[V(s'), 0] on average, without drawing an action. After an end V(s') is the mean of V over initial states, or 0 where
ends absorb. With X = ρ̂^κ·Φ and Δ = Φ - γ[V(s'), 0] the fixed point of the power iteration has the matrix A = XᵀΔ/n; the
same matrix, transposed, gives Q, so that the value, its weights and its influence function come from one factorisation:

    M = A + λΛ,   θ = M⁻¹ Xᵀr/n,   β = M⁻ᵀc,   τ = Xβ,   v = cᵀθ = Σ τr/n.

γ < 1: c = (1-γ)·mean [V(s₀), 0]. γ = 1: Δ's constant column is 1 and c = e₁, which says E[τ] = 1.
κ = 0 is LSTD-Q.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from ope_vpm.arrays import Bools, Floats, Integers, chunks
from ope_vpm.ope.adapter.action_features import centred_features
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.adapter.time_limit import ages, clock_of, clock_remarks
from ope_vpm.ope.behaviour.action_ratio import action_ratio, known_overlap
from ope_vpm.ope.inference.estimate import RawEstimate, disagreement, evidence_of_weights
from ope_vpm.ope.inference.influence import EpisodeSums, influence_sums
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.problem import Problem

RIDGES = tuple(10 ** (exponent / 2) for exponent in range(-12, -1))
"""10⁻⁶ … 10⁻¹, in units of the features' mean squares."""
TOLERANCE = 1.5
"""How much larger than the smallest the standard error of the chosen ridge may be."""
POWER = 0.5
"""κ."""
ROWS = 1 << 14
FEW_ROWS = 1 << 15
"""Whose features are kept in memory, some 100 MB each for V and Δ."""


@dataclass(frozen=True)
class Equations:
    """The linear system in feature space, for one γ."""

    matrix: Floats
    """A, (D, D)."""
    reward: Floats
    """Xᵀr/n."""
    source: Floats
    """c."""
    scale: Floats
    """The diagonal of Λ: the features' mean squares, 0 for the constant."""

    def solve(self, ridge: float) -> tuple[Floats, Floats]:
        """θ and β."""
        factor = lu_factor(self.matrix + ridge * np.diag(self.scale))
        return lu_solve(factor, self.reward), lu_solve(factor, self.source, trans=1)

    def degrees_of_freedom(self, ridge: float) -> float:
        """tr(M⁻¹A): how many features are left by the ridge."""
        return float(np.trace(lu_solve(lu_factor(self.matrix + ridge * np.diag(self.scale)), self.matrix)))


def choose_ridge(errors: Floats, tolerance: float = TOLERANCE) -> int:
    """The place of the smallest ridge whose standard error is at most `tolerance` times the smallest.

    Args:
        errors: one standard error for each ridge, ridges rising; NaN where there is none.
        tolerance: 1.5, frozen on Reacher and HalfCheetah data that no later measurement used.
    """
    finite = np.where(np.isfinite(errors), errors, np.inf)
    if not np.isfinite(finite).any():
        raise ArithmeticError("no ridge gives a finite estimate: the features are degenerate (try solver='kernel')")
    return int(np.argmax(finite <= tolerance * finite.min()))


@dataclass(frozen=True, eq=False)
class Rows:
    """The logged rows that have a next state, and what follows them, as features."""

    problem: Problem
    features: StateFeatures
    """V."""
    centred: Floats
    """u at each of the data's rows, (n, k); k may be 0."""
    weight: Floats
    """ρ̂^κ of each of the data's rows, or whatever weighs the equations."""

    @classmethod
    def draw(cls, problem: Problem, n_features: int, draws: int, weight: Floats | None = None) -> Rows:
        """Draw the features, which know the time where a time limit restarts the task.

        Args:
            problem: the question.
            n_features: random features of the state.
            draws: target actions a state where the policy's mean action is not known otherwise.
            weight: of each row, where it is not 1.
        """
        features = StateFeatures.draw(problem.data, n_features, problem.seed, clock_of(problem))
        counts = np.ones(len(problem.data)) if weight is None else weight
        return cls(problem, features, centred_features(problem, draws), counts)

    @cached_property
    def kept(self) -> Integers:
        """Numbers of the rows."""
        return np.unique(self.problem.steps.rows)

    @cached_property
    def ended(self) -> Bools:
        """Which of them end an episode of the task."""
        return self.problem.ending[self.kept]

    @property
    def size(self) -> int:
        """How many columns X and Δ have: features of the state, then each u times the constant and the linear ones."""
        return self.features.size + int(self.centred.shape[1]) * (1 + self.features.linear)

    @cached_property
    def first_states(self) -> Floats:
        """V at the logged initial states."""
        first = self.problem.log.initial_observations
        start = np.zeros(len(first), dtype=np.int64)
        return self.features(first, start) if len(first) else np.zeros((1, self.features.size))

    @cached_property
    def initial(self) -> Floats:
        """The features of initial states, averaged over the target's actions: [V(s₀), 0]."""
        first = self.first_states
        return np.hstack([first, np.zeros((len(first), self.size - first.shape[1]))])

    @property
    def restarts(self) -> bool:
        """Whether an end is followed by an initial state."""
        return self.problem.on_end == "restart"

    @cached_property
    def _kept_parts(self) -> list[tuple[slice, Floats, Floats]]:
        return list(self._parts())

    def parts(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """Rows, Φ and Δ, some at a time; of small data their state features are made once."""
        for part, here, difference in iter(self._kept_parts) if len(self.kept) <= FEW_ROWS else self._parts():
            state = here[:, : 1 + self.features.linear]
            action = np.einsum("nk,nj->nkj", self.centred[self.kept[part]], state).reshape(len(here), -1)
            yield part, np.hstack([here, action]), np.hstack([difference, action])

    def _parts(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """The same of the state features alone."""
        data, gamma, age = self.problem.data, self.problem.gamma, ages(self.problem)
        after_end = self.first_states.mean(axis=0) if self.restarts else np.zeros(self.features.size)
        for part in chunks(len(self.kept), ROWS):
            rows, ended = self.kept[part], self.ended[part]
            here = self.features(data.observations[rows], age[rows])
            following = np.array(data.next_observations[rows])
            following[ended] = data.observations[rows][ended]  # may be unknown, and is not looked at
            there = self.features(following, age[rows] + 1)
            there[ended] = after_end
            difference = here - gamma * there
            if gamma == 1:
                difference[:, 0] = 1
            yield part, here, difference

    def equations(self) -> Equations:
        """Of all rows; one pass over them."""
        return self.without(np.zeros(self.problem.data.n_episodes, dtype=np.int64))[0]

    def without(self, folds: Integers) -> list[Equations]:
        """Of all rows but one fold's, fold by fold, in one pass; of all where there is one fold.

        Args:
            folds: (episodes,): the fold of each, from 0.
        """
        fold, count = folds[self.problem.data.episode[self.kept]], int(folds.max()) + 1
        matrix = np.zeros((count, self.size, self.size))
        reward, square = np.zeros((count, self.size)), np.zeros((count, self.size))
        for part, here, difference in self.parts():
            rows = self.kept[part]
            for k in range(count):
                mine = fold[part] == k
                weighted = here[mine] * self.weight[rows[mine], None]
                matrix[k] += weighted.T @ difference[mine]
                reward[k] += weighted.T @ self.problem.data.rewards[rows[mine]]
                square[k] += np.sum(here[mine] ** 2, axis=0)
        numbers = np.bincount(fold, minlength=count)
        if count > 1:
            matrix, reward, square, numbers = (each.sum(axis=0) - each for each in (matrix, reward, square, numbers))
        return [self._equations(*sums) for sums in zip(matrix, reward, square, numbers, strict=True)]

    def _equations(self, matrix: Floats, reward: Floats, square: Floats, n: int) -> Equations:
        """Means from sums."""
        gamma, scale = self.problem.gamma, square / n
        scale = np.where(scale > 1e-6, scale, 1.0)  # a column of zeros still needs a pivot
        scale[0] = 0
        source = np.eye(self.size)[0] if gamma == 1 else (1 - gamma) * self.initial.mean(axis=0)
        return Equations(matrix / n, reward / n, source, scale)

    def ratios_and_residuals(self, theta: Floats, beta: Floats) -> tuple[Floats, Floats]:
        """τ = Xβ and r - Δθ at every kept row, one column a ridge; a second pass over the rows."""
        tau, residual = np.empty((len(self.kept), theta.shape[1])), np.empty((len(self.kept), theta.shape[1]))
        for part, here, difference in self.parts():
            rows = self.kept[part]
            tau[part] = self.weight[rows, None] * (here @ beta)
            residual[part] = self.problem.data.rewards[rows, None] - difference @ theta
        return tau, residual

    def held_residuals(self, folds: Integers, theta: Floats) -> Floats:
        """R - Δθ with a θ for each fold, (folds, size, ridges); folds as in `without`."""
        fold = folds[self.problem.data.episode[self.kept]]
        residual = np.empty((len(self.kept), theta.shape[2]))
        for part, _, difference in self.parts():
            for k in range(len(theta)):
                mine = np.flatnonzero(fold[part] == k)
                rewards = self.problem.data.rewards[self.kept[part][mine], None]
                residual[part.start + mine] = rewards - difference[mine] @ theta[k]
        return residual

    def influence(self, theta: Floats, tau: Floats, residual: Floats) -> tuple[EpisodeSums, float]:
        """Per-episode sums and the standard error for one ridge.

        ψ_e = Σ τ(r - Δθ)/n over its rows; for first states see `ope_vpm.ope.inference.influence`.
        """
        n = len(self.kept)
        sums = influence_sums(self.problem, self.kept, np.full(n, 1 / n), tau / n, residual, self.initial @ theta)
        return sums, sums.standard_error


@dataclass(frozen=True)
class Solutions:
    """What each ridge of a grid gives, and which one was chosen."""

    ridges: tuple[float, ...]
    values: Floats
    tau: Floats
    """(rows, ridges)."""
    sums: list[EpisodeSums]
    errors: Floats
    """Standard errors."""
    chosen: int

    @property
    def error(self) -> float:
        """The standard error at the chosen ridge."""
        return float(self.errors[self.chosen])


def solve_grid(rows: Rows, equations: Equations, ridges: tuple[float, ...], chosen: int | None) -> Solutions:
    """Solve for every ridge; unless one is `chosen`, the rule chooses."""
    solved = [equations.solve(each) for each in ridges]
    theta, beta = (np.stack(columns, axis=1) for columns in zip(*solved, strict=True))
    tau, residual = rows.ratios_and_residuals(theta, beta)
    influences = [rows.influence(theta[:, k], tau[:, k], residual[:, k]) for k in range(len(ridges))]
    errors = np.array([error for _, error in influences])
    place = choose_ridge(errors) if chosen is None else chosen
    return Solutions(ridges, equations.source @ theta, tau, [sums for sums, _ in influences], errors, place)


def factored_rows(problem: Problem, n_features: int, power: float, draws: int) -> Rows:
    """Rows weighed by ρ̂^power, scaled to mean 1."""
    weight = action_ratio(problem).ratio ** power
    return Rows.draw(problem, n_features, draws, weight / weight.mean())


def find_factored(
    problem: Problem, n_features: int = 400, ridge: float | None = None, power: float = POWER, draws: int = 8
) -> RawEstimate:
    """Find the ratio, with the ridge chosen from the data alone unless it is given; shared by estimators."""
    return problem.shared(_find_factored, n_features, ridge, power, draws)


def _find_factored(problem: Problem, n_features: int, ridge: float | None, power: float, draws: int) -> RawEstimate:
    action = action_ratio(problem)
    if not action.ratio.any():
        return nothing_in_common(problem)
    fit = {"power": power, "behaviour_held_out_log_likelihood": action.held_out_log_likelihood}
    rows = factored_rows(problem, n_features, power, draws)
    return find_linear("factored", rows, ridge, fit)


def nothing_in_common(problem: Problem) -> RawEstimate:
    """No logged action is one of the target's."""
    weights = np.zeros(len(problem.data))
    return RawEstimate(
        value=float("nan"), weights=weights, evidence=evidence_of_weights(problem.data, weights, overlap=0.0)
    )


def find_linear(solver: str, rows: Rows, ridge: float | None, fit: dict[str, Any]) -> RawEstimate:
    """Solve the rows' equations, the ridge chosen unless it is given; `fit` joins the diagnostics."""
    problem = rows.problem
    equations = rows.equations()
    ridges, fixed = (RIDGES, None) if ridge is None else ((ridge, ridge * 10**0.5, ridge * 10), 0)
    grid = solve_grid(rows, equations, ridges, fixed)
    chosen, error = grid.chosen, grid.error
    bias = suspected_bias(grid.values, chosen)
    # Fitted residuals are too small; 1/(1 - leverage) undoes that and a little more (MacKinnon and White's HC3).
    leverage = min(equations.degrees_of_freedom(ridges[chosen]) / len(rows.kept), 0.5)
    weights = np.zeros(len(problem.data))
    weights[rows.kept] = grid.tau[:, chosen]
    return RawEstimate(
        value=float(grid.values[chosen]),
        uncertainty=Bootstrap(episodes=grid.sums[chosen].scaled(1 / (1 - leverage)), suspected_bias=bias),
        weights=weights,
        evidence=evidence_of_weights(
            problem.data,
            weights,
            overlap=known_overlap(problem),
            disagreement=disagreement(problem.data, bias, error),
            remarks=clock_remarks(problem, known=True),
        ),
        diagnostics={
            "solver": solver,
            "ridge": ridges[chosen],
            **fit,
            "clock": None if rows.features.clock is None else rows.features.clock.length,
            "dropped": problem.steps.dropped,
            "ended": problem.steps.ended,
        },
    )


def suspected_bias(values: Floats, chosen: int) -> float:
    """How far the value moves when the ridge is ten times larger: what a ridge too many would do."""
    larger = min(chosen + 2, len(values) - 1)
    return abs(float(values[larger] - values[chosen]))
