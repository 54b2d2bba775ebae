"""TorchScript .pt files: no pickled Python, but programs that could reach files, which is looked for."""

from __future__ import annotations

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from ope_vpm.policy.function import from_module
from ope_vpm.policy.target import TargetPolicy

REACHES_OUT = re.compile(r"\b(save|load|from_file)\s*\(|\bops\.(?!aten\.|prim\.)\w+")
"""Calls that write or read files, and operators of other libraries."""


def load_torch(path: Path, *, trust: bool, **options: Any) -> TargetPolicy:
    """A policy from TorchScript, or, with `trust`, from a pickled torch module."""
    if not _is_script(path):
        if not trust:
            raise PermissionError(
                f"{path} is a pickled module, and loading it runs whatever code is in it: export it with "
                "torch.jit.script, or pass trust=True if you know where it comes from"
            )
        module = torch.load(path, map_location="cpu", weights_only=False)
        if not isinstance(module, torch.nn.Module):
            raise ValueError(f"{path} must hold a torch module: it holds a {type(module).__name__}")
        return from_module(module.eval(), **options)
    if not trust:
        _refuse_file_access(path)
    with warnings.catch_warnings():
        # torch deprecates TorchScript in favour of torch.export; the files are still what libraries save.
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated", category=DeprecationWarning)
        try:
            load: Any = torch.jit.load
            module = load(str(path), map_location="cpu")
        except RuntimeError as error:
            raise ValueError(f"{path} cannot be read as TorchScript: {str(error).splitlines()[0]}") from error
    return from_module(module.eval(), **options)


def _is_script(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any("/code/" in name for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _refuse_file_access(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        # By entry, not by name: of two entries with one name, torch may run the other.
        for entry in archive.infolist():
            if entry.filename.endswith(".py") and REACHES_OUT.search(archive.read(entry).decode("utf-8", "replace")):
                raise PermissionError(
                    f"{path} contains a program that reaches files or foreign operators: "
                    "pass trust=True if you know where it comes from"
                )
