"""Functions of observations as users write them: for a whole batch or for one observation, with arrays or tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.outside import one_line
from ope_vpm.with_torch import is_distribution, is_tensor, torch

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
        """The function's answers, read by `read(returned, rows, *columns)`, one entry per row."""
        if self.batched:
            return read(_of_rows(self.function(observations), len(observations)), len(observations), *columns)
        rows = [(row, [column[i : i + 1] for column in columns]) for i, row in enumerate(observations)]
        return np.concatenate([read(as_row(self.function(row)), 1, *parts) for row, parts in rows])

    def reading(self, read: Read) -> Callable[[Array], Array]:
        """The function of observations whose answers are read."""
        return lambda observations: self(read, observations)

    def probe(self, observations: Array) -> tuple[Any, int]:
        """The function's answer for the first observations, and their number."""
        if self.batched:
            first = np.array(observations[:PROBED])  # a copy, which the function may edit
            return _of_rows(self.function(first), len(first)), len(first)
        return as_row(self.function(np.array(observations[0]))), 1


def _of_rows(returned: Any, rows: int) -> Any:
    """Refuse distributions for other rows; the shape of arrays is checked by readers."""
    if is_distribution(returned) and rows != 1:
        shape = (*returned.batch_shape, *returned.event_shape)
        if shape[:1] != (rows,):
            raise ValueError(f"a distribution must have one row for each of the {rows} observations: got shape {shape}")
    return returned


@contextmanager
def running(observations: Array) -> Iterator[None]:
    """Without gradients, and with one sentence where a network of a library cannot take the observations."""
    try:
        with torch.no_grad():
            yield
    except (RuntimeError, IndexError, AssertionError, torch.jit.Error) as error:  # what libraries raise on other shapes
        reason = one_line(error)
        if "TorchScript" in reason:  # the cause comes last, after the program's own traceback
            reason = str(error).strip().splitlines()[-1]
        shape = np.shape(observations)
        raise ValueError(f"the network cannot be run on observations of shape {shape}: {reason}") from error


def as_array(values: Any) -> Array:
    """A tensor, or whatever numpy takes, as an array."""
    return values.detach().cpu().numpy() if is_tensor(values) else np.asarray(values)


def as_row(returned: Any) -> Any:
    """The answer for one observation as a batch of one; distributions are read row by row as they are."""
    return returned if is_distribution(returned) else as_array(returned)[None]
