"""The Ornstein–Uhlenbeck process dX = θ(μ - X)dt + σdW, whose transition and stationary distributions are Gaussian."""

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
