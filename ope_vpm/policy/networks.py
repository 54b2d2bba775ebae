"""Feed-forward networks rebuilt from a state dictionary: what the shapes and names of its arrays say, and no more.

Tensors that torch saved, as arrays: nothing is unpickled, and no size is believed that the file does not hold.
`torch.load(weights_only=True)` would do for honest files. Of version 2.13 it ends the whole process on a key that is a
deeply nested tuple (a file of 1 MB), and unpacks a file of 390 KB to 400 MB.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.archives import Archive, opened
from ope_vpm.arrays import Array
from ope_vpm.optional import torch
from ope_vpm.policy.described import Call, Name, Reference, describe

KINDS: dict[str, Any] = {
    "DoubleStorage": np.float64,
    "FloatStorage": np.float32,
    "HalfStorage": np.float16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}
"""numpy's types by the names that torch gives its storages."""
REBUILD = Name("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Name("torch._utils", "_rebuild_parameter")

SHARED = 8
"""How often the numbers of a file may be used on average: a shared extractor of features stands there three times."""

Tensors = dict[str, Array]


def read_tensors(source: Path | bytes, trust: bool = False) -> Any:
    """A file of `torch.save`: a dictionary by text of arrays, other plain values, or such dictionaries again.

    What is neither a tensor nor such a dictionary is left as the pickle describes it.
    """
    with opened(source, trust) as archive:
        inside = [name for name in archive.names if name.endswith("/data.pkl")]
        if len(inside) != 1:
            raise ValueError(
                f"tensors must be saved by torch.save of version 1.6 or later: it holds {archive.names[:3]}"
            )
        folder = inside[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in archive.names and archive.read(f"{folder}byteorder") != b"little":
            raise ValueError("tensors must be saved on a little-endian machine: convert them there first")
        storages = _Storages(archive, folder)
        top = describe(archive.read(inside[0]))
        if not isinstance(top, dict):
            return _plain(top, storages)
        # Two levels are what libraries write; a deeper walk could be made exponential by shared parts.
        return {key: _second(value, storages) for key, value in top.items()}


def only_tensors(values: object) -> Tensors:
    """A state dictionary: arrays by name, and nothing else."""
    if not isinstance(values, Mapping) or not values:
        raise ValueError("a state dictionary must hold tensors by name: it holds nothing of that kind")
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, np.ndarray):
            raise TypeError(f"a state dictionary must hold tensors by name: {name!r} is a {type(value).__name__}")
    return dict(values)


def as_torch(array: Array) -> torch.Tensor:
    """A tensor with its own copy of the numbers."""
    return torch.from_numpy(np.array(array))


class _Storages:
    """The flat blocks of numbers in an archive, each read once."""

    def __init__(self, archive: Archive, folder: str) -> None:
        self._archive = archive
        self._folder = folder
        self._read: dict[str, Array] = {}
        self._left = SHARED * sum(archive.info(name).file_size for name in archive.names)

    def hand_out(self, size: int) -> None:
        """Count the bytes of a tensor: many on one storage could be copied to far more than the file holds."""
        self._left -= size
        if self._left < 0:
            raise ValueError(f"its tensors take more than {SHARED} times the numbers that it holds")

    def get(self, reference: object) -> Array:
        """The numbers that a pickle refers to by ('storage', its kind, its name, its device, its size)."""
        key = reference.key if isinstance(reference, Reference) else None
        if not isinstance(key, tuple) or len(key) != 5 or not isinstance(key[1], Name) or not isinstance(key[2], str):
            raise ValueError("a tensor must refer to its numbers as torch.save writes it")
        if key[1].module != "torch" or key[1].name not in KINDS:
            raise ValueError(f"tensors of {key[1].name} are not read: save them as float32")
        if key[2] not in self._read:
            content = self._archive.read(f"{self._folder}data/{key[2]}")
            self._read[key[2]] = np.frombuffer(content, dtype=np.uint8)
        kind = np.dtype(KINDS[key[1].name])
        block = self._read[key[2]]
        return block[: len(block) // kind.itemsize * kind.itemsize].view(kind)


def _second(value: Any, storages: _Storages) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner, storages) for key, inner in value.items()}
    return _plain(value, storages)


