"""What a solver hands back: a ratio, and how it was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.monitor import Callback
from ope_vpm.chain.transitions import Transitions

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
