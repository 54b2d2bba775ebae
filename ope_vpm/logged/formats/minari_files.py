"""Checks of a folder before Minari itself may read it.

Minari makes the environment that `metadata.json` names where the file has no spaces, which runs whatever function it
names; it believes any number of episodes; and its HDF5 and images are read without a limit.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.logged.formats import hdf5, parquet
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
