"""Observations of environments: arrays, or dictionaries and tuples of them, one at a time or side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def copied(observation: Any) -> Any:
    """An observation of one's own: some environments write the next one to the same memory."""
    if isinstance(observation, dict):
        return {name: copied(part) for name, part in observation.items()}
    return tuple(copied(part) for part in observation) if isinstance(observation, tuple) else np.array(observation)


def row(values: Any, place: int) -> Any:
    """A copy of the part that belongs to one of several environments."""
    if isinstance(values, dict):
        return {name: row(part, place) for name, part in values.items()}
    return tuple(row(part, place) for part in values) if isinstance(values, tuple) else np.array(values[place])


def batched(observations: Sequence[Any]) -> Any:
    """Observations one below the other; of dictionaries and tuples, each part."""
    first = observations[0]
    if isinstance(first, dict):
        return {name: batched([each[name] for each in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(batched(part) for part in zip(*observations, strict=True))
    return np.stack(observations)
