"""torch's .pt files: the weights of a perceptron, or, with `trust`, TorchScript and pickled modules.

TorchScript is a program: its operators read and write files, and parts of it run while it is loaded. No examination
of its text can tell what it will do, so it is run only with `trust=True`. Weights alone are read as arrays.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.archives import opened
from ope_vpm.optional import torch
from ope_vpm.policy.function import from_module
from ope_vpm.policy.networks import ACTIVATIONS, Tensors, layers, only_tensors, perceptron, read_tensors
from ope_vpm.policy.target import TargetPolicy

INSTEAD = (
    "pass trust=True if you know where it comes from; without it, save the network's state_dict() and give its "
    "activation=, or export it to ONNX or to our arrays in .npz"
)


def load_torch(path: Path, *, trust: bool, activation: str | None = None, **options: Any) -> TargetPolicy:
    """A policy from a state dictionary of a perceptron, or, with `trust`, from TorchScript or a pickled module."""
    if trust:
        return _trusted(path, activation, **options)
    if not zipfile.is_zipfile(path):
        raise PermissionError(f"{path} is a pickle, and loading it runs whatever code is in it: {INSTEAD}")
    with opened(path) as archive:
        if any("/code/" in name.lower() for name in archive.names):
            raise PermissionError(f"{path} is TorchScript, a program that can read and write any file: {INSTEAD}")
    stored = read_tensors(path)
    if not isinstance(stored, Mapping):
        raise PermissionError(f"{path} is a pickled module, and loading it runs whatever code is in it: {INSTEAD}")
    return _perceptron(path, only_tensors(stored), activation, **options)


def _trusted(path: Path, activation: str | None, **options: Any) -> TargetPolicy:
    """Run what is in the file."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            script = any("/code/" in name for name in archive.namelist())
        if script:
            return _script(path, **options)
    stored = torch.load(path, map_location="cpu", weights_only=False)
    if isinstance(stored, Mapping):
        arrays = {name: np.asarray(value.detach()) for name, value in stored.items()}
        return _perceptron(path, only_tensors(arrays), activation, **options)
    if not isinstance(stored, torch.nn.Module):
        raise TypeError(f"{path} must hold a torch module or a state dictionary: it holds a {type(stored).__name__}")
    return from_module(stored.eval(), **options)


def _script(path: Path, **options: Any) -> TargetPolicy:
    with warnings.catch_warnings():
        # torch deprecates TorchScript in favour of torch.export; the files are still what libraries save.
        for kind in (DeprecationWarning, FutureWarning):  # before torch 2.15, and since
            warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated", category=kind)
        load: Any = torch.jit.load
        module = load(str(path), map_location="cpu")
    return from_module(module.eval(), **options)


def _perceptron(path: Path, arrays: Tensors, activation: str | None, **options: Any) -> TargetPolicy:
    """The network of a `torch.nn.Sequential` of affine layers, by itself or as the one part of a module."""
    prefixes = {re.sub(r"\d+\.(weight|bias)$", "", name) for name in arrays}
    if len(prefixes) != 1:
        raise ValueError(
            f"{path} must hold the weights of one torch.nn.Sequential of affine layers: it holds "
            f"{', '.join(sorted(arrays))[:200]}"
        )
    (prefix,) = prefixes
    found = layers(arrays, prefix)
    if not found:
        raise ValueError(f"{path} must hold affine layers 0.weight, 0.bias, 2.weight, …: it holds none")
    network = perceptron(arrays, prefix, found[0].takes, ACTIVATIONS[_activation(path, activation)], last=False)
    policy = from_module(_Module(network.run), **options)
    policy.observation_size = found[0].takes
    return policy


def _activation(path: Path, given: str | None) -> str:
    known = {name.lower(): name for name in ACTIVATIONS}
    if given is None or given.lower() not in known:
        raise ValueError(
            f"{path} holds weights, which do not say what follows a hidden layer: "
            f"give activation=, one of {', '.join(known)} (got {given!r})"
        )
    return known[given.lower()]


class _Module(torch.nn.Module):
    """A function as a torch module."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._run = run

    def forward(self, batch: torch.Tensor) -> Any:
        return self._run(batch.float())
