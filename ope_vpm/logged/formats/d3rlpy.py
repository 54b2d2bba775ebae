"""d3rlpy: `ReplayBuffer` and `MDPDataset` objects, and their HDF5 files of versions 2.1 and 1.

Transitions are rebuilt from whole episodes: d3rlpy's own put a vector of zeros after a terminated episode.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import Space
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode import Episode, split
from ope_vpm.logged.formats.files import Options, require
from ope_vpm.optional import library

FIELDS = ("observations", "actions", "rewards", "terminated")


def matches(source: object) -> bool:
    """Whether this is one of d3rlpy's buffers."""
    return type(source).__module__.partition(".")[0] == "d3rlpy" and hasattr(source, "episodes")


def read(source: Any, options: Options) -> LoggedDataset:
    """Read a buffer's episodes, or an HDF5 file of either version."""
    if isinstance(source, Path):
        return _read_file(source, options)
    info = source.dataset_info
    discrete = info.action_space.name == "DISCRETE"
    episodes = [_episode(episode, discrete) for episode in source.episodes]
    known = spaces.Discrete(int(info.action_size)) if discrete else None
    return LoggedDataset.from_episodes(
        episodes,
        observation_space=options.observation_space,
        action_space=options.action_space or known,
    )


def to_d3rlpy(data: LoggedDataset) -> Any:
    """The same episodes in a d3rlpy `ReplayBuffer` without a size limit."""
    dataset = library("d3rlpy.dataset", "d3rlpy")
    constants = library("d3rlpy.constants", "d3rlpy")
    if data.discrete_actions:
        kind, size = constants.ActionSpace.DISCRETE, data.n_actions
    else:
        kind, size = constants.ActionSpace.CONTINUOUS, data.actions.shape[1]
    episodes = [
        dataset.Episode(
            _matrix(episode.observations[: len(episode.actions)]),
            _matrix(episode.actions),
            _matrix(episode.rewards),
            episode.terminated,
        )
        for episode in split(data)
    ]
    return dataset.ReplayBuffer(dataset.InfiniteBuffer(), episodes=episodes, action_space=kind, action_size=size)


def write(data: LoggedDataset, path: Path) -> None:
    """An HDF5 file as d3rlpy's `ReplayBuffer.dump` makes it; states after last steps are lost there."""
    with path.open("w+b") as file, redirect_stdout(sys.stderr):  # d3rlpy reports what it does
        to_d3rlpy(data).dump(file)


def _episode(episode: Any, discrete: bool) -> Episode:
    observations = episode.observations
    return Episode(
        tuple(observations) if isinstance(observations, list | tuple) else observations,
        episode.actions.astype(np.int64) if discrete else episode.actions,
        episode.rewards,
        terminated=bool(episode.terminated),
        truncated=not episode.terminated,
    )


def _read_file(path: Path, options: Options) -> LoggedDataset:
    with library("h5py", "d3rlpy").File(path, "r") as file:
        if "num_episodes" not in file:
            from ope_vpm.logged.formats.d4rl import read

            return read(path, options)
        require(path, ("version", "columns"), file)
        version = file["version"].asstr()[()]
        if version != "2.1":
            raise ValueError(f"{path} is of d3rlpy's format {version}: only 2.1 and 1 are known")
        require(path, FIELDS, list(file["columns"].asstr()[()]))
        return _columns(path, file, options.observation_space, options.action_space)


def _columns(path: Path, file: Any, observation_space: Space | None, action_space: Space | None) -> LoggedDataset:
    """All episodes at once: reading a million rows costs little more than h5py itself."""
    numbers = range(int(file["num_episodes"][()]))
    require(path, [f"{name}_{number}" for number in numbers for name in FIELDS[1:]], _Names(file))
    actions = [file[f"actions_{number}"][()] for number in numbers]
    lengths = np.array([len(part) for part in actions])
    ended = np.zeros(int(lengths.sum()), dtype=np.bool_)
    cut = ended.copy()
    last = np.cumsum(lengths) - 1
    ended[last] = [bool(file[f"terminated_{number}"][()]) for number in numbers]
    cut[last] = ~ended[last]
    return LoggedDataset.from_arrays(
        _observations(path, file, numbers, lengths),
        np.concatenate(actions),
        np.concatenate([file[f"rewards_{number}"][()] for number in numbers]),
        terminated=ended,
        truncated=cut,
        observation_space=observation_space,
        action_space=action_space,
    )


def _observations(path: Path, file: Any, numbers: range, lengths: Array) -> Any:
    """One column, or a tuple of columns where the file holds tuple observations."""
    if "observations_0" in file:
        return _joined(path, [file[f"observations_{number}"][()] for number in numbers], lengths)
    width = 0
    while f"observations_0_{width}" in file:
        width += 1
    require(path, ["observations_0"] if width == 0 else [], file)
    return tuple(
        _joined(path, [file[f"observations_{number}_{part}"][()] for number in numbers], lengths)
        for part in range(width)
    )


def _joined(path: Path, parts: list[Array], lengths: Array) -> Array:
    for number, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if len(part) != length:
            raise ValueError(f"episode {number} of {path} is ragged: {len(part)} observations against {length} actions")
    return np.concatenate(parts)


def _matrix(column: Array) -> Array:
    return column.reshape(len(column), -1)


class _Names:
    """The members of an HDF5 file: asking is fast, listing (only for an error) keeps to the first few."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __contains__(self, name: object) -> bool:
        return name in self.file

    def __iter__(self) -> Any:
        return iter(list(self.file)[:12])

    def __len__(self) -> int:
        return len(self.file)
