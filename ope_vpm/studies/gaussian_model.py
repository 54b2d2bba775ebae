"""The paper's model-based opponent on points: x' ~ N(m(x), 0.1²) with a network m, applied again and again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions

DEVIATION = 0.1


@dataclass(frozen=True)
class GaussianModel:
    """The settings of the paper's appendix."""

    hidden: tuple[int, ...] = (128, 128, 128, 128)
    steps: int = 1500
    batch_size: int = 1000
    learning_rate: float = 5e-4
    applications: int = 100

    def sample(self, transitions: Transitions, start: Floats, seed: int) -> Floats:
        """Fit the network to the transitions, then move the points of `start` through it."""
        rng = np.random.default_rng(seed)
        network = self._fit(transitions, rng)
        points = torch.from_numpy(start).float()
        with torch.no_grad():
            for _ in range(self.applications):
                noise = torch.from_numpy(rng.standard_normal(points.shape)).float()
                points = network(points) + DEVIATION * noise
        return points.double().numpy()

    def _fit(self, transitions: Transitions, rng: np.random.Generator) -> nn.Sequential:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            network = _network([transitions.dimension, *self.hidden, transitions.dimension])
        x, x_next = (torch.from_numpy(np.array(part)).float() for part in (transitions.x, transitions.x_next))
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate, (0.5, 0.999), fused=True)
        for _ in range(self.steps):
            rows = torch.from_numpy(rng.integers(len(x), size=self.batch_size))
            loss = nn.functional.mse_loss(network(x[rows]), x_next[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return network


def _network(sizes: list[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width, next_width in pairwise(sizes):
        layers += [nn.Linear(width, next_width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
