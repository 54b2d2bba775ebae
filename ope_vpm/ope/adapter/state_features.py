"""Features of states: a constant, the standardised state, and random Fourier features of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.linear.features import FourierFeatures, Standardiser, draw_frequencies
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import Encoder
from ope_vpm.ope.adapter.time_limit import Clock

FARTHEST = 5.0
"""Standard deviations from the mean up to which features tell states apart: a flag that is seldom set would be hundreds
of them away, and its row would decide every regression."""


@dataclass(frozen=True)
class StateFeatures:
    """[1, z, cos ωᵀz, sin ωᵀz] with z the standardised (or one-hot) state and ω ~ N(0, I/d).

    With a clock, the time is one more coordinate of z.
    """

    encoder: Encoder
    """From observations to standardised or one-hot coordinates."""
    fourier: FourierFeatures
    """Of these coordinates."""
    clock: Clock | None = None

    @classmethod
    def draw(cls, data: LoggedDataset, number: int, seed: int, clock: Clock | None = None) -> StateFeatures:
        """Draw `number` Fourier features; the bandwidth is √d, the usual distance of two standardised states."""
        encoder = Encoder.fit(data, None if not data.discrete_actions else 1, absorbs=False)
        size = encoder.observation_scale.mean.size if encoder.shape is None else prod(encoder.shape)
        size += clock is not None
        frequencies = draw_frequencies(size, number, float(np.sqrt(size)), np.random.default_rng(seed))
        return cls(encoder, FourierFeatures(Standardiser.unit(size).within(FARTHEST), frequencies, linear=True), clock)

    @property
    def size(self) -> int:
        """The number of features."""
        return self.fourier.size

    @property
    def linear(self) -> int:
        """The number of coordinates z, which are features themselves, after the constant."""
        return len(self.fourier.frequencies)

    def coordinates(self, observations: Array, time: Integers | None = None) -> Floats:
        """The coordinates z of each state, shape (n, d), without limits; `time` is for the clock, if there is one."""
        states = self.encoder.states(observations)
        z = states if self.encoder.shape is None else np.eye(prod(self.encoder.shape))[states]
        if self.clock is None:
            return z
        if time is None:
            raise ValueError("these features have a clock: they need the time of each state")
        return np.column_stack([z, self.clock(time)])

    def limited_coordinates(self, observations: Array, time: Integers | None = None) -> Floats:
        """The same, no coordinate farther than `FARTHEST` from the mean."""
        return self.fourier.standardise(self.coordinates(observations, time))

    def __call__(self, observations: Array, time: Integers | None = None) -> Floats:
        """The features of each state, shape (n, size)."""
        return self.fourier(self.coordinates(observations, time))
