"""How far an estimate can be trusted, in a few numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.batches import sample_rows
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import Standardiser, median_bandwidth

FUNCTIONS = 64
ROWS = 20_000


@dataclass(frozen=True)
class Diagnostics:
    """What a fit says of itself."""

    solver: str
    rows: int
    mean_ratio: float
    """E_p[τ] as the solver left it, before τ was scaled to mean 1."""
    effective_sample_size: float
    """(Σw)²/Σw²: how many rows of equal weight the weighted sample is worth."""
    stationarity_residual: float
    """Root mean square, over test functions |g| ≤ 1 that no solver was fitted to, of E_μ[g(x')] - E_μ[g(x)]."""
    stationarity_noise: float
    """What that residual would be by chance, were τ exact."""
    unseen_mass: float
    """The share of μ's next states without data nearby (finite states: never seen as x)."""
    convergence: Floats = field(repr=False)
    """The change of τ in each power step, in L₁(p)."""
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    """What the solver chose from the data."""

    def rows_of_table(self) -> list[tuple[str, str]]:
        """Name and value of each line, as text."""
        last = f"{self.convergence[-1]:.2g} after {len(self.convergence)} steps" if len(self.convergence) else "exact"
        share = self.effective_sample_size / self.rows
        lines = [
            ("solver", self.solver),
            ("E_p[τ]", f"{self.mean_ratio:.4f}"),
            ("effective sample size", f"{self.effective_sample_size:.0f} of {self.rows} ({share:.1%})"),
            (
                "stationarity residual",
                f"{self.stationarity_residual:.2g} (chance: {self.stationarity_noise:.2g})",
            ),
            ("mass on unseen x'", f"{self.unseen_mass:.2%}"),
            ("last change of τ", last),
        ]
        lines += [
            (name, f"{value:.4g}" if isinstance(value, float) else str(value)) for name, value in self.settings.items()
        ]
        return lines + [("note", note) for note in self.notes]

    def __str__(self) -> str:
        lines = self.rows_of_table()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as JSON can hold them."""
        return asdict(self) | {"convergence": self.convergence.tolist(), "notes": list(self.notes)}


@dataclass(frozen=True)
class StationarityTest:
    """Some rows, and bounded functions g to compare E_μ[g(x)] and E_μ[g(x')] with."""

    x: Array
    difference: Floats
    """γg(x') - g(x) + (1-γ)E₀[g] for each row and function."""
    weight: Floats

    @classmethod
    def draw(cls, transitions: Transitions, gamma: float, rng: np.random.Generator) -> StationarityTest:
        """Draw functions of several widths; for finite states, random signs."""
        part = transitions.sample(ROWS, rng)
        g = _signs(transitions, rng) if transitions.finite else _waves(part, rng)
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
        """The root mean square over functions."""
        return float(np.sqrt(np.mean((self._weights(ratio) @ self.difference) ** 2)))

    def noise(self, ratio: Callable[[Array], Floats]) -> float:
        """The residual's size by chance alone."""
        return float(np.sqrt(np.mean(self._weights(ratio) ** 2 @ self.difference**2)))

    def _weights(self, ratio: Callable[[Array], Floats]) -> Floats:
        weights = self.weight * ratio(self.x)
        total = weights.sum()
        return weights / total if total else weights


def far_from_data(transitions: Transitions, weights: Floats, rng: np.random.Generator) -> float:
    """The share of weighted x' farther from all sampled x than 99 % of other x are."""
    n = len(transitions)
    sample = sample_rows(transitions, rng)
    standardise = Standardiser.fit(sample)
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
    sample = sample_rows(transitions, rng)
    standardise = Standardiser.fit(sample).within_range(sample)
    widths = median_bandwidth(sample) * rng.choice([0.25, 0.5, 1.0, 2.0], size=FUNCTIONS)
    frequency = rng.standard_normal((sample.shape[1], FUNCTIONS)) / widths
    phase = rng.uniform(0, 2 * np.pi, FUNCTIONS)
    return lambda x: np.cos(standardise(x) @ frequency + phase)


def _signs(transitions: Transitions, rng: np.random.Generator) -> Callable[[Array], Floats]:
    keys = rng.integers(1, 2**63 - 1, size=FUNCTIONS, dtype=np.uint64) | np.uint64(1)

    def g(states: Array) -> Floats:
        mixed = (states[:, None].astype(np.uint64) + np.uint64(1)) * keys
        mixed ^= mixed >> np.uint64(31)
        return np.where((mixed * keys) >> np.uint64(63), 1.0, -1.0)

    return g
