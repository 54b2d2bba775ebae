"""The network behind the neural solver: an MLP on standardised inputs with a softplus at its end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.linalg import solve
from torch import Tensor, nn

from ope_vpm.chain.features import Standardiser
from ope_vpm.chain.solution import ValueFunction
from ope_vpm.chain.transitions import Array, Floats, Transitions, chunks

CHUNK_ROWS = 1 << 14


class RatioNetwork(nn.Module):
    """x → τ(x) > 0."""

    def __init__(self, dimension: int, hidden: tuple[int, ...], start_at_one: bool) -> None:
        super().__init__()
        sizes = [dimension, *hidden]
        layers: list[nn.Module] = []
        for width, next_width in pairwise(sizes):
            layers += [nn.Linear(width, next_width), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(sizes[-1], 1)
        if start_at_one:
            nn.init.zeros_(self.head.weight)
            nn.init.constant_(self.head.bias, math.log(math.e - 1))

    def forward(self, x: Tensor) -> Tensor:
        """τ(x), shape (n,)."""
        return nn.functional.softplus(self.head(self.body(x))[:, 0])


@dataclass(frozen=True)
class NeuralRatio:
    """τ(x) as a trained network."""

    kind = "neural"

    network: RatioNetwork
    standardise: Standardiser
    factor: float
    """What makes E_p[τ] = 1."""

    def inputs(self, x: Array) -> Tensor:
        """Standardised, on the network's device."""
        head = self.network.head.weight
        return torch.as_tensor(self.standardise(x), dtype=head.dtype, device=head.device)

    @torch.no_grad()
    def __call__(self, x: Array) -> Floats:
        """τ(x), in chunks."""
        parts = [self.network(self.inputs(x[rows])).double().cpu() for rows in chunks(len(x), CHUNK_ROWS)]
        return torch.cat(parts).numpy() * self.factor

    def value_function(self, transitions: Transitions, values: Floats, gamma: float) -> ValueFunction:
        """H in the span of the last hidden layer, by least-squares temporal differences under μ."""
        width = self.network.head.in_features + 1
        matrix, source = np.zeros((width, width)), np.zeros(width)
        weight = transitions.row_weights * self(transitions.x)
        centred = values - (weight @ values) / weight.sum() if gamma == 1 else values
        for rows in chunks(len(transitions), CHUNK_ROWS):
            here, there = self.hidden(transitions.x[rows]), self._hidden_next(transitions, rows)
            weighted = here * weight[rows, None]
            matrix += weighted.T @ (here - gamma * there)
            source += weighted.T @ centred[rows]
        matrix += np.diag(1e-4 * np.abs(np.diag(matrix)) + 1e-6 * np.trace(matrix) / width)
        theta = solve(matrix, source)
        return lambda x: np.concatenate([self.hidden(x[rows]) @ theta for rows in chunks(len(x), CHUNK_ROWS)])

    @torch.no_grad()
    def hidden(self, x: Array) -> Floats:
        """A constant, and the last hidden layer."""
        last = self.network.body(self.inputs(x)).double().cpu().numpy()
        return np.hstack([np.ones((len(x), 1)), last])

    def _hidden_next(self, transitions: Transitions, rows: slice) -> Floats:
        successors = transitions.successors[rows]
        if transitions.next_weight is None:
            return self.hidden(successors[:, 0])
        share = transitions.next_weight[rows]
        parts = [share[:, k : k + 1] * self.hidden(successors[:, k]) for k in range(share.shape[1])]
        mean: Floats = np.sum(parts, axis=0)
        return mean

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        parameters = {f"network.{name}": value.cpu().numpy() for name, value in self.network.state_dict().items()}
        return {**self.standardise.arrays(), "factor": np.asarray(self.factor), **parameters}

    def settings(self) -> dict[str, Any]:
        """Everything that is not an array, for saving."""
        hidden = [layer.out_features for layer in self.network.body if isinstance(layer, nn.Linear)]
        return {"hidden": hidden, "dtype": str(self.network.head.weight.dtype).removeprefix("torch.")}
