"""d3rlpy: `ReplayBuffer` and `MDPDataset` objects, and their HDF5 files of versions 2.1 and 1.

Transitions are rebuilt from whole episodes: d3rlpy's own put a vector of zeros after a terminated episode.
"""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import are_whole
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode import Episode, split
from ope_vpm.logged.formats.files import Options, require
from ope_vpm.logged.formats.hdf5 import Members, opened
from ope_vpm.optional import library

VERSION = "2.1"
"""The version of the format of `ReplayBuffer.dump`."""
FIELDS = ("observations", "actions", "rewards", "terminated")


def matches(source: object) -> bool:
    """Whether this is one of d3rlpy's buffers."""
    return type(source).__module__.partition(".")[0] == "d3rlpy" and hasattr(source, "episodes")


def read(source: Any, options: Options) -> LoggedDataset:
    """Read a buffer's episodes, or an HDF5 file of either version."""
    if isinstance(source, Path):
        return _read_file(source, options)
    info = source.dataset_info
    # d3rlpy judges by the first episode alone: continuous actions that are whole numbers there stay continuous.
    discrete = info.action_space.name == "DISCRETE" and all(are_whole(episode.actions) for episode in source.episodes)
    episodes = [_episode(episode, discrete) for episode in source.episodes]
    known = spaces.Discrete(int(info.action_size)) if discrete else None
    return LoggedDataset.from_episodes(episodes, **options.spaces(None, known))


def to_d3rlpy(data: LoggedDataset) -> Any:
    """The episodes as a d3rlpy `ReplayBuffer` without a size limit."""
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
    """An HDF5 file as d3rlpy's `ReplayBuffer.dump` makes it, with checksums; states after last steps are lost there.

    Arrays have HDF5's own checksum (fletcher32); single numbers are kept in headers, which have one since HDF5 1.10.
    """
    h5py = library("h5py", "d3rlpy")
    inside = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    inside.set_layout(h5py.h5d.COMPACT)
    with redirect_stdout(sys.stderr):  # d3rlpy reports what it does
        episodes = to_d3rlpy(data).episodes
    # Made in memory: where the disk is full, HDF5 ends the interpreter when it closes a file that it writes itself.
    with h5py.File(path.name, "w", driver="core", backing_store=False, libver="v110") as file:
        file.create_dataset("columns", data=list(FIELDS))
        file.create_dataset("version", data=VERSION)
        file.create_dataset("num_episodes", data=len(episodes), dcpl=inside)
        for number, episode in enumerate(episodes):
            for name in FIELDS:
                value = np.asarray(getattr(episode, name))
                packing = {"fletcher32": True} if value.ndim else {"dcpl": inside}
                file.create_dataset(f"{name}_{number}", data=value, **packing)
        file.flush()
        path.write_bytes(file.id.get_file_image())


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
    with opened(path, options.trust) as file:
        if "num_episodes" in file:
            return _columns(path, file, options)
    from ope_vpm.logged.formats.d4rl import read

    return read(path, options)


def _columns(path: Path, file: Members, options: Options) -> LoggedDataset:
    """All episodes at once: reading a million rows costs little more than h5py itself."""
    require(path, ("version", "columns"), file)
    version = file.texts("version")
    if version != [VERSION]:
        raise ValueError(f"{path} is of d3rlpy's format {', '.join(version)[:40]}: only {VERSION} and 1 are known")
    require(path, FIELDS, file.texts("columns"))
    numbers = range(_episodes(path, file))
    actions = [file.numbers(f"actions_{number}") for number in numbers]
    lengths = np.array([len(_rows(part)) for part in actions])
    ended = np.zeros(int(lengths.sum()), dtype=np.bool_)
    cut = ended.copy()
    last = np.cumsum(lengths) - 1
    ended[last] = [file.flag(f"terminated_{number}") for number in numbers]
    cut[last] = ~ended[last]
    rewards = [file.numbers(f"rewards_{number}") for number in numbers]
    joined = np.concatenate(actions)
    if options.action_space is None and joined.size == len(joined) and joined.min() >= 0 and are_whole(joined):
        joined = joined.astype(np.int64)  # as d3rlpy reads them, which stores discrete actions as floats, too
    return LoggedDataset.from_arrays(
        _observations(path, file, numbers, lengths),
        joined,
        _joined(path, "rewards", rewards, lengths),
        terminated=ended,
        truncated=cut,
        **options.spaces(),
    )


def _episodes(path: Path, file: Members) -> int:
    """How many episodes there are: as many as the file claims, if it holds each of them."""
    claimed = file.whole_number("num_episodes")
    if claimed < 1:
        raise ValueError(f"{path} must hold at least one episode: it claims {claimed}")
    # The first missing name ends this, so that a claim of a billion costs nothing.
    for name in (f"{field}_{number}" for number in range(claimed) for field in FIELDS[1:]):
        require(path, [name], file)
    return claimed


def _observations(path: Path, file: Members, numbers: range, lengths: Array) -> Any:
    """One column, or a tuple of columns where the file holds tuple observations."""

    def column(suffix: str) -> Array:
        parts = [file.numbers(f"observations_{number}{suffix}") for number in numbers]
        return _joined(path, "observations", parts, lengths)

    if "observations_0" in file:
        return column("")
    width = 0
    while f"observations_0_{width}" in file:
        width += 1
    require(path, ["observations_0"] if width == 0 else [], file)
    return tuple(column(f"_{part}") for part in range(width))


def _joined(path: Path, name: str, parts: list[Array], lengths: Array) -> Array:
    for number, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        if len(_rows(part)) != length:
            raise ValueError(f"episode {number} of {path} is ragged: {len(part)} {name} against {length} actions")
    return np.concatenate(parts)


def _rows(part: Array) -> Array:
    if part.ndim == 0 or len(part) == 0:
        raise ValueError(f"an episode must have at least one step: got shape {part.shape}")
    return part


def _matrix(column: Array) -> Array:
    return column.reshape(len(column), -1)
