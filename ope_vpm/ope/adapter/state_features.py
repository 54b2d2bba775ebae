"""Features of states: a constant, the standardised state, and random Fourier features of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import Encoder
from ope_vpm.ope.adapter.time_limit import Clock

FARTHEST = 5.0
"""Deviations from the mean up to which features tell states apart."""


@dataclass(frozen=True)
class StateFeatures:
    """[1, z, cos ωᵀz, sin ωᵀz] with z the standardised (or one-hot) state and ω ~ N(0, I/d).

    With a clock, the time is one more coordinate of z.
    """

    encoder: Encoder
    frequencies: Floats
    """One column per ω, (d, number/2)."""
    clock: Clock | None = None

    @classmethod
    def draw(cls, data: LoggedDataset, number: int, seed: int, clock: Clock | None = None) -> StateFeatures:
        """Draw the frequencies; the bandwidth is √d, d the number of coordinates."""
        encoder = Encoder.fit(data, None if not data.discrete_actions else 1, absorbs=False)
        size = encoder.observation_scale.mean.size if encoder.shape is None else prod(encoder.shape)
        size += clock is not None
        rng = np.random.default_rng(seed)
        return cls(encoder, rng.standard_normal((size, number // 2)) / np.sqrt(size), clock)

    @property
    def size(self) -> int:
        """How many features there are."""
        return int(1 + self.frequencies.shape[0] + 2 * self.frequencies.shape[1])

    @property
    def linear(self) -> int:
        """How many of them, after the constant, are the state itself."""
        return len(self.frequencies)

    def points(self, observations: Array, time: Integers | None = None) -> Floats:
        """The z of each state: standardised or one-hot; `time` is for the clock, if there is one."""
        states = self.encoder.states(observations)
        z = states if self.encoder.shape is None else np.eye(prod(self.encoder.shape))[states]
        if self.clock is None:
            return z
        if time is None:
            raise ValueError("these features have a clock: they need the time of each state")
        return np.column_stack([z, self.clock(time)])

    def near_points(self, observations: Array, time: Integers | None = None) -> Floats:
        """The same, no coordinate beyond `FARTHEST`: a flag that is seldom set would be hundreds of deviations away."""
        return np.clip(self.points(observations, time), -FARTHEST, FARTHEST)

    def __call__(self, observations: Array, time: Integers | None = None) -> Floats:
        """One row a state, (n, size)."""
        z = self.near_points(observations, time)
        angle = torch.from_numpy(z @ self.frequencies)  # torch takes cosines several times faster than numpy
        return np.hstack([np.ones((len(z), 1)), z, torch.cos(angle).numpy(), torch.sin(angle).numpy()])
