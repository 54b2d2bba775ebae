"""Our own file: an uncompressed .npz with one array a column, which can be memory-mapped."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.archives import Archive, npz_member, opened, read_header
from ope_vpm.arrays import Array
from ope_vpm.logged.columns import flag_column
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import MAP_NAMES, Options, require, spaces_from_json, spaces_to_json
from ope_vpm.logged.formats.table import NAMES

REQUIRED = ("observations", "actions", "rewards")
COLUMNS = (
    *REQUIRED,
    "next_observations",
    "terminated",
    "truncated",
    "next_known",
    "episode",
    "behaviour_log_prob",
)


def write(data: LoggedDataset, path: Path) -> None:
    """Every column, the episodes and the spaces."""
    arrays = {name: getattr(data, name) for name in COLUMNS}
    arrays |= {
        "from_reset": data.from_reset,
        "spaces": spaces_to_json(data.observation_space, data.action_space),
    }
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **{key: array for key, array in arrays.items() if array is not None})


def read(path: Path, options: Options) -> LoggedDataset:
    """Read our file, or any .npz whose arrays have names as columns of a table have, or those of `columns`."""
    with opened(path, options.trust) as archive:
        names = {name.removesuffix(".npy") for name in archive.names}
        found = _found(path, names, options.columns or {})
        require(path, [name for name in REQUIRED if name not in found], names, MAP_NAMES)
        if not found.keys() & {"terminated", "truncated", "episode"}:
            require(path, ("terminated",), names, f"or give an episode column or truncated; {MAP_NAMES}")
        take = _mapped if options.mmap else _loaded
        columns: dict[str, Any] = {ours: take(path, archive, theirs) for ours, theirs in found.items()}
        extras = {name: _loaded(path, archive, name) for name in ("from_reset", "spaces") if name in names}
    notes: dict[str, Any] = spaces_from_json(str(extras["spaces"])) if "spaces" in extras else {}
    for name in ("observation_space", "action_space"):
        notes[name] = getattr(options, name) or notes.get(name)
    data = LoggedDataset.from_arrays(**columns, **notes)
    if "from_reset" not in extras:
        return data
    return data.with_resets(flag_column("from_reset", extras["from_reset"], data.n_episodes))


def _found(path: Path, names: set[str], mapping: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """The array of each of our columns that the file has, by the user's mapping or a usual name."""
    for ours, theirs in mapping.items():
        if ours not in COLUMNS:
            raise ValueError(f"columns maps {ours}, but only {', '.join(COLUMNS)} can be mapped")
        if not isinstance(theirs, str):
            raise TypeError(f"a column of an .npz is one array: columns maps {ours} to {', '.join(theirs)}")
        require(path, [theirs], names, f"columns maps {ours} to it")
    usual = {ours: next((name for name in NAMES[ours] if name in names), None) for ours in COLUMNS}
    return {ours: theirs for ours, theirs in {**usual, **mapping}.items() if isinstance(theirs, str)}


def _loaded(path: Path, archive: Archive, name: str) -> Array:
    return npz_member(path, archive, f"{name}.npy")


def _mapped(path: Path, archive: Archive, name: str) -> Array:
    """One array of the archive, left on disk."""
    info = archive.info(f"{name}.npy")
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{path} is compressed and cannot be memory-mapped: load it without mmap=True")
    with archive.open(info.filename) as member:
        shape, fortran, dtype = read_header(f"{name} in {path}", member, info.file_size)
        inside = member.tell()
    order: Any = "F" if fortran else "C"
    return np.memmap(path, dtype, mode="r", offset=_data_offset(path, info) + inside, shape=shape, order=order)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where a stored member's bytes begin: after its local header, whose last two lengths vary."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = file.read(4)
    return info.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
