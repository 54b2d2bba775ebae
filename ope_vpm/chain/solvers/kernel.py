"""Points in ℝ^d: the power step in closed form over ratios τ(x) = βᵀφ(x) with random features φ."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import solve

from ope_vpm.arrays import Array, Floats, chunks
from ope_vpm.chain.features import FEATURES, Features, median_bandwidth, sample_rows
from ope_vpm.chain.monitor import Callback, Monitor
from ope_vpm.chain.nonnegative import Equation, FeatureRows, linear_system, newton, power_steps, slowest_decay
from ope_vpm.chain.schedule import Damping, schedule
from ope_vpm.chain.solvers.selection import select
from ope_vpm.chain.solvers.solution import Solution, ValueFunction
from ope_vpm.chain.statistics import CHUNK_ROWS, Statistics, collect, initial_features, solve_gram
from ope_vpm.chain.transitions import Transitions

MEMORY_ENTRIES = 60_000 * 512
"""Features that may be kept in memory: rows times features."""
MEMORY_ROWS = 200_000
"""Rows whose features may be kept in memory, however few those are."""
AUTO_STEPS = 100
FEWEST_ROWS = 20


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Random features, closed-form power steps, ridge and bandwidth by a held-out criterion.

    Statistics of all rows come from one streaming pass; power steps and the fixed point of the linear class
    are then algebra on D x D matrices. Keeping τ ≥ 0 looks at rows again (see `nonnegative`).
    """

    name = "kernel"

    steps: int | str | None = "auto"
    """Power steps; None: the fixed point. "auto": 100 steps, and on to the fixed point where the estimated
    chain forgets within them; where it does not (two modes), the fixed point would be mostly noise."""
    features: str = "fourier"
    """"fourier" or "nystrom"."""
    n_features: int = 512
    bandwidth: float | None = None
    """In standard deviations; None: the median distance times 1, ½, ¼ or ⅛, as held-out rows say."""
    ridge: float | None = None
    """On each coefficient, in units of its feature's mean square; None: as held-out rows say."""
    damping: Damping = 1.0
    """α of a power step; needs nonnegative=False."""
    nonnegative: bool = True
    """Keep τ ≥ 0 within the fit. False: the plain linear solution, which may dip below zero."""

    def __post_init__(self) -> None:
        if self.features not in FEATURES:
            raise ValueError(f"unknown features {self.features!r}: known are {', '.join(sorted(FEATURES))}")
        steps: object = self.steps
        if isinstance(steps, Integral):
            object.__setattr__(self, "steps", int(steps))
        if not (self.steps is None or self.steps == "auto" or (isinstance(self.steps, int) and self.steps >= 1)):
            raise ValueError(f'steps must be at least 1, "auto", or None for the fixed point: got {self.steps!r}')
        if self.n_features < 2:
            raise ValueError(f"n_features must be at least 2: got {self.n_features}")
        for name in ("bandwidth", "ridge"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, or None to have it chosen: got {value}")
        schedule(self.damping)
        if self.nonnegative and self.damping != 1:
            raise ValueError("damping needs nonnegative=False: steps that keep τ ≥ 0 are not damped")

    def fit(self, transitions: Transitions, gamma: float, seed: int, callback: Callback | None) -> Solution:
        """Find the ratio."""
        rng = np.random.default_rng(seed)
        features, ridge, settings = self._choose(transitions, gamma, rng)
        return self.fit_in_span(transitions, gamma, features, ridge, rng, callback, settings)

    def fit_in_span(
        self,
        transitions: Transitions,
        gamma: float,
        features: Features,
        ridge: float,
        rng: np.random.Generator,
        callback: Callback | None,
        settings: dict[str, Any],
    ) -> Solution:
        """Find the ratio in the span of given features; `settings` are for the record."""
        means = collect(transitions, features)
        penalty = ridge * np.diag(means.gram)
        penalty[0] = 0
        equation = Equation(gamma, initial_features(transitions, features), penalty)
        monitor = Monitor("power steps", self._steps(), callback)
        if self.nonnegative:
            beta, notes = self._nonnegative(transitions, features, means, equation, rng, monitor)
        else:
            beta, notes = self._linear(means, equation, monitor), []
        ratio = KernelRatio(features, beta, penalty, self.nonnegative)
        mean_ratio = mean_of(ratio, transitions)
        if not np.isfinite(mean_ratio) or mean_ratio <= 0:
            raise ArithmeticError("the kernel solver found no ratio: give a larger ridge")
        if monitor.interrupted:
            notes.append("stopped by the user")
        change = np.array([info["change"] for info in monitor.history])
        scaled = KernelRatio(features, beta / mean_ratio, penalty, self.nonnegative)
        return Solution(scaled, mean_ratio, change, notes=notes, settings=settings)

    def _steps(self) -> int:
        return self.steps if isinstance(self.steps, int) else AUTO_STEPS

    def _choose(
        self, transitions: Transitions, gamma: float, rng: np.random.Generator
    ) -> tuple[Features, float, dict[str, Any]]:
        sample = sample_rows(transitions, rng)
        if len(transitions) < FEWEST_ROWS or not sample.std(axis=0).any():
            raise ValueError(
                f"the kernel solver needs at least {FEWEST_ROWS} rows that are not all one point: got {transitions!r}"
            )
        number = min(self.n_features, len(transitions) // 4)  # more than the rows can hold down is noise
        median = median_bandwidth(sample)
        draw = FEATURES[self.features].draw
        if self.bandwidth is not None and self.ridge is not None:
            return draw(sample, number, self.bandwidth, rng), self.ridge, {}
        bandwidths = [self.bandwidth] if self.bandwidth else [median / 2, median, median / 4, median / 8]
        maps = [draw(sample, number, bandwidth, rng) for bandwidth in bandwidths]
        choice, ridge, score = select(transitions, maps, self.ridge, gamma, rng)
        settings = {"bandwidth": bandwidths[choice], "ridge": ridge, "held-out objective": score}
        return maps[choice], ridge, settings

    def _linear(self, means: Statistics, equation: Equation, monitor: Monitor) -> Floats:
        """D x D algebra only."""
        if not isinstance(self.steps, int):
            return np.asarray(solve(*linear_system(means, equation)))
        operator = solve_gram(means.gram, equation.penalty, equation.gamma * means.cross.T)
        source = solve_gram(means.gram, equation.penalty, (1 - equation.gamma) * equation.initial)
        beta: Floats = np.eye(len(operator))[0]
        alpha = schedule(self.damping)
        with monitor:
            for step in range(1, self.steps + 1):
                change = alpha(step) * (operator @ beta + source - beta)
                beta = beta + change
                monitor.report(step, {"change": float(np.sqrt(change @ means.gram @ change))})
        return beta

    def _nonnegative(
        self,
        transitions: Transitions,
        features: Features,
        means: Statistics,
        equation: Equation,
        rng: np.random.Generator,
        monitor: Monitor,
    ) -> tuple[Floats, list[str]]:
        """Power steps with τ ≥ 0, and on to the fixed point where that is asked for and determined."""
        part = transitions.sample(min(MEMORY_ROWS, MEMORY_ENTRIES // len(means.gram)), rng)
        rows = FeatureRows.of(part, features)
        gram = means.gram if part is transitions else rows.gram() / len(part)
        beta = power_steps(rows, equation, gram, self._steps(), 1e-5, monitor)
        if isinstance(self.steps, int) or monitor.interrupted:
            return beta, []
        if self.steps == "auto":
            active = collect(part, features, where_positive=beta)
            decay = slowest_decay(active, equation)
            if decay > 1 - 3 / AUTO_STEPS:
                return beta, [f"the chain forgets slowly (|λ₂| = {decay:.3f}): stopped after {AUTO_STEPS} power steps"]
        exact = newton(part, features, equation, beta)
        if exact is not None and part is not transitions:
            exact = newton(transitions, features, equation, exact)  # all rows, from where some of them lead
        if exact is None:
            return beta, ["Newton's method did not reach the fixed point: these are power steps"]
        return exact, []


@dataclass(frozen=True)
class KernelRatio:
    """τ(x) = βᵀφ(x), cut at 0 where `nonnegative`."""

    kind = "kernel"

    features: Features
    beta: Floats
    penalty: Floats
    nonnegative: bool

    def __call__(self, x: Array) -> Floats:
        """τ(x), in chunks."""
        out = np.empty(len(x))
        for rows in chunks(len(x), CHUNK_ROWS, of=[x]):
            value = self.features(x[rows]) @ self.beta
            out[rows] = np.maximum(value, 0) if self.nonnegative else value
        return out

    def value_function(self, transitions: Transitions, values: Floats, gamma: float) -> ValueFunction:
        """H in the span of the features: the transpose of the equation that β solves, with `values` as its source."""
        where = self.beta if self.nonnegative else None
        means = collect(transitions, self.features, where_positive=where)
        equation = Equation(gamma, np.zeros_like(self.penalty), self.penalty)
        matrix, _ = linear_system(means, equation)
        weight = transitions.row_weights
        source = np.zeros_like(self.beta)
        for rows in chunks(len(transitions), CHUNK_ROWS):
            here = self.features(transitions.x[rows])
            on = here @ self.beta > 0 if self.nonnegative else np.ones(len(here), dtype=bool)
            source += (weight[rows] * values[rows] * on) @ here
        theta = solve(matrix.T, source / len(transitions))
        if gamma == 1:
            theta[0] = 0  # the multiplier of E_p[τ] = 1 is the answer E_μ[values]: h is known up to a constant
        return lambda x: np.concatenate([self.features(x[rows]) @ theta for rows in chunks(len(x), CHUNK_ROWS)])

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        return {"beta": self.beta, "penalty": self.penalty, **self.features.arrays()}

    def settings(self) -> dict[str, Any]:
        """Everything that is not an array, for saving."""
        return {"features": self.features.kind, "nonnegative": self.nonnegative}


def mean_of(ratio: KernelRatio, transitions: Transitions) -> float:
    """E_p[τ] over the rows, in chunks."""
    total = 0.0
    for rows in chunks(len(transitions)):
        weight = 1.0 if transitions.weight is None else transitions.weight[rows]
        total += float(np.sum(weight * ratio(transitions.x[rows])))
    return total / (len(transitions) if transitions.weight is None else float(transitions.weight.sum()))
