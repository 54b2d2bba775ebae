"""Langevin motion between two wells: no closed form in time, a known density in the long run."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ope_vpm.arrays import Floats

REACH = 4.0
CELLS = 20_001


@dataclass(frozen=True)
class DoubleWell:
    """dX = -U'(X)dt + σdW with U(x) = depth·(x² - 1)²: wells at ±1, a barrier of height `depth` between them."""

    depth: float = 1.0
    sigma: float = 1.2

    def density(self, x: Floats) -> Floats:
        """The stationary density ∝ e^{-2U/σ²}, scaled by numerical integration over [-4, 4]."""
        fine = np.linspace(-REACH, REACH, CELLS)
        total = np.trapezoid(self._unscaled(fine), fine)
        scaled: Floats = self._unscaled(x) / total
        return scaled

    def cell_probabilities(self, centres: Floats) -> Floats:
        """The stationary law on equal cells."""
        law = self._unscaled(centres)
        scaled: Floats = law / law.sum()
        return scaled

    def euler_maruyama(self, x: Floats, dt: float, rng: np.random.Generator) -> Floats:
        """X one small step later, by the Euler–Maruyama rule."""
        drift = -4 * self.depth * x * (x**2 - 1)
        return x + drift * dt + self.sigma * sqrt(dt) * rng.standard_normal(np.shape(x))

    def _unscaled(self, x: Floats) -> Floats:
        value: Floats = np.exp(-2 * self.depth * (x**2 - 1) ** 2 / self.sigma**2)
        return value
