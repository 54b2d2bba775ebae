"""stable-baselines3 replay buffers, as objects; pickled ones only with `trust=True`."""

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.spaces import simple_space
from ope_vpm.optional import library


def matches(source: object) -> bool:
    """Whether this is an off-policy replay buffer."""
    return type(source).__module__.partition(".")[0] == "stable_baselines3" and hasattr(source, "dones")


def read(source: Any, options: Options) -> LoggedDataset:
    """Every environment's rows in the order of time, oldest first.

    Actions are brought back from [-1, 1], in which off-policy algorithms store them, to the space's own
    units; time limits are told from terminations; and where the ring has overwritten its oldest rows, the
    first row of each environment is not taken for an initial state.
    """
    buffer = _unpickled(source, options.trust) if isinstance(source, Path) else source
    rows = np.arange(buffer.buffer_size) if buffer.full else np.arange(buffer.pos)
    if buffer.full:
        rows = np.roll(rows, -buffer.pos)
    if len(rows) == 0:
        raise ValueError("the replay buffer is empty: a dataset needs at least one step")

    def by_environment(array: Array) -> Array:
        return np.concatenate(list(np.moveaxis(array[rows], 1, 0)))

    dones, timeouts = by_environment(buffer.dones), by_environment(buffer.timeouts)
    environment = np.repeat(np.arange(buffer.n_envs), len(rows))
    data = LoggedDataset.from_arrays(
        _apply(by_environment, buffer.observations),
        _actions(by_environment(buffer.actions), buffer.action_space),
        by_environment(buffer.rewards),
        None if buffer.optimize_memory_usage else _apply(by_environment, buffer.next_observations),
        dones * (1 - timeouts),
        dones * timeouts,
        episode=environment,
        observation_space=options.observation_space or simple_space(buffer.observation_space),
        action_space=options.action_space or simple_space(buffer.action_space),
    )
    return data.with_resets((data.starts % len(rows) != 0) | (not buffer.full))


def _unpickled(path: Path, trust: bool) -> Any:
    if not trust:
        raise PermissionError(
            f"{path} is a pickle, and loading a pickle runs whatever code is in it: "
            "pass trust=True if you know where it comes from"
        )
    library("stable_baselines3", "sb3")
    try:
        with path.open("rb") as file:
            buffer = pickle.load(file)
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError) as error:
        raise ValueError(f"{path} cannot be unpickled: {error}") from error
    if not matches(buffer):
        raise ValueError(f"{path} must hold a replay buffer: it holds a {type(buffer).__name__}")
    return buffer


def _apply(function: Callable[[Array], Array], values: Any) -> Any:
    """On an array, or on each of a dictionary of arrays."""
    if isinstance(values, Mapping):
        return {key: function(array) for key, array in values.items()}
    return function(values)


def _actions(stored: Array, space: object) -> Array:
    if isinstance(space, spaces.Box):
        low, high = space.low.reshape(-1), space.high.reshape(-1)
        return low + 0.5 * (stored + 1.0) * (high - low)
    return stored.astype(np.int64)
