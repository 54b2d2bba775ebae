"""Diagnostics of a fit: how far its estimate can be trusted, in a few numbers.

The tail of weights is judged by Pareto k̂, by which PSIS and ArviZ tell whether a weighted mean can be trusted. The
largest weights are compared with a generalised Pareto distribution, whose shape k says how many moments the weights
have: above 0.5 no variance, above 1 no mean. Up to about 0.7 weighted means behave in practice (Vehtari et al. 2024).
The shape is found by the method of Zhang and Stephens (2009), a mean over a grid with a weak prior, as they do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.batches import sample_rows
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import Standardiser, median_bandwidth

FEWEST = 5
"""Weights beyond the threshold that a fit needs; the packages ask for as many."""
PRIOR_SHAPE, PRIOR_WEIGHT = 0.5, 10
"""The estimate is drawn towards 0.5 with the weight of ten tail values, as in the packages."""
LIMIT = 0.7
"""The k̂ above which the tail is called heavy. The shape knows nothing of the scale: where the effective sample size is
near the number of rows, even a heavy tail has little weight."""


def pareto_k(weights: Floats) -> float:
    """The shape k̂ of the weights' upper tail; 0 where the largest are all alike, NaN where there are too few.

    Args:
        weights: not negative, on any scale.
    """
    used = np.sort(np.asarray(weights, dtype=np.float64))
    largest = used[-1] if len(used) else 0.0
    tail = int(np.ceil(min(0.2 * len(used), 3 * np.sqrt(len(used)))))
    if largest <= 0 or tail < FEWEST or len(used) <= tail:
        return float("nan")
    threshold = max(used[-tail - 1], np.finfo(np.float64).tiny)
    beyond = (used[used > threshold] - threshold) / largest
    if len(beyond) == 0:
        return 0.0
    return float("nan") if len(beyond) < FEWEST else _shape(beyond)


def _shape(values: Floats) -> float:
    """The shape of a generalised Pareto distribution on [0, ∞), from its sorted values."""
    count = len(values)
    grid = 30 + int(np.sqrt(count))
    quartile = values[int(count / 4 + 0.5) - 1]
    b = 1 / values[-1] + (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quartile)
    shapes = np.log1p(-b[:, None] * values).mean(axis=1)
    rate = np.divide(-b, shapes, out=np.full(grid, 1 / values.mean()), where=shapes != 0)  # its limit as b goes to 0
    likelihood = count * (np.log(rate) - shapes)  # but for a constant
    weight = np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    shape = float(np.log1p(-float(b @ weight) * values).mean())
    return (count * shape + PRIOR_WEIGHT * PRIOR_SHAPE) / (count + PRIOR_WEIGHT)


FUNCTIONS = 64
"""Test functions of the stationarity residual. If their residuals are independent, the root mean square over 64 of them
varies by about 9 % from one draw of functions to the next. A round number."""
ROWS = 20_000
"""Rows on which the stationarity residual is computed, so that it costs little beside the fit. A round number."""


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of a fit, none of which uses the truth."""

    solver: str
    """The name of the solver."""
    rows: int
    """The number of rows that the fit used."""
    mean_ratio: float
    """E_p[τ] as the solver left it, before τ was scaled to mean 1."""
    effective_sample_size: float
    """(Σw)²/Σw²: how many rows of equal weight give the same precision as the weighted rows."""
    stationarity_residual: float
    """The root mean square of E_μ[g(x')] - E_μ[g(x)] over random functions |g| ≤ 1 that no solver was fitted to."""
    stationarity_noise: float
    """The value that the residual has from sampling noise alone when τ is exact."""
    unseen_mass: float
    """The probability under μ that the next state has no data nearby (finite states: that it was never seen as x)."""
    convergence: Floats = field(repr=False)
    """The change of τ in each power step, in the norm of L₁(p)."""
    notes: tuple[str, ...] = ()
    """What the user should know, in sentences."""
    doubts: tuple[str, ...] = ()
    """Those of the notes that make the answer doubtful. That a finite chain is periodic is none of them: its average
    over time is well defined."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the solver chose from the data."""
    pareto_k: float = float("nan")
    """The shape k̂ of the weights' upper tail, as in PSIS: above 0.7 it is heavy; see `ope_vpm.chain.diagnostics`. NaN
    where there are too few different weights to tell."""
    unseen_initial: float = 0.0
    """The share of the initial states that were never seen as x, so that the distribution starts elsewhere instead
    (finite states, γ < 1); the note says where."""

    def rows_of_table(self) -> list[tuple[str, str]]:
        """Return the name and the value of each line of the printed table, as text."""
        last = f"{self.convergence[-1]:.2g} after {len(self.convergence)} steps" if len(self.convergence) else "exact"
        share = self.effective_sample_size / self.rows
        lines = [
            ("solver", self.solver),
            ("E_p[τ]", f"{self.mean_ratio:.4f}"),
            ("effective sample size", f"{self.effective_sample_size:.0f} of {self.rows} ({share:.1%})"),
            ("Pareto k̂ of weights", _tail_in_words(self.pareto_k)),
            ("stationarity residual", f"{self.stationarity_residual:.2g} (noise: {self.stationarity_noise:.2g})"),
            ("mass on unseen x'", f"{self.unseen_mass:.2%}"),
            ("last change of τ", last),
        ]
        lines += [("unseen initial states", f"{self.unseen_initial:.2%}")] if self.unseen_initial else []
        lines += [
            (name, f"{value:.4g}" if isinstance(value, float) else str(value)) for name, value in self.settings.items()
        ]
        return lines + [("note", note) for note in self.notes]

    def __str__(self) -> str:
        lines = self.rows_of_table()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON can hold; None for a tail that is not known."""
        return asdict(self) | {
            "pareto_k": None if np.isnan(self.pareto_k) else self.pareto_k,
            "convergence": self.convergence.tolist(),
            "notes": list(self.notes),
            "doubts": list(self.doubts),
        }


def _tail_in_words(k: float) -> str:
    if np.isnan(k):
        return "too few different weights to tell"
    return f"{k:.2f} ({'a heavy tail' if k > LIMIT else 'fine'}; limit {LIMIT})"


@dataclass(frozen=True)
class StationarityTest:
    """A test of stationarity: whether E_μ[γg(x') - g(x)] + (1-γ)E₀[g] is 0 for random bounded functions g."""

    x: Array
    """The states of the rows that the test uses."""
    difference: Floats
    """γg(x') - g(x) + (1-γ)E₀[g], one row per row of the data and one column per function."""
    weight: Floats
    """The rows' own weights, with mean 1."""

    @classmethod
    def draw(cls, transitions: Transitions, gamma: float, rng: np.random.Generator) -> StationarityTest:
        """Draw test functions: cosine waves of several lengths for continuous states, random signs for finite ones.

        Args:
            transitions: the data, of which at most `ROWS` rows are used.
            gamma: the discount γ.
            rng: draws the rows and the functions.
        """
        part = transitions.sample(ROWS, rng)
        g = _signs(rng) if transitions.finite else _waves(part, rng)
        successors = part.successors
        after = np.zeros((len(part), FUNCTIONS))
        for k in range(successors.shape[1]):
            share = 1.0 if part.next_weight is None else part.next_weight[:, k : k + 1]
            after += share * g(successors[:, k])
        difference = gamma * after - g(part.x)
        if gamma < 1 and part.x_initial is not None:
            difference += (1 - gamma) * np.average(g(part.x_initial), axis=0, weights=part.initial_weights)
        return cls(part.x, difference, part.row_weights)

    def residual(self, ratio: Callable[[Array], Floats]) -> float:
        """Return the stationarity residual of a ratio: the root mean square over functions."""
        return float(np.sqrt(np.mean((self._weights(ratio) @ self.difference) ** 2)))

    def noise(self, ratio: Callable[[Array], Floats]) -> float:
        """Return the residual that sampling noise alone gives: the root mean square of the means' standard errors."""
        return float(np.sqrt(np.mean(self._weights(ratio) ** 2 @ self.difference**2)))

    def _weights(self, ratio: Callable[[Array], Floats]) -> Floats:
        weights = self.weight * ratio(self.x)
        total = weights.sum()
        return weights / total if total else weights


def far_from_data(transitions: Transitions, weights: Floats, rng: np.random.Generator) -> float:
    """Return the weighted share of x' that are farther from the sampled x than 99 % of the x are from each other.

    Distances are to the nearest neighbour, in standardised coordinates, for 2000 rows: enough for a standard error of
    about 1 %.
    """
    n = len(transitions)
    sample = sample_rows(transitions, rng)
    standardise = Standardiser.fit(sample)
    from scipy.spatial import cKDTree  # imported here: it takes long, and few need it

    tree = cKDTree(standardise(sample))
    chosen = rng.choice(n, size=min(n, 2000), replace=n > 2000)
    own, _ = tree.query(standardise(transitions.x[chosen]), k=2)
    usual = np.quantile(own[:, 1], 0.99)
    share = np.ones((len(chosen), 1)) if transitions.next_weight is None else transitions.next_weight[chosen]
    weight = np.abs(weights[chosen])
    outside = np.zeros(len(chosen))
    for k in range(share.shape[1]):
        away, _ = tree.query(standardise(transitions.successors[chosen, k]))
        outside += share[:, k] * (away > usual)
    return float(weight @ outside / max(weight.sum(), 1e-300))


def _waves(transitions: Transitions, rng: np.random.Generator) -> Callable[[Array], Floats]:
    """Draw cosine waves whose lengths are ¼, ½, 1 and 2 times the median distance, to see coarse and fine errors."""
    sample = sample_rows(transitions, rng)
    standardise = Standardiser.fit(sample).within_range(sample)
    widths = median_bandwidth(sample) * rng.choice([0.25, 0.5, 1.0, 2.0], size=FUNCTIONS)
    frequency = rng.standard_normal((sample.shape[1], FUNCTIONS)) / widths
    phase = rng.uniform(0, 2 * np.pi, FUNCTIONS)
    return lambda x: np.cos(standardise(x) @ frequency + phase)


def _signs(rng: np.random.Generator) -> Callable[[Array], Floats]:
    """Draw functions with values ±1, by hashing a state's number with 64 random keys: no table of states is needed."""
    keys = rng.integers(1, 2**63 - 1, size=FUNCTIONS, dtype=np.uint64) | np.uint64(1)

    def g(states: Array) -> Floats:
        seen, place = np.unique(states, return_inverse=True)  # a chain has far fewer states than rows
        mixed = (seen[:, None].astype(np.uint64) + np.uint64(1)) * keys
        mixed ^= mixed >> np.uint64(31)
        signs: Floats = np.where((mixed * keys) >> np.uint64(63), 1.0, -1.0)
        return signs[place]

    return g