def _plain(value: Any, storages: _Storages) -> Any:
    """An array where the description is a tensor's, else the description."""
    if isinstance(value, Call) and value.function == PARAMETER and isinstance(value.arguments, tuple):
        value = value.arguments[0] if value.arguments else None
    if isinstance(value, Call) and value.function == REBUILD:
        return _tensor(value.arguments, storages)
    return value


def _tensor(arguments: Any, storages: _Storages) -> Array:
    """The view of a storage that `_rebuild_tensor_v2(storage, offset, size, stride, …)` stands for."""
    if not isinstance(arguments, tuple) or len(arguments) < 4:
        raise ValueError("a tensor must have a storage, an offset, a size and strides")
    storage, (offset, size, stride) = storages.get(arguments[0]), arguments[1:4]
    numbers = (offset, *size, *stride) if isinstance(size, tuple) and isinstance(stride, tuple) else (None,)
    if not all(type(number) is int and number >= 0 for number in numbers) or len(size) != len(stride):
        # What came is not shown: tuples that share their parts can take for ever to print.
        raise ValueError("a tensor's offset, size and strides must be whole numbers, not negative")
    count = math.prod(size)
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if count > len(storage) or (count and last >= len(storage)):
        raise ValueError(f"a tensor of size {size!r:.100} must fit into its storage of {len(storage)} numbers")
    storages.hand_out(count * storage.itemsize)
    if count == 0:
        return np.empty(size, dtype=storage.dtype)
    strides = tuple(step * storage.itemsize for step in stride)
    return np.lib.stride_tricks.as_strided(storage[offset:], size, strides, writeable=False)


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


def linear(arrays: Tensors, name: str, bias: bool = True) -> Network:
    """The affine layer of that name; without `bias` one that has none."""
    missing = [key for key in (f"{name}.weight", f"{name}.bias")[: 1 + bias] if key not in arrays]
    if missing:
        raise ValueError(f"the weights lack {missing[0]}")
    weight = arrays[f"{name}.weight"]
    shift = arrays[f"{name}.bias"] if bias else np.zeros(weight.shape[:1], np.float32)
    if weight.ndim != 2 or shift.shape != weight.shape[:1] or weight.dtype.kind != "f" or shift.dtype.kind != "f":
        raise ValueError(f"{name} must be an affine layer: its weight has shape {weight.shape}, bias {shift.shape}")
    matrix, constant = as_torch(weight).float(), as_torch(shift).float()
    return Network(lambda batch: torch.nn.functional.linear(batch, matrix, constant), weight.shape[1], weight.shape[0])


def layers(arrays: Tensors, prefix: str, bias: bool = True) -> list[Network]:
    """The affine layers of a sequence whose every second entry is an activation: `prefix0`, `prefix2` and so on."""
    numbers = sorted(
        int(found[1]) for key in arrays if (found := re.fullmatch(re.escape(prefix) + r"(\d{1,4})\.weight", key))
    )
    expected = {f"{prefix}{number}.{part}" for number in numbers for part in ("weight", "bias")[: 1 + bias]}
    inside = {key for key in arrays if key.startswith(prefix)}
    if numbers != list(range(0, 2 * len(numbers), 2)) or (prefix and inside != expected):
        raise ValueError(
            f"{prefix or 'the network'} must be affine layers with an activation after each: "
            f"it holds {', '.join(sorted(inside))[:200]}"
        )
    return [linear(arrays, f"{prefix}{number}", bias) for number in numbers]


def perceptron(
    arrays: Tensors, prefix: str, size: int, activation: Callable[[Any], Any], *, last: bool = True, bias: bool = True
) -> Network:
    """A multilayer perceptron on `size` numbers; with `last`, the activation follows the last layer too."""
    found, network = layers(arrays, prefix, bias), identity(size)
    for number, layer in enumerate(found, 1):
        network = network.then(layer)
        if last or number < len(found):
            network = network.activated(activation)
    return network
