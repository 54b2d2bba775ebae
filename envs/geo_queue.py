"""The discrete-time Geo/Geo/1 queue, whose stationary law is geometric."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions


@dataclass(frozen=True)
class GeoQueue:
    """In a step a customer arrives with probability `arrival`, and one in service leaves with `finish`."""

    arrival: float = 0.8
    finish: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.arrival < self.finish < 1:
            raise ValueError(f"0 < arrival < finish < 1 must hold: got {self.arrival} and {self.finish}")

    @property
    def up(self) -> float:
        """The probability that the queue grows, at every length: in at 0 and out again in one step is no change."""
        return self.arrival * (1 - self.finish)

    @property
    def down(self) -> float:
        """The probability that a queue that is not empty shrinks."""
        return self.finish * (1 - self.arrival)

    @property
    def intensity(self) -> float:
        """ρ = up/down, the traffic intensity."""
        return self.up / self.down

    @property
    def bound(self) -> int:
        """B = ⌈40ρ⌉: the paper's range of lengths is [0, B)."""
        return ceil(40 * self.intensity)

    def law(self, bound: int | None = None) -> Floats:
        """P(X = i) = (1-ρ)ρ^i, cut at `bound` (default B) and scaled to sum to 1."""
        powers = self.intensity ** np.arange(self.bound if bound is None else bound)
        law: Floats = powers / powers.sum()
        return law

    def step(self, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The lengths one step later."""
        chance = rng.uniform(size=lengths.shape)
        grows, shrinks = chance < self.up, (chance > 1 - self.down) & (lengths > 0)
        return lengths + grows - shrinks

    def kernel(self, bound: int | None = None) -> Floats:
        """𝒯(x'|x) on [0, bound) (default B), rows summing to 1; the longest queue does not grow."""
        size = self.bound if bound is None else bound
        kernel = np.diag(np.full(size - 1, self.up), 1) + np.diag(np.full(size - 1, self.down), -1)
        return kernel + np.diag(1 - kernel.sum(axis=1))

    def transitions(self, n: int, seed: int) -> Transitions:
        """Lengths drawn uniformly from [0, B), each with the length one step later."""
        rng = np.random.default_rng(seed)
        x = rng.integers(self.bound, size=n)
        return Transitions(x, self.step(x, rng))
