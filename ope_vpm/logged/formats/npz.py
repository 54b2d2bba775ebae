"""Our own file: an uncompressed .npz with one array a column, which can be memory-mapped."""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.archives import Archive, npz_member, opened, read_header
from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode import ROW_COLUMNS
from ope_vpm.logged.formats.files import Options, require, spaces_to_json
from ope_vpm.logged.formats.table import from_table


def write(data: LoggedDataset, path: Path) -> None:
    """Every column, the episodes and the spaces."""
    arrays = {name: getattr(data, name) for name in (*ROW_COLUMNS, "episode")}
    arrays |= {"from_reset": data.from_reset, "spaces": spaces_to_json(data.observation_space, data.action_space)}
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **{key: array for key, array in arrays.items() if array is not None})


def read(path: Path, options: Options) -> LoggedDataset:
    """Our file, or any .npz whose arrays have names as columns of a table have, or those of `columns`."""
    with opened(path, options.trust) as archive:
        arrays = _Arrays(path, archive, options.mmap)
        for ours, theirs in (options.columns or {}).items():
            if not isinstance(theirs, str):
                raise TypeError(f"a column of an .npz is one array: columns maps {ours} to {', '.join(theirs)}")
            require(path, [theirs], arrays, f"columns maps {ours} to it")
        note = str(npz_member(path, archive, "spaces.npy")) if "spaces" in arrays else None
        return from_table(path, arrays, options.with_spaces(note))


class _Arrays(Mapping[str, Array]):
    """The arrays of an archive by name, each read when it is asked for, or left on disk."""

    def __init__(self, path: Path, archive: Archive, mmap: bool) -> None:
        self._path, self._archive = path, archive
        self._names = [name.removesuffix(".npy") for name in archive.names]
        self._take = _mapped if mmap else npz_member

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Array:
        return self._take(self._path, self._archive, f"{name}.npy")


def _mapped(path: Path, archive: Archive, name: str) -> Array:
    """One array of the archive, left on disk."""
    info = archive.info(name)
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{path} is compressed and cannot be memory-mapped: load it without mmap=True")
    with archive.open(info.filename) as member:
        shape, fortran, dtype = read_header(f"{name} in {path}", member, info.file_size)
        inside = member.tell()
    order: Any = "F" if fortran else "C"
    return np.memmap(path, dtype, mode="r", offset=_data_offset(path, info) + inside, shape=shape, order=order)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """The offset of a stored member's bytes: after its local header, whose last two lengths vary."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = file.read(4)
    return info.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
