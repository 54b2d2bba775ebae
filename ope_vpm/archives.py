"""Zip archives and numpy's .npy and .npz files from outside, with every claimed size checked before it is believed."""

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.outside import check_unpacked

PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy, torch and stable-baselines3 write; Python unpacks the other kinds without a limit on their size."""
KINDS = "biufU"
"""Kinds of numpy's types that hold plain values: truth values, integers, floats and text."""


class Archive:
    """A zip archive whose members are read whole, and never beyond the size that was checked."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names = archive.namelist()

    def info(self, name: str) -> zipfile.ZipInfo:
        """The directory's entry of a member."""
        return self._archive.getinfo(name)

    def open(self, name: str) -> IO[bytes]:
        """A member as a stream, which ends at the size that its entry claims."""
        return self._archive.open(name)

    def read(self, name: str) -> bytes:
        """Return the bytes of a member, exactly as many as its entry claims."""
        content = self._archive.read(name)
        if len(content) != self.info(name).file_size:
            raise ValueError(f"{name} must hold {self.info(name).file_size} bytes: it ends after {len(content)}")
        return content


@contextmanager
def opened(source: Path | bytes, trust: bool = False) -> Iterator[Archive]:
    """Open an archive by its path or its bytes; what its members claim to unpack to is checked first."""
    path = "an archive inside" if isinstance(source, bytes) else source
    packed = len(source) if isinstance(source, bytes) else source.stat().st_size
    with zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source) as archive:
        entries = archive.infolist()
        check_unpacked(path, packed, sum(entry.file_size for entry in entries), trust)
        strange = [entry.filename for entry in entries if entry.compress_type not in PACKINGS]
        if strange and not trust:
            raise ValueError(f"{path} must be stored or deflated: {strange[0]} is packed in another way")
        names = archive.namelist()
        if len(set(names)) != len(names):
            raise ValueError(f"{path} must hold every member once: readers differ in which of two they take")
        yield Archive(archive)


def read_npz(path: Path, trust: bool = False) -> dict[str, Array]:
    """All arrays of an .npz by their names; Python objects in it are refused."""
    with opened(path, trust) as archive:
        names = [name for name in archive.names if name.endswith(".npy")]
        return {name.removesuffix(".npy"): npz_member(path, archive, name) for name in names}


def npz_member(path: Path, archive: Archive, name: str) -> Array:
    """One array of an open archive."""
    with archive.open(name) as stream:
        return _read_array(f"{name} in {path}", stream, archive.info(name).file_size)


def read_npy(path: Path) -> Array:
    """The array in an .npy; Python objects in it are refused."""
    with path.open("rb") as stream:
        return _read_array(str(path), stream, path.stat().st_size)


def read_header(name: str, stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of an array whose bytes follow, which must be exactly as many."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"{name} must be of numpy's format 1.0 or 2.0: it is of {version[0]}.{version[1]}")
    if dtype.kind not in KINDS or dtype.shape != ():
        raise ValueError(f"{name} must hold numbers or text only, and no pickled objects: its type is {dtype}")
    claimed, held = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if claimed != held:
        raise ValueError(f"{name} claims {claimed} bytes of numbers and holds {held}")
    return shape, fortran, dtype


def _read_array(name: str, stream: IO[bytes], size: int) -> Array:
    shape, fortran, dtype = read_header(name, stream, size)
    values = np.frombuffer(stream.read(math.prod(shape) * dtype.itemsize), dtype=dtype)
    return values.reshape(shape, order="F" if fortran else "C")
