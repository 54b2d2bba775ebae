"""What a solver hands back: a ratio, and how it was found.

Ridge and bandwidth are chosen from the data alone: by the paper's own objective, on rows that were held out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.batches import TransitionBatches
from ope_vpm.chain.monitor import Callback, Monitor
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import Features
from ope_vpm.linear.held_out import PowerStep
from ope_vpm.linear.moments import accumulate, accumulate_initial
from ope_vpm.linear.nonnegative import FeatureRows, nonnegative_steps
from ope_vpm.linear.system import COARSE_RIDGES, FixedPoint, gram_penalty, smallest_as_good

ROWS = 10_000
"""At most: the choice is between orders of magnitude, and these take a second."""
FOLDS = 4
"""Each candidate is fitted on three quarters of the rows."""
BLOCKS = 200
"""Neighbouring rows share a fold, so that folds of a path are apart; many blocks, so that sorted rows do no harm."""
REFERENCE_RIDGE = 1e-3
"""The middle of the range of ridges: the reference only has to be some ratio between the data and the answer."""
REFERENCE_STEPS = 50
"""Power steps of the reference ratio, which need not have converged."""
REFERENCE_TOLERANCE = 1e-4
"""A change of τ, in L₁(p), after which further steps do not change the reference."""


@dataclass(frozen=True)
class Selection:
    """The chosen feature map and ridge."""

    place: int
    """The index of the feature map among the candidates."""
    ridge: float
    objective: float
    """The held-out objective of both."""


def select(
    transitions: Transitions, maps: Sequence[Features], ridge: float | None, gamma: float, rng: np.random.Generator
) -> Selection:
    """Choose the feature map and the ridge with the least held-out objective.

    Args:
        transitions: all rows; at most 10 000 are looked at.
        maps: the candidates; the first one makes the reference ratio.
        ridge: a fixed ridge, or None to choose one.
        gamma: the discount.
        rng: draws the rows.
    """
    part = transitions.sample(ROWS, rng)
    fold = np.arange(len(part)) * min(BLOCKS, len(part)) // len(part) % FOLDS
    ridges = COARSE_RIDGES if ridge is None else (ridge,)
    reference: Floats | None = None
    scores = []
    for features in maps:
        batches = TransitionBatches(part, features)
        rows, initial = FeatureRows.of(batches), accumulate_initial(batches).initial_mean()
        if reference is None:
            reference = _reference(rows, gamma, initial)
        start = features(part.x_initial[:ROWS]) if gamma < 1 and part.x_initial is not None else None
        step = PowerStep(rows, reference, gamma, initial, start, part.initial_weights[:ROWS])
        scores.append(step.held_out_objectives(fold, ridges))
    table = np.array(scores)
    means = table.mean(axis=1)
    best = int(np.argmin(means.min(axis=1)))
    at = smallest_as_good(table[best])
    return Selection(best, float(ridges[at]), float(means[best, at]))


def _reference(rows: FeatureRows, gamma: float, initial: Floats) -> Floats:
    """The ratio τ_t after some power steps."""
    gram = accumulate(rows).means().gram
    equation = FixedPoint(gamma, initial, gram_penalty(gram, REFERENCE_RIDGE))
    monitor = Monitor("reference", REFERENCE_STEPS)
    beta = monitor.follow(nonnegative_steps(rows, equation, gram), np.eye(len(gram))[0], REFERENCE_TOLERANCE)
    if monitor.interrupted:
        raise KeyboardInterrupt
    return rows.ratio(beta).astype(np.float64)


ValueFunction = Callable[[Array], Floats]


class Ratio(Protocol):
    """A fitted τ, as a function of states."""

    kind: str

    def __call__(self, x: Array) -> Floats:
        """τ at some states, not negative."""

    def value_function(self, transitions: Transitions, values: Floats, gamma: float) -> ValueFunction:
        """The h with h = values - E_μ[values] + 𝒯h (γ = 1) or h = values + γ𝒯h, in the solver's own class.

        It says how the estimate of E_μ[values] moves with each transition: see `estimate.expectation`.
        """

    def arrays(self) -> dict[str, Any]:
        """The arrays to save."""

    def settings(self) -> dict[str, Any]:
        """What else to save, as JSON can hold it."""


@dataclass(frozen=True)
class Solution:
    """A ratio, and how it was found."""

    ratio: Ratio
    mean_ratio: float
    """E_p[τ] before it was scaled to 1."""
    convergence: Floats = field(default_factory=lambda: np.zeros(0))
    """How much each power step changed τ, in L₁(p)."""
    unseen_mass: float | None = None
    """The share of μ that steps to states without data, where the solver knows it."""
    unseen_initial: float = 0.0
    """The share of the initial states that could not be used as they are, for want of data on them."""
    notes: list[str] = field(default_factory=list)
    """What the user should know, in sentences."""
    warnings: list[str] = field(default_factory=list)
    """What the user must know because it makes the answer doubtful: said aloud, and kept among the notes."""
    notices: list[str] = field(default_factory=list)
    """What is said aloud and kept among the notes, but is no reason to doubt the answer."""
    settings: dict[str, Any] = field(default_factory=dict)
    """What the solver chose from the data."""


class Solver(Protocol):
    """The settings of one way to find τ."""

    name: str

    def fit(self, transitions: Transitions, gamma: float, seed: int, callback: Callback | None) -> Solution:
        """Find τ."""
