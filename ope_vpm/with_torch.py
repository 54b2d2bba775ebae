"""torch, which is an extra: imported when one of its names is first used, with an error that names the extra.

Whatever does without networks does without torch; `from ope_vpm.with_torch import torch` costs nothing by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from threading import RLock
from typing import TYPE_CHECKING, Any

from ope_vpm.optional import library
from ope_vpm.threads import limit_loaded

__all__ = ["has_torch", "is_distribution", "is_network", "is_tensor", "own_generator", "torch"]

if TYPE_CHECKING:
    import torch
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
