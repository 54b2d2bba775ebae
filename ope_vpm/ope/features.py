"""Features of states: a constant, the standardised state, and random Fourier features of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.chain.features import FourierFeatures
from ope_vpm.logged.columns import Floats
from ope_vpm.ope.encoding import Encoder
from ope_vpm.ope.problem import Problem

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class StateFeatures:
    """[1, z, √2 cos ωᵀz, √2 sin ωᵀz] with z the standardised (or one-hot) state and ω ~ N(0, I/d)."""

    encoder: Encoder
    waves: FourierFeatures

    @classmethod
    def draw(cls, problem: Problem, number: int) -> StateFeatures:
        """Draw the frequencies; the bandwidth is √d, d the number of coordinates."""
        encoder = Encoder.fit(problem.data, None if not problem.data.discrete_actions else 1, absorbs=False)
        size = encoder.observation_scale.mean.size if encoder.shape is None else prod(encoder.shape)
        rng = np.random.default_rng(problem.seed)
        frequencies = rng.standard_normal((size, number // 2)) / np.sqrt(size)
        return cls(encoder, FourierFeatures(np.zeros(size), np.ones(size), frequencies))

    @property
    def size(self) -> int:
        """How many features there are."""
        return int(1 + self.waves.frequencies.shape[0] + 2 * self.waves.frequencies.shape[1])

    @property
    def linear(self) -> int:
        """How many of them, after the constant, are the state itself."""
        return len(self.waves.frequencies)

    def points(self, observations: Array) -> Floats:
        """The z of each state: standardised or one-hot."""
        states = self.encoder.states(observations)
        return states if self.encoder.shape is None else np.eye(prod(self.encoder.shape))[states]

    def __call__(self, observations: Array) -> Floats:
        """One row a state, (n, size)."""
        z = self.points(observations)
        waves = self.waves(z)
        return np.hstack([waves[:, :1], z, waves[:, 1:]])
