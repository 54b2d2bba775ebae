"""Gaussian network policies as plain arrays in an .npz: small, safe to read, no library needed to run.

The file holds `observation_mean`, `observation_std` and `observation_clip` (the statistics the policy was
trained behind), `weight_0`, `bias_0`, …, the layers of a tanh network from an observation to the mean
action, `log_std`, and the action bounds `low` and `high`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.archives import read_npz
from ope_vpm.arrays import Array, Floats
from ope_vpm.outside import write_whole
from ope_vpm.policy.continuous import GaussianPolicy

PLAIN = ("observation_mean", "observation_std", "observation_clip", "log_std", "low", "high")


@dataclass(frozen=True)
class Layers:
    """What an .npz policy holds."""

    weights: Sequence[Array]
    biases: Sequence[Array]
    observation_mean: Array
    observation_std: Array
    observation_clip: Array
    log_std: Array
    low: Array
    high: Array

    def mean(self, observations: Array) -> Floats:
        """The mean action, before it is clipped to the bounds."""
        rows = np.asarray(observations, dtype=np.float64).reshape(len(observations), -1)
        hidden = (rows - self.observation_mean) / self.observation_std
        hidden = np.clip(hidden, -self.observation_clip, self.observation_clip)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ weight.T + bias)
        final: Floats = hidden @ self.weights[-1].T + self.biases[-1]
        return final


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
            lambda seen: (layers.mean(seen), std),
            bounds=(layers.low, layers.high),
            action_dimension=len(layers.low),
            observation_size=len(layers.observation_mean),
        )

    def with_variance(self, factor: float) -> NetworkPolicy:
        """The same mean with `factor` times the variance of the stored policy."""
        return NetworkPolicy(self.layers, factor)


def save_arrays(path: str | Path, policy: NetworkPolicy) -> None:
    """Write a network policy to an .npz."""
    layers = policy.layers
    stored: dict[str, Any] = {name: np.asarray(getattr(layers, name), dtype=np.float32) for name in PLAIN}
    for i, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        stored[f"weight_{i}"] = np.asarray(weight, dtype=np.float32)
        stored[f"bias_{i}"] = np.asarray(bias, dtype=np.float32)
    write_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **stored))


def load_arrays(path: Path, trust: bool = False) -> NetworkPolicy:
    """Read a network policy from an .npz, checked layer by layer."""
    stored: dict[str, Any] = read_npz(path, trust)
    depth = sum(name.startswith("weight_") for name in stored)
    names = [*PLAIN, *(f"{kind}_{i}" for kind in ("weight", "bias") for i in range(depth))]
    missing = [name for name in names if name not in stored]
    if missing or depth == 0:
        raise ValueError(f"{path} is not a network policy: {', '.join(missing) or 'weight_0'} is missing")
    for name in names:
        if stored[name].dtype.kind != "f" or not np.isfinite(stored[name]).all():
            raise ValueError(f"{name} in {path} must hold finite numbers")
    weights = [stored[f"weight_{i}"].astype(np.float64) for i in range(depth)]
    biases = [stored[f"bias_{i}"].astype(np.float64) for i in range(depth)]
    _check_shapes(path, weights, biases, stored)
    plain = {field.name: stored[field.name].astype(np.float64) for field in fields(Layers) if field.name in PLAIN}
    return NetworkPolicy(Layers(weights, biases, **plain))


def _check_shapes(path: Path, weights: list[Array], biases: list[Array], stored: dict[str, Any]) -> None:
    for name in ("observation_mean", *(f"bias_{i}" for i in range(len(biases)))):
        if stored[name].ndim != 1 or len(stored[name]) == 0:
            raise ValueError(f"{name} in {path} must be a list of numbers: got shape {stored[name].shape}")
    sizes = [len(stored["observation_mean"]), *(len(bias) for bias in biases)]
    for i, weight in enumerate(weights):
        if weight.shape != (sizes[i + 1], sizes[i]):
            raise ValueError(f"weight_{i} in {path} must have shape {(sizes[i + 1], sizes[i])}: got {weight.shape}")
    for name in ("log_std", "low", "high"):
        if stored[name].shape != (sizes[-1],):
            raise ValueError(f"{name} in {path} must have shape {(sizes[-1],)}: got {stored[name].shape}")
    if (stored["low"] >= stored["high"]).any():
        raise ValueError(f"low must be below high in {path}: got {stored['low']} and {stored['high']}")
    if stored["observation_std"].shape != (sizes[0],) or (stored["observation_std"] <= 0).any():
        raise ValueError(f"observation_std in {path} must be {sizes[0]} positive numbers")
    if stored["observation_clip"].shape != () or stored["observation_clip"] <= 0:
        raise ValueError(f"observation_clip in {path} must be one positive number")
