"""The network behind the neural solver: an MLP on standardised inputs with a softplus at its end."""

from __future__ import annotations

import math
from itertools import pairwise

from ope_vpm.optional import torch


class RatioNetwork(torch.nn.Module):
    """A network from states x to positive ratios τ(x)."""

    def __init__(self, dimension: int, hidden: tuple[int, ...], start_at_one: bool) -> None:
        super().__init__()
        sizes = [dimension, *hidden]
        layers: list[torch.nn.Module] = []
        for width, next_width in pairwise(sizes):
            layers += [torch.nn.Linear(width, next_width), torch.nn.ReLU(inplace=True)]
        self.body = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(sizes[-1], 1)
        if start_at_one:
            torch.nn.init.zeros_(self.head.weight)
            torch.nn.init.constant_(self.head.bias, math.log(math.e - 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """τ(x), shape (n,)."""
        return torch.nn.functional.softplus(self.head(self.body(x))[:, 0])
