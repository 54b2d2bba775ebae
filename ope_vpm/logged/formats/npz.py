"""Our own file: an uncompressed .npz with one array a column, which can be memory-mapped."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.archives import Archive, npz_member, opened, read_header
from ope_vpm.arrays import Array
from ope_vpm.logged.columns import flag_column
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, require, spaces_from_json, spaces_to_json

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
    """Read our file, or any .npz whose arrays have the names of `LoggedDataset.from_arrays`."""
    with opened(path, options.trust) as archive:
        names = {name.removesuffix(".npy") for name in archive.names}
        require(path, REQUIRED, names)
        if not names & {"terminated", "truncated", "episode"}:
            require(path, ("terminated",), names, "or give an episode column or truncated")
        take = _mapped if options.mmap else _loaded
        columns: dict[str, Any] = {name: take(path, archive, name) for name in COLUMNS if name in names}
        extras = {name: _loaded(path, archive, name) for name in ("from_reset", "spaces") if name in names}
    notes: dict[str, Any] = spaces_from_json(str(extras["spaces"])) if "spaces" in extras else {}
    for name in ("observation_space", "action_space"):
        notes[name] = getattr(options, name) or notes.get(name)
    data = LoggedDataset.from_arrays(**columns, **notes)
    if "from_reset" not in extras:
        return data
    return data.with_resets(flag_column("from_reset", extras["from_reset"], data.n_episodes))


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
