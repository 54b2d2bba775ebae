"""Optional libraries: imported where they are needed, with an error that names the extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def library(name: str, extra: str) -> Any:
    """Import an optional library, or say which extra brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install 'ope-vpm[{extra}]'") from error


def is_from(candidate: object, package: str) -> bool:
    """Whether an object's class, or one it inherits from, belongs to a package; nothing is imported."""
    return any(cls.__module__.partition(".")[0] == package for cls in type(candidate).__mro__)
