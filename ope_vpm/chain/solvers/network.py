"""The ratio τ as a trained network, and its last hidden layer as features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh, solve

from ope_vpm.arrays import Array, Floats, chunks
from ope_vpm.chain.batches import TransitionBatches
from ope_vpm.chain.solvers.solution import ValueFunction
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import Standardiser
from ope_vpm.linear.moments import accumulate
from ope_vpm.optional import torch

if TYPE_CHECKING:
    from ope_vpm.chain.solvers.ratio_network import RatioNetwork

CHUNK_ROWS = 1 << 14
"""Rows that the network is asked about at once: its layers are narrow, so that many fit in memory."""
SHARE_RIDGE, LEAST_RIDGE = 1e-4, 1e-6
"""The ridge of the value function, as shares of each diagonal entry and of their mean. Units of a layer are often
repeated or dead: the one makes the first solvable, the other the second."""
SMALLEST = 1e-5
"""The least variance, against the largest, of a hidden direction that is solved for."""


@dataclass(frozen=True)
class NeuralRatio:
    """τ(x) as a trained network."""

    kind = "neural"

    network: RatioNetwork
    standardise: Standardiser
    factor: float
    """What makes E_p[τ] = 1."""

    def inputs(self, x: Array) -> torch.Tensor:
        """Standardised states as a tensor on the network's device."""
        head = self.network.head.weight
        return torch.as_tensor(self.standardise(x), dtype=head.dtype, device=head.device)

    def __call__(self, x: Array) -> Floats:
        """The ratio τ(x) of each state, computed some rows at a time."""
        with torch.no_grad():
            parts = [self.network(self.inputs(x[rows])).double().cpu() for rows in chunks(len(x), CHUNK_ROWS)]
        return torch.cat(parts).numpy() * self.factor

    def value_function(self, transitions: Transitions, values: Floats, gamma: float) -> ValueFunction:
        """The h of `Ratio.value_function` in the span of the last hidden layer.

        It is found by least-squares temporal differences under μ. At γ = 1 the values are centred and the constant is
        left to the ridge: h is known up to a constant.
        """
        weight = transitions.row_weights * self(transitions.x)
        centred = values - (weight @ values) / weight.sum() if gamma == 1 else values
        means = accumulate(TransitionBatches(transitions, self.hidden, weight, centred)).means()
        matrix = means.flow(gamma, restart=False)
        ridge = SHARE_RIDGE * np.abs(np.diag(matrix)) + LEAST_RIDGE * np.trace(matrix) / len(matrix)
        theta = solve(matrix + np.diag(ridge), means.reward)
        return lambda x: np.concatenate([self.hidden(x[rows]) @ theta for rows in chunks(len(x), CHUNK_ROWS)])

    def hidden(self, x: Array) -> Floats:
        """A constant, and the last hidden layer."""
        with torch.no_grad():
            last = self.network.body(self.inputs(x)).double().cpu().numpy()
        return np.hstack([np.ones((len(x), 1)), last])

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        parameters = {f"network.{name}": value.cpu().numpy() for name, value in self.network.state_dict().items()}
        return {**self.standardise.arrays(), "factor": np.asarray(self.factor), **parameters}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> NeuralRatio:
        """Rebuild a ratio from what `arrays` returned; the layers' sizes are those of their weights."""
        from ope_vpm.chain.solvers.ratio_network import RatioNetwork  # which needs torch

        standardise = Standardiser.from_arrays(arrays)
        stored = {
            name.removeprefix("network."): torch.from_numpy(value)
            for name, value in arrays.items()
            if name.startswith("network.")
        }
        hidden = tuple(len(value) for name, value in stored.items() if name.startswith("body.") and value.ndim == 1)
        network = RatioNetwork(len(standardise.mean), hidden, start_at_one=False).to(stored["head.weight"].dtype)
        network.load_state_dict(stored)
        return cls(network, standardise, float(arrays["factor"]))

    def settings(self) -> dict[str, Any]:
        """Nothing but arrays is to be saved."""
        return {}


@dataclass(frozen=True)
class HiddenFeatures:
    """[1, a trained network's last hidden layer, its directions uncorrelated and of unit size]."""

    kind = "hidden"

    trained: NeuralRatio
    mean: Floats
    whitening: Floats
    """Shape (width of the layer, directions in which it varies)."""

    @classmethod
    def of(cls, trained: NeuralRatio, sample: Floats) -> HiddenFeatures:
        """Directions that hardly vary over `sample` are left out: solved for, they would carry noise."""
        hidden = trained.hidden(sample)[:, 1:]
        value, vector = eigh(np.cov(hidden.T))
        kept = value > SMALLEST * max(value[-1], 1e-300)
        return cls(trained, hidden.mean(axis=0), vector[:, kept] / np.sqrt(value[kept]))

    def __call__(self, x: Array) -> Floats:
        """Shape (n, 1 + directions)."""
        hidden = self.trained.hidden(x)[:, 1:]
        return np.hstack([np.ones((len(x), 1)), (hidden - self.mean) @ self.whitening])

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        return {**self.trained.arrays(), "mean": self.mean, "whitening": self.whitening}
