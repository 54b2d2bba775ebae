"""Minari datasets, by id, folder or object.

Read by Minari itself, episode by episode: d3rlpy's reader lays its T + 1 observations against T actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode import Episode, split
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.minari_files import check_folder, largest_space
from ope_vpm.logged.spaces import simple_space
from ope_vpm.optional import library

DATASET_ID = re.compile(r"([\w.-]+/)*[\w.-]+-v\d+")


def matches(source: object) -> bool:
    """Whether this is a Minari dataset object, or text that looks like an id."""
    if isinstance(source, str):
        return DATASET_ID.fullmatch(source) is not None
    return type(source).__module__.partition(".")[0] == "minari" and hasattr(source, "iterate_episodes")


def read(source: Any, options: Options) -> LoggedDataset:
    """Every episode, with the state after its last step."""
    dataset = _open(source, options.trust)
    with _images_as_claimed(dataset, options.trust):
        episodes = [_episode(episode) for episode in dataset.iterate_episodes()]
    return LoggedDataset.from_episodes(
        episodes,
        observation_space=options.observation_space or simple_space(dataset.observation_space),
        action_space=options.action_space or simple_space(dataset.action_space),
    )


def to_minari(data: LoggedDataset, dataset_id: str) -> Any:
    """A new local dataset; every state after a last step must be known, for Minari stores T + 1 of them."""
    if not DATASET_ID.fullmatch(dataset_id):
        raise ValueError(f"a Minari id ends with its version, as in 'cartpole/random-v0': got {dataset_id!r}")
    if not data.next_known.all():
        row = int((~data.next_known).argmax())
        raise ValueError(f"Minari needs the state after every last step: that of row {row} is unknown")
    if data.observation_space is None or data.action_space is None:
        raise ValueError("Minari needs both spaces: give observation_space and action_space to the dataset")
    minari = library("minari", "minari")
    buffers = [_buffer(minari, number, episode) for number, episode in enumerate(split(data))]
    return minari.create_dataset_from_buffers(
        dataset_id, buffers, observation_space=data.observation_space, action_space=data.action_space
    )


def _open(source: Any, trust: bool) -> Any:
    minari = library("minari", "minari")
    if not isinstance(source, str | Path):
        return source
    folder = _folder(source)
    check_folder(folder, trust)
    return minari.MinariDataset(folder)


def _folder(source: str | Path) -> Path:
    """Where the files of a dataset lie, by its id, its folder, or its main file."""
    if isinstance(source, Path):
        outer = source.parent if source.is_file() else source
        return outer / "data" if (outer / "data").is_dir() else outer
    local = library("minari.storage.datasets_root_dir", "minari")
    folder = Path(local.get_dataset_path(source)) / "data"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"there is neither a file nor a local Minari dataset called {source!r} "
            "(minari.download_dataset fetches one)"
        )
    return folder


@contextmanager
def _images_as_claimed(dataset: Any, trust: bool) -> Iterator[None]:
    """Let no stored image unpack to more pixels than the spaces have numbers."""
    if trust:
        yield
        return
    image = library("PIL.Image", "minari")
    before = image.MAX_IMAGE_PIXELS
    image.MAX_IMAGE_PIXELS = largest_space(dataset.observation_space, dataset.action_space)
    try:
        yield
    finally:
        image.MAX_IMAGE_PIXELS = before


def _episode(episode: Any) -> Episode:
    return Episode(
        episode.observations,
        episode.actions,
        episode.rewards,
        terminated=bool(episode.terminations[-1]),
        truncated=bool(episode.truncations[-1]),
    )


def _buffer(minari: Any, number: int, episode: Episode) -> Any:
    steps = len(episode.actions)

    def flags(last: bool) -> Array:
        only_last: Array = (np.arange(steps) == steps - 1) & last
        return only_last

    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=episode.observations,
        actions=episode.actions,
        rewards=list(episode.rewards),
        terminations=list(flags(episode.terminated)),
        truncations=list(flags(episode.truncated)),
    )
