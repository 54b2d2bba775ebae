"""Feed-forward networks rebuilt from a state dictionary: what the shapes and names of its arrays say, and no more."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ope_vpm.policy.tensors import Tensors, as_torch
from ope_vpm.with_torch import torch

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    name: getattr(torch.nn, name)()
    for name in ("ReLU", "Tanh", "ELU", "SELU", "LeakyReLU", "GELU", "SiLU", "Sigmoid", "Softplus", "Mish", "Identity")
}
"""By the names of torch's classes, each with torch's defaults."""


@dataclass(frozen=True)
class Network:
    """A function of a batch of vectors, and how long the vectors are that it takes and gives."""

    run: Callable[[Any], Any]
    takes: int
    gives: int

    def then(self, following: Network) -> Network:
        """This network followed by another."""
        if self.gives != following.takes:
            raise ValueError(f"layers must fit each other: {self.gives} numbers come out, {following.takes} go in")
        return Network(lambda batch: following.run(self.run(batch)), self.takes, following.gives)

    def activated(self, activation: Callable[[Any], Any]) -> Network:
        """This network followed by an activation function."""
        return Network(lambda batch: activation(self.run(batch)), self.takes, self.gives)


def identity(size: int) -> Network:
    """The network without layers: everything after the first axis is laid flat."""
    return Network(lambda batch: batch.flatten(1), size, size)


def linear(arrays: Tensors, name: str) -> Network:
    """The affine layer of that name."""
    missing = [key for key in (f"{name}.weight", f"{name}.bias") if key not in arrays]
    if missing:
        raise ValueError(f"the weights lack {missing[0]}")
    weight, bias = arrays[f"{name}.weight"], arrays[f"{name}.bias"]
    if weight.ndim != 2 or bias.shape != weight.shape[:1] or weight.dtype.kind != "f" or bias.dtype.kind != "f":
        raise ValueError(f"{name} must be an affine layer: its weight has shape {weight.shape}, bias {bias.shape}")
    matrix, shift = as_torch(weight).float(), as_torch(bias).float()
    return Network(lambda batch: torch.nn.functional.linear(batch, matrix, shift), weight.shape[1], weight.shape[0])


def layers(arrays: Tensors, prefix: str) -> list[Network]:
    """The affine layers of a sequence whose every second entry is an activation: `prefix0`, `prefix2` and so on."""
    numbers = sorted(
        int(found[1]) for key in arrays if (found := re.fullmatch(re.escape(prefix) + r"(\d{1,4})\.weight", key))
    )
    expected = {f"{prefix}{number}.{part}" for number in numbers for part in ("weight", "bias")}
    inside = {key for key in arrays if key.startswith(prefix)}
    if numbers != list(range(0, 2 * len(numbers), 2)) or (prefix and inside != expected):
        raise ValueError(
            f"{prefix or 'the network'} must be affine layers with an activation after each: "
            f"it holds {', '.join(sorted(inside))[:200]}"
        )
    return [linear(arrays, f"{prefix}{number}") for number in numbers]


def perceptron(
    arrays: Tensors, prefix: str, size: int, activation: Callable[[Any], Any], *, last: bool = True
) -> Network:
    """A multilayer perceptron on `size` numbers; with `last`, the activation follows the last layer too."""
    found, network = layers(arrays, prefix), identity(size)
    for number, layer in enumerate(found, 1):
        network = network.then(layer)
        if last or number < len(found):
            network = network.activated(activation)
    return network
