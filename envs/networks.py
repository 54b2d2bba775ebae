"""Softmax network policies over discrete actions as plain arrays in an .npz.

The Gaussian ones are in `ope_vpm.policy.arrays`. The file holds `observation_mean`, `observation_std` and
`observation_clip` (the statistics the policy was trained behind) and `weight_0`, `bias_0`, …, the layers of a tanh
network from an observation to one logit per action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from ope_vpm.arrays import Array, Floats
from ope_vpm.outside import write_whole
from ope_vpm.policy import CategoricalPolicy
from ope_vpm.policy.arrays import NetworkPolicy, load_arrays

STATISTICS = ("observation_mean", "observation_std", "observation_clip")


@dataclass(frozen=True)
class LogitLayers:
    """A tanh network from an observation to one logit per action."""

    weights: Sequence[Array]
    """One matrix per layer, (outputs, inputs)."""
    biases: Sequence[Array]
    observation_mean: Array
    observation_std: Array
    observation_clip: Array
    """Standardised observations are clipped to plus and minus this, as in training."""

    def logits(self, observations: Array) -> Floats:
        """The unnormalised log-probability of every action, (n, n_actions)."""
        rows = np.asarray(observations, dtype=np.float64).reshape(len(observations), -1)
        hidden = (rows - self.observation_mean) / self.observation_std
        hidden = np.clip(hidden, -self.observation_clip, self.observation_clip)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ weight.T + bias)
        final: Floats = hidden @ self.weights[-1].T + self.biases[-1]
        return final


class SoftmaxNetwork(CategoricalPolicy):
    """Discrete actions with probabilities softmax(logits / temperature).

    Args:
        layers: the network.
        temperature: above 1 the policy is nearer to uniform than the trained one.
    """

    def __init__(self, layers: LogitLayers, temperature: float = 1.0) -> None:
        self.layers = layers
        super().__init__(
            lambda seen: softmax(layers.logits(seen) / temperature, axis=1),
            n_actions=len(layers.biases[-1]),
            observation_size=len(layers.observation_mean),
        )

    def with_temperature(self, temperature: float) -> SoftmaxNetwork:
        """The same logits at another temperature."""
        return SoftmaxNetwork(self.layers, temperature)


def save_softmax(path: Path, policy: SoftmaxNetwork) -> None:
    """Write a softmax network to an .npz, in single precision."""
    layers = policy.layers
    stored: dict[str, Any] = {name: np.asarray(getattr(layers, name), dtype=np.float32) for name in STATISTICS}
    for i, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        stored[f"weight_{i}"] = np.asarray(weight, dtype=np.float32)
        stored[f"bias_{i}"] = np.asarray(bias, dtype=np.float32)
    write_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **stored))


def load_network(path: Path) -> NetworkPolicy | SoftmaxNetwork:
    """Read a network policy: Gaussian where the file has a `log_std`, softmax where it has none."""
    with np.load(path, allow_pickle=False) as archive:
        stored = {name: archive[name].astype(np.float64) for name in archive.files}
    if "log_std" in stored:
        return load_arrays(path)
    depth = sum(name.startswith("weight_") for name in stored)
    return SoftmaxNetwork(
        LogitLayers(
            [stored[f"weight_{i}"] for i in range(depth)],
            [stored[f"bias_{i}"] for i in range(depth)],
            **{name: stored[name] for name in STATISTICS},
        )
    )
