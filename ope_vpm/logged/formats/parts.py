"""A log while it is being written: a folder of numbered .npz files, each whole, so that a crash loses few rows.

Rows of environments that run side by side stand in the order of time; the column `episode` tells them apart.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.archives import npz_member, opened
from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, require, spaces_to_json
from ope_vpm.outside import write_whole

COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated", "episode")
NAME = re.compile(r"part-\d{6}\.npz")
SUFFIX = ".parts"
"""The ending of the folder's name; the finished log becomes the file of that name without it."""


def folder_of(path: Path) -> Path:
    """The folder of a log's parts while it is being written."""
    return path.with_name(path.name + SUFFIX)


def matches(path: Path) -> bool:
    """Whether a folder holds parts of a log."""
    return path.is_dir() and bool(_files(path))


def write(folder: Path, number: int, columns: dict[str, Array], observation_space: Any, action_space: Any) -> None:
    """Write one part, whole or not at all."""
    note = {"spaces": np.array(spaces_to_json(observation_space, action_space))}

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **columns, **note)

    write_whole(folder / f"part-{number:06d}.npz", save)


def read(path: Path, options: Options) -> LoggedDataset:
    """All parts, episode after episode."""
    parts: list[dict[str, Array]] = []
    for file in _files(path):
        with opened(file, options.trust) as archive:
            names = {name.removesuffix(".npy") for name in archive.names}
            require(file, (*COLUMNS, "spaces"), names)
            parts.append({name: npz_member(file, archive, f"{name}.npy") for name in (*COLUMNS, "spaces")})
    if not parts:
        raise ValueError(f"{path} holds no parts of a log: it must hold files such as part-000000.npz")
    columns: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    order = np.argsort(columns["episode"], kind="stable")
    options = options.with_spaces(str(parts[0]["spaces"]))
    return LoggedDataset.from_arrays(**{name: column[order] for name, column in columns.items()}, **options.spaces())


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if NAME.fullmatch(file.name))
