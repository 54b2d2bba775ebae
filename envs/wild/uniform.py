"""Uniformly random actions in a box."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy import TargetPolicy


class UniformPolicy(TargetPolicy):
    """Continuous actions, uniform between two bounds whatever is observed."""

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike) -> None:
        self.low = np.asarray(low, dtype=np.float64)
        self.high = np.asarray(high, dtype=np.float64)
        self.action_dimension = len(self.low)

    def sample(self, observations: Array, rng: np.random.Generator) -> Array:
        """One draw per row."""
        return rng.uniform(self.low, self.high, (len(observations), len(self.low)))

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The same density everywhere between the bounds."""
        return np.full(len(observations), -np.log(self.high - self.low).sum())
