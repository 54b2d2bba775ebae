"""A limit on how many numbers a library may make tensors of, for building networks by a stranger's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from ope_vpm.with_torch import torch

MAKERS: tuple[Callable[..., Any], ...] = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)
"""The functions that make a tensor of a size that is given."""


LEAST = 1000
"""The least that a tensor counts for: a loop that makes a billion small ones must end too."""


class Budget(torch.overrides.TorchFunctionMode):
    """Within it, torch makes tensors of at most `most` numbers together, and refuses before it takes the memory."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in MAKERS:
            sizes = args[0] if args and isinstance(args[0], Iterable) else args
            self._spend(prod(size for size in sizes if isinstance(size, int)))
        elif func is torch.conv2d:  # an encoder of images tries itself on one: channels × height × width come out
            self._spend(args[1].shape[0] * prod(args[0].shape[-2:]))
        return func(*args, **(kwargs or {}))

    def _spend(self, numbers: int) -> None:
        self._left -= max(numbers, LEAST)
        if self._left < 0:
            raise ValueError("its settings claim networks far larger than the weights that it holds")
