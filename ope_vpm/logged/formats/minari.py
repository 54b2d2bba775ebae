"""Minari datasets, by id, folder or object.

Read by Minari itself, episode by episode: d3rlpy's reader lays its T + 1 observations against T actions.

A folder is checked before Minari itself may read it: Minari makes the environment that `metadata.json` names where the
file has no spaces, which runs whatever function it names; it believes any number of episodes; and its HDF5 and images
are read without a limit.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode import Episode, split
from ope_vpm.logged.formats import hdf5, parquet
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.spaces import simple_space
from ope_vpm.optional import library
from ope_vpm.outside import check_regular, check_unpacked, parse_json

MAIN = "main_data.hdf5"


def check_folder(folder: Path, trust: bool) -> None:
    """Refuse a folder that runs code, reads other files or claims more than it holds."""
    metadata = folder / "metadata.json"
    check_regular(metadata)
    notes = parse_json(metadata.read_bytes())
    if not isinstance(notes, dict):
        raise TypeError(f"{metadata} must be a table: it is a {type(notes).__name__}")
    # Minari opens the main file, or whatever is in the folders of episodes; a pipe beside these nobody opens.
    for part in [folder / MAIN] if notes.get("data_format") == "hdf5" else folder.glob("*/**/*"):
        if not part.is_dir():
            check_regular(part)
    if trust:
        return
    for name in ("observation_space", "action_space"):
        if not isinstance(notes.get(name), str):
            raise PermissionError(
                f"{metadata} lacks {name}, and Minari then runs what it names as environment: "
                "pass trust=True if you know where it comes from"
            )
    unpack = library("minari.serialization", "minari").deserialize_space
    largest = largest_space(unpack(notes["observation_space"]), unpack(notes["action_space"]))
    held = _check_data(folder, str(notes.get("data_format")), largest)
    claimed = notes.get("total_episodes")
    if type(claimed) is not int or not 1 <= claimed <= held:
        raise ValueError(f"{metadata} claims {claimed!r:.40} episodes: there are {held}")


def largest_space(*given: spaces.Space[Any]) -> int:
    """The most numbers that one part of some spaces has."""
    sizes = [1]
    for space in given:
        if isinstance(space, spaces.Dict):
            sizes.append(largest_space(*space.values()))
        elif isinstance(space, spaces.Tuple):
            sizes.append(largest_space(*space))
        else:
            sizes.append(prod(space.shape or ()))
    return max(sizes)


def _check_data(folder: Path, kind: str, largest: int) -> int:
    """How many episodes the files hold, each of which was looked at; an image has at most `largest` numbers."""
    if kind == "hdf5":
        main = folder / MAIN
        with hdf5.opened(main) as file:
            groups, images = _check_groups(main, file)
        check_unpacked(main, main.stat().st_size, images * largest, trust=False)
        return groups
    if kind != "parquet":
        raise PermissionError(
            f"{folder} holds {kind[:40]!r} files, whose offsets nobody checks: "
            "pass trust=True if you know where it comes from"
        )
    for part in folder.rglob("*.parquet"):
        parquet.check_size(part, trust=False)
    return sum(part.is_dir() for part in folder.iterdir())


def _check_groups(path: Path, file: hdf5.Members) -> tuple[int, int]:
    """Check every data set in a file; how many groups are at its top, and how many rows could be packed images."""
    h5py = library("h5py", "minari")
    groups, images, seen = 0, 0, {h5py.h5o.get_info(file.root.id).addr}
    left = [(file.root, 0)]
    while left:
        group, depth = left.pop()
        for name in group:
            found = file.follow(group, name)
            address = h5py.h5o.get_info(found.id).addr
            if address in seen:
                raise ValueError(f"{name} in {path} is in two places: groups must not share their parts")
            seen.add(address)
            if isinstance(found, h5py.Group):
                groups += depth == 0
                left.append((found, depth + 1))
            elif isinstance(found, h5py.Dataset):
                file.check(name, found)
                packed = found.dtype.kind == "O" or (found.dtype == np.uint8 and found.ndim == 2)
                images += found.shape[0] if packed and found.ndim else 0
    return groups, images


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
    known = (simple_space(space) for space in (dataset.observation_space, dataset.action_space))
    return LoggedDataset.from_episodes(episodes, **options.spaces(*known))


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
    """The folder with the files of a dataset, by its id, its folder, or its main file."""
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
        return (np.arange(steps) == steps - 1) & last

    return minari.data_collector.EpisodeBuffer(
        id=number,
        observations=episode.observations,
        actions=episode.actions,
        rewards=list(episode.rewards),
        terminations=list(flags(episode.terminated)),
        truncations=list(flags(episode.truncated)),
    )
