"""Continuous states: the power step in closed form over ratios τ(x) = βᵀφ(x) with random features φ."""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.batches import TransitionBatches, sample_rows
from ope_vpm.chain.monitor import Callback, Damping, Monitor, schedule
from ope_vpm.chain.solvers.solution import Solution, ValueFunction, select
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import FEATURES, Features, combination, median_bandwidth
from ope_vpm.linear.moments import Means, accumulate, accumulate_where_positive
from ope_vpm.linear.nonnegative import FeatureRows, newton, nonnegative_steps, positive_system
from ope_vpm.linear.system import FixedPoint, LinearSystem, gram_penalty, power_steps, slowest_decay

MEMORY_ENTRIES = 60_000 * 512
"""Features that may be kept in memory, rows times features: 250 MB for φ and φ' in single precision."""
MEMORY_ROWS = 200_000
"""Rows whose features may be kept in memory, however few those are: Newton's method on all rows begins where these
rows lead, and needs no better beginning."""
AUTO_STEPS = 100
"""Power steps before `steps="auto"` asks whether to go on: where errors decay as fast as the question asks for, what is
left after them is below 5 per cent."""
SETTLED = 1e-5
"""A change of τ, in L₁(p), after which power steps stop: far below the standard error of any data."""
FEWEST_ROWS = 20
"""Fewer rows say nothing about features on held-out rows."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Random features, closed-form power steps, ridge and bandwidth by a held-out criterion.

    The moments of all rows come from one streaming pass; power steps and the fixed point of the linear class
    are then algebra on D x D matrices. Keeping τ ≥ 0 looks at rows again (see `ope_vpm.linear.nonnegative`).
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
        batches = TransitionBatches(transitions, features)
        means = accumulate(batches).means()
        equation = FixedPoint(gamma, means.initial, gram_penalty(means.gram, ridge))
        monitor = Monitor("power steps", self._steps(), callback)
        if self.nonnegative:
            beta, notes = self._nonnegative(batches, means, equation, rng, monitor)
        else:
            beta, notes = self._linear(means, equation, monitor), []
        unscaled = KernelRatio(features, beta, equation.penalty, self.nonnegative)
        mean_ratio = float(np.mean(transitions.row_weights * unscaled(transitions.x)))
        if not np.isfinite(mean_ratio) or mean_ratio <= 0:
            raise ArithmeticError("the kernel solver found no ratio: give a larger ridge")
        if monitor.interrupted:
            notes.append("stopped by the user")
        change = np.array([info["change"] for info in monitor.history])
        return Solution(replace(unscaled, beta=beta / mean_ratio), mean_ratio, change, notes=notes, settings=settings)

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
        chosen = select(transitions, maps, self.ridge, gamma, rng)
        bandwidth = bandwidths[chosen.place]
        settings = {"bandwidth": bandwidth, "ridge": chosen.ridge, "held-out objective": chosen.objective}
        return maps[chosen.place], chosen.ridge, settings

    def _linear(self, means: Means, equation: FixedPoint, monitor: Monitor) -> Floats:
        """The plain linear solution: algebra on D x D matrices only."""
        if not isinstance(self.steps, int):
            return LinearSystem.of(means, equation.gamma, scale=equation.penalty).solve(1.0)[1]
        alphas = map(schedule(self.damping), range(1, self.steps + 1))
        start: Floats = np.eye(len(means.gram))[0]
        return monitor.follow(power_steps(means, equation, alphas), start, tolerance=0.0)

    def _nonnegative(
        self, batches: TransitionBatches, means: Means, equation: FixedPoint, rng: np.random.Generator, monitor: Monitor
    ) -> tuple[Floats, list[str]]:
        """Power steps with τ ≥ 0, and on to the fixed point where that is asked for and determined."""
        part = batches.sample(min(MEMORY_ROWS, MEMORY_ENTRIES // len(means.gram)), rng)
        rows = FeatureRows.of(part)
        gram = means.gram if part is batches else accumulate(rows).means().gram
        start: Floats = np.eye(len(gram))[0]
        beta = monitor.follow(nonnegative_steps(rows, equation, gram), start, SETTLED)
        if isinstance(self.steps, int) or monitor.interrupted:
            return beta, []
        if self.steps == "auto":
            decay = slowest_decay(accumulate_where_positive(part, beta).means(), equation)
            if decay > 1 - 3 / AUTO_STEPS:  # e⁻³ is 5 per cent
                return beta, [f"the chain forgets slowly (|λ₂| = {decay:.3f}): stopped after {AUTO_STEPS} power steps"]
        exact = newton(part, equation, beta)
        if exact is not None and part is not batches:
            exact = newton(batches, equation, exact)  # all rows, from where some of them lead
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
        """τ at some states; the features of a few thousand of them are held at once."""
        value = combination(self.features, x, self.beta)
        return np.maximum(value, 0) if self.nonnegative else value

    def value_function(self, transitions: Transitions, values: Floats, gamma: float) -> ValueFunction:
        """The h of `Ratio.value_function` in the span of the features, by the transpose of the system that gave β."""
        batches = TransitionBatches(transitions, self.features, reward=values)
        moments = accumulate_where_positive(batches, self.beta) if self.nonnegative else accumulate(batches)
        equation = FixedPoint(gamma, np.zeros_like(self.penalty), self.penalty)
        theta, _ = positive_system(moments.means(), equation).solve(1.0)
        if gamma == 1:
            theta[0] = 0  # it is the answer E_μ[values]; h is known up to a constant
        return lambda x: combination(self.features, x, theta)

    def arrays(self) -> dict[str, Any]:
        """All numbers, for saving."""
        return {"beta": self.beta, "penalty": self.penalty, **self.features.arrays()}

    def settings(self) -> dict[str, Any]:
        """What is not an array, for saving."""
        return {"features": self.features.kind, "nonnegative": self.nonnegative}
