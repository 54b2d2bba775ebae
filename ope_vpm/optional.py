"""Optional libraries: imported where they are needed, with an error that names the extra.

torch is one of them: whatever does without networks does without it, and `from ope_vpm.optional import torch` costs
nothing by itself.
"""

from __future__ import annotations

import ctypes
import io
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any

from ope_vpm.threads import limit_loaded

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """The module, once it is used."""

        _module: Any = None

        def __getattr__(self, name: str) -> Any:
            if _Torch._module is None:
                _Torch._module = library("torch", "torch")
                limit_loaded()
            return getattr(_Torch._module, name)

    torch = _Torch()

ANNOUNCES = {"d3rlpy": "gym", "stable_baselines3": "gym", "icu_sepsis": "gym", "pybullet_envs_gymnasium": "pybullet"}
"""Libraries that import another one which prints on import: gym that it is unmaintained, PyBullet when it was built.
Nobody who evaluates a policy can do anything about either."""


def library(name: str, extra: str) -> Any:
    """Import an optional library, or say which extra brings it."""
    announcer = ANNOUNCES.get(name.partition(".")[0])
    if announcer is not None and announcer not in sys.modules:
        _import_quietly(announcer)
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {name}: pip install 'ope-vpm[{extra}]'") from error


def is_from(candidate: object, package: str) -> bool:
    """Whether an object's class, or one it inherits from, belongs to a package; nothing is imported."""
    return any(cls.__module__.partition(".")[0] == package for cls in type(candidate).__mro__)


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """The versions of Python, and of those of some libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in libraries:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@contextmanager
def quiet(*descriptors: int) -> Iterator[None]:
    """Silence file descriptors (1: the standard output, 2: the standard error) for C code, which prints to them."""
    _flush()
    kept = {descriptor: os.dup(descriptor) for descriptor in descriptors}
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in descriptors:
            os.dup2(nothing, descriptor)
        yield
    finally:
        if sys.platform != "win32":
            ctypes.CDLL(None).fflush(None)
        _flush()
        for descriptor, before in kept.items():
            os.dup2(before, descriptor)
            os.close(before)
        os.close(nothing)


def _import_quietly(name: str) -> None:
    """Import a module without its greeting, which Python prints elsewhere than to a descriptor in notebooks."""
    nowhere = io.StringIO()
    with quiet(1, 2), redirect_stdout(nowhere), redirect_stderr(nowhere), suppress(ImportError):
        import_module(name)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


_GENERATOR = RLock()


@contextmanager
def own_generator(seed: int | None = None) -> Iterator[None]:
    """Torch's global generator for this thread alone, put back as it was afterwards; seeded where a seed is given."""
    with _GENERATOR, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        yield


def has_torch() -> bool:
    """Whether torch is installed; it is not imported."""
    with suppress(ImportError, ValueError):
        return "torch" in sys.modules or find_spec("torch") is not None
    return False


def is_tensor(candidate: object) -> bool:
    """Whether an object is a tensor: there is none where torch has not been imported."""
    return _is(candidate, "torch", "Tensor")


def is_distribution(candidate: object) -> bool:
    """Whether an object is one of `torch.distributions`."""
    return _is(candidate, "torch.distributions", "Distribution")


def is_network(candidate: object) -> bool:
    """Whether an object is a torch module."""
    return _is(candidate, "torch.nn", "Module")


def _is(candidate: object, module: str, kind: str) -> bool:
    found = getattr(sys.modules.get(module), kind, None)
    return found is not None and isinstance(candidate, found)
