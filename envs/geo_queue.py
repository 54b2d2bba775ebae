"""The discrete-time Geo/Geo/1 queue, whose stationary distribution is geometric."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions


@dataclass(frozen=True)
class GeoQueue:
    """The queue's length when, in each step, a customer arrives and a service finishes with given probabilities."""

    arrival: float = 0.8
    """q_a, the probability that a customer arrives in a step; the paper's default."""
    finish: float = 0.9
    """q_f, the probability that the customer in service leaves in a step; the paper's default."""

    def __post_init__(self) -> None:
        if not 0 < self.arrival < self.finish < 1:
            raise ValueError(f"0 < arrival < finish < 1 must hold: got {self.arrival} and {self.finish}")

    @property
    def up(self) -> float:
        """The probability q_a(1 - q_f) that the queue grows in a step.

        It is the same at length 0: a customer who arrives at an empty queue can be served within the step. With any
        other value there the closed form would not hold.
        """
        return self.arrival * (1 - self.finish)

    @property
    def down(self) -> float:
        """The probability q_f(1 - q_a) that a queue that is not empty shrinks in a step."""
        return self.finish * (1 - self.arrival)

    @property
    def intensity(self) -> float:
        """ρ = up/down, the traffic intensity."""
        return self.up / self.down

    @property
    def bound(self) -> int:
        """B = ⌈40ρ⌉: the paper's range of lengths is [0, B)."""
        return ceil(40 * self.intensity)

    def stationary_distribution(self, bound: int | None = None) -> Floats:
        """Return P(X = i) = (1-ρ)ρ^i for i < bound (default B), scaled to sum to 1."""
        powers = self.intensity ** np.arange(self.bound if bound is None else bound)
        return powers / powers.sum()

    def step(self, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw the lengths one step later."""
        uniform = rng.uniform(size=lengths.shape)
        grows, shrinks = uniform < self.up, (uniform > 1 - self.down) & (lengths > 0)
        return lengths + grows - shrinks

    def kernel(self, bound: int | None = None) -> Floats:
        """Return the transition matrix 𝒯(x'|x) on [0, bound) (default B); the longest queue does not grow."""
        size = self.bound if bound is None else bound
        kernel = np.diag(np.full(size - 1, self.up), 1) + np.diag(np.full(size - 1, self.down), -1)
        return kernel + np.diag(1 - kernel.sum(axis=1))

    def transitions(self, n: int, seed: int) -> Transitions:
        """Draw n transitions: lengths uniform on [0, B), each with the length one step later."""
        rng = np.random.default_rng(seed)
        x = rng.integers(self.bound, size=n)
        return Transitions(x, self.step(x, rng))
