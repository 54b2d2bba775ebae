"""Uniformly random actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy import CategoricalPolicy, TargetPolicy


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
        """The log-density, which is equal everywhere between the bounds."""
        return np.full(len(observations), -np.log(self.high - self.low).sum())


def uniform_over(space: spaces.Space[Any]) -> TargetPolicy:
    """The policy that draws uniformly from a space of discrete actions or a box."""
    if isinstance(space, spaces.Discrete):
        actions = int(space.n)
        return CategoricalPolicy(lambda seen: np.full((len(seen), actions), 1 / actions), actions)
    if isinstance(space, spaces.Box):
        return UniformPolicy(space.low.reshape(-1), space.high.reshape(-1))
    raise TypeError(f"actions must be a Box or Discrete: got {space}")
