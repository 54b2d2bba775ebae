"""VPM with a factored ratio, τ(s, a) = w(s)·π(a|s)/b̂(a|s): only a function of the state is left to find.

w is linear in features V of the state, and the fixed point of the power iteration is one linear system. With
X = ρ̂·V(s) and Δ = V(s) - γV(s') its matrix is A = XᵀΔ/n; the same matrix, transposed, gives the value function,
so that the value, its weights and its influence function come from one factorisation:

    M = A + λΛ,   θ = M⁻¹ Xᵀr/n,   β = M⁻ᵀc,   τ = Xβ,   v = cᵀθ = Σ τr/n.

γ < 1: c = (1-γ)·mean V(s₀). γ = 1: Δ's constant column is 1 and c = e₁, which says E[τ] = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lu_factor, lu_solve

from ope_vpm.chain.diagnostics import effective_sample_size
from ope_vpm.chain.transitions import chunks
from ope_vpm.logged.columns import Bools, Floats, Integers
from ope_vpm.ope.action_ratio import action_ratio
from ope_vpm.ope.advantage import fitted_advantage
from ope_vpm.ope.conclude import Found, episode_effective_size
from ope_vpm.ope.features import StateFeatures
from ope_vpm.ope.influence import entry_rate, initial_sums
from ope_vpm.ope.intervals import EpisodeSums
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.verdict import Evidence

RIDGES = tuple(10 ** (exponent / 2) for exponent in range(-12, -1))
"""10⁻⁶ … 10⁻¹, in units of the features' mean squares."""
TOLERANCE = 1.5
"""How much larger than the smallest the standard error of the chosen ridge may be."""
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
    ratio: Floats
    """ρ̂ of each of the data's rows."""

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
        """How many columns X and Δ have."""
        return self.features.size

    @cached_property
    def first_states(self) -> Floats:
        """V at the logged initial states."""
        first = self.problem.data.initial_observations
        return self.features(first) if len(first) else np.zeros((1, self.features.size))

    @property
    def initial(self) -> Floats:
        """The features of initial states, averaged over the target's actions."""
        return self.first_states

    @property
    def restarts(self) -> bool:
        """Whether an end is followed by an initial state."""
        return self.problem.on_end == "restart"

    @cached_property
    def _kept_parts(self) -> list[tuple[slice, Floats, Floats]]:
        return list(self._parts())

    def parts(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """Rows, V and Δ, some at a time; of small data they are made once."""
        return iter(self._kept_parts) if len(self.kept) <= FEW_ROWS else self._parts()

    def _parts(self) -> Iterator[tuple[slice, Floats, Floats]]:
        data, gamma = self.problem.data, self.problem.gamma
        after_end = self.first_states.mean(axis=0) if self.restarts else np.zeros(self.features.size)
        for part in chunks(len(self.kept), ROWS):
            here, ended = self.features(data.observations[self.kept[part]]), self.ended[part]
            following = np.array(data.next_observations[self.kept[part]])
            following[ended] = data.observations[self.kept[part]][ended]  # may be unknown, and is not looked at
            there = self.features(following)
            there[ended] = after_end
            difference = here - gamma * there
            if gamma == 1:
                difference[:, 0] = 1
            yield part, here, difference

    def equations(self, used: Bools | None = None) -> Equations:
        """One pass over the rows, of which only those `used` count."""
        size, gamma = self.size, self.problem.gamma
        counts = np.ones(len(self.kept)) if used is None else used.astype(np.float64)
        n = counts.sum()
        matrix, reward, square = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        for part, here, difference in self.parts():
            weighted = here * (counts[part] * self.ratio[self.kept[part]])[:, None]
            matrix += weighted.T @ difference
            reward += weighted.T @ self.problem.data.rewards[self.kept[part]]
            square += counts[part] @ here**2
        scale = square / n
        scale = np.where(scale > 1e-6, scale, 1.0)  # a column of zeros still needs a pivot
        scale[0] = 0
        source = np.eye(size)[0] if gamma == 1 else (1 - gamma) * self.initial.mean(axis=0)
        return Equations(matrix / n, reward / n, source, scale)

    def ratios_and_residuals(self, theta: Floats, beta: Floats) -> tuple[Floats, Floats]:
        """τ = Xβ and r - Δθ at every kept row, one column a ridge; a second pass over the rows."""
        tau, residual = np.empty((len(self.kept), theta.shape[1])), np.empty((len(self.kept), theta.shape[1]))
        for part, here, difference in self.parts():
            rows = self.kept[part]
            tau[part] = self.ratio[rows, None] * (here @ beta)
            residual[part] = self.problem.data.rewards[rows, None] - difference @ theta
        return tau, residual

    def influence(self, theta: Floats, tau: Floats, residual: Floats) -> tuple[EpisodeSums, float]:
        """Per-episode sums and the standard error for one ridge.

        ψ_e = Σ τ(r - Δθ)/n over its rows; for first states see `ope_vpm.ope.influence`.
        """
        data, n = self.problem.data, len(self.kept)
        sums = EpisodeSums.of_rows(data.episode[self.kept], data.n_episodes, tau * residual / n, np.full(n, 1 / n))
        whole = sums.numerator[:, 0] - sums.denominator[:, 0] * sums.numerator.sum()
        if data.from_reset.any():
            start = initial_sums(self.problem, entry_rate(self.problem, self.kept, tau / n), self.initial @ theta)
            sums, whole = sums.beside(start), whole + start.numerator[:, 0]
        return sums, float(np.sqrt(np.sum(whole**2)))


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
    varied: bool
    """Whether control variates were subtracted."""

    @property
    def error(self) -> float:
        """The standard error at the chosen ridge."""
        return float(self.errors[self.chosen])


def solve_grid(
    rows: Rows, equations: Equations, ridges: tuple[float, ...], control_variates: bool, chosen: int | None
) -> Solutions:
    """Solve for every ridge; unless one is `chosen`, the rule chooses.

    Control variates are kept where they make the standard error smaller.
    """
    solved = [equations.solve(each) for each in ridges]
    theta, beta = (np.stack(columns, axis=1) for columns in zip(*solved, strict=True))
    tau, residual = rows.ratios_and_residuals(theta, beta)
    values = equations.source @ theta

    def judged(values: Floats, residual: Floats, varied: bool) -> Solutions:
        influences = [rows.influence(theta[:, k], tau[:, k], residual[:, k]) for k in range(len(ridges))]
        errors = np.array([error for _, error in influences])
        place = choose_ridge(errors) if chosen is None else chosen
        return Solutions(ridges, values, tau, [sums for sums, _ in influences], errors, place, varied)

    plain = judged(values, residual, varied=False)
    if not control_variates:
        return plain
    explained = fitted_advantage(rows.problem, rows.features, rows.kept, rows.ratio[rows.kept], residual)
    if not explained.any():
        return plain
    varied = judged(values - np.mean(tau * explained, axis=0), residual - explained, varied=True)
    return varied if varied.error < plain.error else plain


def find_factored(
    problem: Problem, n_features: int = 400, ridge: float | None = None, control_variates: bool = True
) -> Found:
    """Find w, with the ridge chosen from the data alone unless it is given; see `advantage` for the variates."""
    action = action_ratio(problem)
    rows = Rows(problem, StateFeatures.draw(problem, n_features), action.ratio)
    fit = {"behaviour_held_out_log_likelihood": action.held_out_log_likelihood}
    return find_linear("factored", rows, ridge, control_variates, min(action.overlap, 1.0), fit)


def find_linear(
    solver: str, rows: Rows, ridge: float | None, control_variates: bool, overlap: float | None, fit: dict[str, Any]
) -> Found:
    """Solve the rows' equations, the ridge chosen unless it is given; `fit` joins the diagnostics."""
    problem = rows.problem
    equations = rows.equations()
    ridges, fixed = (RIDGES, None) if ridge is None else ((ridge, ridge * 10**0.5, ridge * 10), 0)
    grid = solve_grid(rows, equations, ridges, control_variates, fixed)
    chosen, error = grid.chosen, grid.error
    bias = suspected_bias(grid.values, chosen)
    # Fitted residuals are too small; 1/(1 - leverage) undoes that and a little more (MacKinnon and White's HC3).
    leverage = min(equations.degrees_of_freedom(ridges[chosen]) / len(rows.kept), 0.5)
    weights = np.zeros(len(problem.data))
    weights[rows.kept] = grid.tau[:, chosen]
    return Found(
        value=float(grid.values[chosen]),
        sums=grid.sums[chosen].scaled(1 / (1 - leverage)),
        weights=weights,
        bias=bias,
        evidence=Evidence(
            effective_rows=effective_sample_size(np.maximum(weights, 0)),
            rows=len(problem.data),
            effective_episodes=episode_effective_size(problem, weights),
            overlap=overlap,
            negative_mass=float(-np.minimum(weights, 0).sum() / np.abs(weights).sum()),
            disagreement=bias / error if error > 0 else None,
        ),
        diagnostics={
            "solver": solver,
            "ridge": ridges[chosen],
            "control_variates": grid.varied,
            **fit,
            "dropped": problem.steps.dropped,
            "ended": problem.steps.ended,
        },
    )


def suspected_bias(values: Floats, chosen: int) -> float:
    """How far the value moves when the ridge is ten times larger: what a ridge too many would do."""
    larger = min(chosen + 2, len(values) - 1)
    return abs(float(values[larger] - values[chosen]))
