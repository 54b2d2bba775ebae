"""Diffusions with known stationary densities: the Ornstein–Uhlenbeck process, and Langevin dynamics in two wells."""

from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from ope_vpm.arrays import Floats


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """The process dX = θ(μ - X)dt + σdW, with the paper's default parameters (2, 2, 2)."""

    mu: float = 2.0
    """μ, the mean that the process returns to."""
    sigma: float = 2.0
    """σ, the size of the noise."""
    theta: float = 2.0
    """θ, the strength of the pull towards μ."""

    @property
    def variance(self) -> float:
        """The variance σ²/2θ of the stationary distribution N(μ, σ²/2θ)."""
        return self.sigma**2 / (2 * self.theta)

    def stationary(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n independent values from the stationary distribution."""
        return self.mu + sqrt(self.variance) * rng.standard_normal(n)

    def after(self, x: Floats, time: float, rng: np.random.Generator) -> Floats:
        """Draw X a given time later from the exact transition distribution."""
        decay = exp(-self.theta * time)
        deviation = sqrt(self.variance * (1 - decay**2))
        return self.mu + decay * (x - self.mu) + deviation * rng.standard_normal(np.shape(x))

    def euler_maruyama(self, x: Floats, dt: float, rng: np.random.Generator) -> Floats:
        """Draw X a time dt later by one Euler–Maruyama step."""
        return x + self.theta * (self.mu - x) * dt + self.sigma * sqrt(dt) * rng.standard_normal(np.shape(x))


REACH = 4.0
"""The density is integrated over [-REACH, REACH]: at its end it is e^{-2·15²/σ²}, below 1e-100 at the default σ."""
CELLS = 20_001
"""Grid values of that integral; a round number plus one, far more than a density this smooth needs."""


@dataclass(frozen=True)
class DoubleWell:
    """The diffusion dX = -U'(X)dt + σdW with U(x) = depth·(x² - 1)²: wells at ±1, a barrier of height `depth`."""

    depth: float = 1.0
    """The height of the barrier."""
    sigma: float = 1.2
    """σ, the size of the noise. With it the density at the top of the barrier is a quarter of that in the wells."""

    def density(self, x: Floats) -> Floats:
        """Return the stationary density ∝ e^{-2U/σ²}, normalised by numerical integration over [-4, 4]."""
        fine = np.linspace(-REACH, REACH, CELLS)
        total = np.trapezoid(self._unscaled(fine), fine)
        return self._unscaled(x) / total

    def cell_probabilities(self, centres: Floats) -> Floats:
        """Return the stationary probability of each of some equally wide cells, by the density at their centres."""
        density = self._unscaled(centres)
        return density / density.sum()

    def euler_maruyama(self, x: Floats, dt: float, rng: np.random.Generator) -> Floats:
        """Draw X a time dt later by one Euler–Maruyama step."""
        drift = -4 * self.depth * x * (x**2 - 1)
        return x + drift * dt + self.sigma * sqrt(dt) * rng.standard_normal(np.shape(x))

    def _unscaled(self, x: Floats) -> Floats:
        return np.exp(-2 * self.depth * (x**2 - 1) ** 2 / self.sigma**2)
