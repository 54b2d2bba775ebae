"""Network policies as plain arrays in an .npz: small, safe to read, no library needed to run.

The file holds `observation_mean`, `observation_std` and `observation_clip` (the statistics the policy was trained
behind) and `weight_0`, `bias_0`, …, the layers of a tanh network. For continuous actions the network gives the mean
action, and `log_std` and the bounds `low` and `high` are there too; for discrete ones it gives one logit per action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from ope_vpm.archives import read_npz
from ope_vpm.arrays import Array, Floats
from ope_vpm.outside import write_whole
from ope_vpm.policy.continuous import GaussianPolicy
from ope_vpm.policy.discrete import CategoricalPolicy

STATISTICS = ("observation_mean", "observation_std", "observation_clip")
GAUSSIAN = ("log_std", "low", "high")
"""The arrays of a policy with continuous actions beside its network."""


@dataclass(frozen=True)
class LogitLayers:
    """A tanh network behind the statistics of its observations: the whole of a softmax policy."""

    weights: Sequence[Array]
    """One matrix per layer, (outputs, inputs)."""
    biases: Sequence[Array]
    observation_mean: Array
    observation_std: Array
    observation_clip: Array
    """Standardised observations are clipped to plus and minus this, as in training."""

    def output(self, observations: Array) -> Floats:
        """The values of the last layer, one row per observation."""
        rows = np.asarray(observations, dtype=np.float64).reshape(len(observations), -1)
        hidden = (rows - self.observation_mean) / self.observation_std
        hidden = np.clip(hidden, -self.observation_clip, self.observation_clip)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ weight.T + bias)
        return hidden @ self.weights[-1].T + self.biases[-1]


@dataclass(frozen=True)
class Layers(LogitLayers):
    """The network of a Gaussian policy, with its deviation and the bounds of its actions."""

    log_std: Array
    low: Array
    high: Array


class NetworkPolicy(GaussianPolicy):
    """A Gaussian around a tanh network's mean.

    Args:
        layers: the network and its bounds.
        variance: what the variance is multiplied by; 1 + α gives the paper's behaviour policies.
    """

    def __init__(self, layers: Layers, variance: float = 1.0) -> None:
        self.layers = layers
        std = np.exp(np.asarray(layers.log_std, dtype=np.float64)) * np.sqrt(variance)
        super().__init__(
            lambda seen: (layers.output(seen), std),
            bounds=(layers.low, layers.high),
            action_dimension=len(layers.low),
            observation_size=len(layers.observation_mean),
        )

    def more_random(self, factor: float) -> NetworkPolicy:
        """A policy with this mean and `factor` times the variance of the stored policy."""
        return NetworkPolicy(self.layers, factor)


class SoftmaxNetwork(CategoricalPolicy):
    """Discrete actions with probabilities softmax(logits / temperature).

    Args:
        layers: the network.
        temperature: above 1 the policy is nearer to uniform than the trained one.
    """

    def __init__(self, layers: LogitLayers, temperature: float = 1.0) -> None:
        self.layers = layers
        super().__init__(
            lambda seen: softmax(layers.output(seen) / temperature, axis=1),
            n_actions=len(layers.biases[-1]),
            observation_size=len(layers.observation_mean),
        )

    def more_random(self, factor: float) -> SoftmaxNetwork:
        """This policy at `factor` times the temperature of the stored one."""
        return SoftmaxNetwork(self.layers, factor)


ArrayPolicy = NetworkPolicy | SoftmaxNetwork


def save_arrays(path: str | Path, policy: ArrayPolicy) -> None:
    """Write a network policy to an .npz."""
    layers = policy.layers
    plain = [name for name in (*STATISTICS, *GAUSSIAN) if hasattr(layers, name)]
    stored: dict[str, Any] = {name: np.asarray(getattr(layers, name), dtype=np.float32) for name in plain}
    for i, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        stored[f"weight_{i}"] = np.asarray(weight, dtype=np.float32)
        stored[f"bias_{i}"] = np.asarray(bias, dtype=np.float32)
    write_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **stored))


def load_arrays(path: Path, trust: bool = False) -> ArrayPolicy:
    """Read a network policy from an .npz, checked layer by layer.

    A file that has neither a deviation nor bounds holds a softmax policy over discrete actions.
    """
    stored: dict[str, Any] = read_npz(path, trust)
    plain = (*STATISTICS, *GAUSSIAN) if any(name in stored for name in GAUSSIAN) else STATISTICS
    depth = sum(name.startswith("weight_") for name in stored)
    names = [*plain, *(f"{kind}_{i}" for kind in ("weight", "bias") for i in range(depth))]
    missing = [name for name in names if name not in stored]
    if missing or depth == 0:
        raise ValueError(f"{path} is not a network policy: {', '.join(missing) or 'weight_0'} is missing")
    for name in names:
        if stored[name].dtype.kind != "f" or not np.isfinite(stored[name]).all():
            raise ValueError(f"{name} in {path} must hold finite numbers")
    weights = [stored[f"weight_{i}"].astype(np.float64) for i in range(depth)]
    biases = [stored[f"bias_{i}"].astype(np.float64) for i in range(depth)]
    _check_shapes(path, weights, biases, stored)
    numbers = {name: stored[name].astype(np.float64) for name in plain}
    if plain == STATISTICS:
        return SoftmaxNetwork(LogitLayers(weights, biases, **numbers))
    return NetworkPolicy(Layers(weights, biases, **numbers))


def _check_shapes(path: Path, weights: list[Array], biases: list[Array], stored: dict[str, Any]) -> None:
    for name in ("observation_mean", *(f"bias_{i}" for i in range(len(biases)))):
        if stored[name].ndim != 1 or len(stored[name]) == 0:
            raise ValueError(f"{name} in {path} must be a list of numbers: got shape {stored[name].shape}")
    sizes = [len(stored["observation_mean"]), *(len(bias) for bias in biases)]
    for i, weight in enumerate(weights):
        if weight.shape != (sizes[i + 1], sizes[i]):
            raise ValueError(f"weight_{i} in {path} must have shape {(sizes[i + 1], sizes[i])}: got {weight.shape}")
    if stored["observation_std"].shape != (sizes[0],) or (stored["observation_std"] <= 0).any():
        raise ValueError(f"observation_std in {path} must be {sizes[0]} positive numbers")
    if stored["observation_clip"].shape != () or stored["observation_clip"] <= 0:
        raise ValueError(f"observation_clip in {path} must be one positive number")
    if "log_std" in stored:
        _check_gaussian(path, sizes[-1], stored)


def _check_gaussian(path: Path, actions: int, stored: dict[str, Any]) -> None:
    for name in GAUSSIAN:
        if stored[name].shape != (actions,):
            raise ValueError(f"{name} in {path} must have shape {(actions,)}: got {stored[name].shape}")
    if (stored["low"] >= stored["high"]).any():
        raise ValueError(f"low must be below high in {path}: got {stored['low']} and {stored['high']}")
