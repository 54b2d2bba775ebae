"""The Ornstein–Uhlenbeck process dX = θ(μ - X)dt + σdW, whose every law is Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from ope_vpm.arrays import Floats


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """dX = θ(μ - X)dt + σdW; the paper's default is (2, 2, 2)."""

    mu: float = 2.0
    sigma: float = 2.0
    theta: float = 2.0

    @property
    def variance(self) -> float:
        """The variance σ²/2θ of the stationary law N(μ, σ²/2θ)."""
        return self.sigma**2 / (2 * self.theta)

    def stationary(self, n: int, rng: np.random.Generator) -> Floats:
        """Draws from the stationary law."""
        return self.mu + sqrt(self.variance) * rng.standard_normal(n)

    def after(self, x: Floats, time: float, rng: np.random.Generator) -> Floats:
        """X some time later, drawn exactly."""
        decay = exp(-self.theta * time)
        deviation = sqrt(self.variance * (1 - decay**2))
        return self.mu + decay * (x - self.mu) + deviation * rng.standard_normal(np.shape(x))

    def euler_maruyama(self, x: Floats, dt: float, rng: np.random.Generator) -> Floats:
        """X one small step later, by the Euler–Maruyama rule."""
        return x + self.theta * (self.mu - x) * dt + self.sigma * sqrt(dt) * rng.standard_normal(np.shape(x))
