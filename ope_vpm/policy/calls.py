"""Functions of observations as users write them: for a whole batch or for one observation, with arrays or tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.distributions import Distribution

from ope_vpm.arrays import Array

PROBED = 2
"""Observations for which a function is called to see what it returns: with one, some functions drop the row's axis."""
Read = Callable[[Any, int], Array]
"""From what a function returned, and the number of observations it was asked about, to one entry per row."""


@dataclass(frozen=True)
class Call:
    """A function of observations, asked about all of them at once or about one at a time."""

    function: Callable[[Any], Any]
    batched: bool

    def __call__(self, read: Callable[..., Array], observations: Array, *columns: Array) -> Array:
        """What `read(returned, rows, *columns)` makes of the function's answers, one entry per row."""
        if self.batched:
            return read(self.function(observations), len(observations), *columns)
        rows = [(row, [column[i : i + 1] for column in columns]) for i, row in enumerate(observations)]
        return np.concatenate([read(as_row(self.function(row)), 1, *parts) for row, parts in rows])

    def reading(self, read: Read) -> Callable[[Array], Array]:
        """The function of observations whose answers are read."""
        return lambda observations: self(read, observations)

    def probe(self, observations: Array) -> tuple[Any, int]:
        """What the function returns for the first observations, and for how many."""
        if self.batched:
            first = observations[:PROBED]
            return self.function(first), len(first)
        return as_row(self.function(observations[0])), 1


def as_array(values: Any) -> Array:
    """A tensor, or whatever numpy takes, as an array."""
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def as_row(returned: Any) -> Any:
    """What was returned for one observation, as a batch of one; distributions are read row by row as they are."""
    return returned if isinstance(returned, Distribution) else as_array(returned)[None]
