"""The paper's model-based opponent for continuous states: x' ~ N(m(x), 0.1²) with a network m, applied repeatedly."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions
from ope_vpm.with_torch import torch

DEVIATION = 0.1
"""The fixed standard deviation of the paper's transition model."""


@dataclass(frozen=True)
class GaussianModel:
    """A Gaussian transition model, with the settings of the paper's appendix."""

    hidden: tuple[int, ...] = (128, 128, 128, 128)
    """The sizes of the hidden layers."""
    steps: int = 1500
    """Training steps: as many as VPM's network has, 150 power steps of 10."""
    batch_size: int = 1000
    """Rows per training step."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    applications: int = 100
    """How often the model is applied to reach its stationary distribution."""

    def sample(self, transitions: Transitions, start: Floats, seed: int) -> Floats:
        """Fit the network to the transitions, then move every state of `start` by 100 steps of the model."""
        rng = np.random.default_rng(seed)
        network = self._fit(transitions, rng)
        states = torch.from_numpy(start).float()
        with torch.no_grad():
            for _ in range(self.applications):
                noise = torch.from_numpy(rng.standard_normal(states.shape)).float()
                states = network(states) + DEVIATION * noise
        return states.double().numpy()

    def _fit(self, transitions: Transitions, rng: np.random.Generator) -> torch.nn.Sequential:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            network = _network([transitions.dimension, *self.hidden, transitions.dimension])
        x, x_next = (torch.from_numpy(np.array(part)).float() for part in (transitions.x, transitions.x_next))
        # β₁ = 0.5 in all experiments of the paper; β₂ is Adam's default
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate, (0.5, 0.999), fused=True)
        for _ in range(self.steps):
            rows = torch.from_numpy(rng.integers(len(x), size=self.batch_size))
            loss = torch.nn.functional.mse_loss(network(x[rows]), x_next[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return network


def _network(sizes: list[int]) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for width, next_width in pairwise(sizes):
        layers += [torch.nn.Linear(width, next_width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])
