"""HDF5 files from outside: only data sets that the file itself holds, and holds in full, are read.

HDF5 can point to other files in three ways (external links, external storage and virtual data sets), reads what was
never written as zeros, and believes any size that a file claims. All of this is refused here.

Texts and other parts of varying length lie in heaps, which are looked at before HDF5 reads them. A data set of such
parts holds references: how long a part is, where its heap begins, and which object of the heap it is. HDF5 2.0 follows
a damaged heap for ever (one mutant in a thousand of a d3rlpy file). A heap of format 1 is "GCOL", a version byte, three
bytes, its size in eight bytes, and then objects, one after the other: an index and a count of references of two bytes
each, four bytes, its size in eight bytes, and its bytes, filled up to a multiple of 8.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.optional import library
from ope_vpm.outside import UNPACKED, check_unpacked

REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("index", "<u4")])
HEAD = struct.Struct("<4sB3xQ")
OBJECT = struct.Struct("<HH4xQ")


def check_heaps(path: Path, found: Any) -> None:
    """Refuse a data set of parts of varying length whose references or heaps are damaged."""
    sizes = found.file.id.get_create_plist().get_sizes()
    if sizes != (8, 8) or found.file.userblock_size:
        raise ValueError(f"texts in {path} must be addressed by eight bytes from the file's begin: got {sizes}")
    heaps: dict[int, dict[int, int]] = {}
    base = _base_size(found)
    for length, heap, index in _references(path, found).tolist():
        if length == 0:
            continue
        if heap not in heaps:
            heaps[heap] = _objects(path, heap)
        if heaps[heap].get(index, -1) < length * base:
            raise ValueError(f"a text in {path} must be in its heap: there is none of {length} entries")


def _base_size(found: Any) -> int:
    """Bytes of one entry of a part: 1 for texts."""
    kind = found.id.get_type()
    return int(kind.get_super().get_size()) if hasattr(kind, "get_super") else 1


def _references(path: Path, found: Any) -> Array:
    """The references themselves, read from the file."""
    spans: list[tuple[int, int]] = []
    if found.chunks is None:
        spans = [(found.id.get_offset() or 0, found.size * REFERENCE.itemsize)]
    elif found.id.get_create_plist().get_nfilters():
        raise ValueError(f"texts in {path} must not be compressed: pass trust=True if you know where it comes from")
    else:
        found.id.chunk_iter(lambda chunk: spans.append((chunk.byte_offset, chunk.size)))
    with path.open("rb") as file:
        parts = [_bytes(path, file, *span) for span in spans]
    return np.frombuffer(b"".join(parts), dtype=REFERENCE)


def _objects(path: Path, address: int) -> dict[int, int]:
    """The sizes of a heap's objects by their index."""
    with path.open("rb") as file:
        signature, version, size = HEAD.unpack(_bytes(path, file, address, HEAD.size))
        if signature != b"GCOL" or version != 1 or size < HEAD.size:
            raise ValueError(f"a text in {path} must be in a heap: there is none at byte {address}")
        content = _bytes(path, file, address, size)
    objects: dict[int, int] = {}
    place = HEAD.size
    while place + OBJECT.size <= size:
        index, _, length = OBJECT.unpack_from(content, place)
        # The object of index 0 is what is left free, its head included.
        taken = length if index == 0 else OBJECT.size + (length + 7) // 8 * 8
        if taken < OBJECT.size or place + taken > size or index in objects:
            raise ValueError(f"a heap of texts in {path} must be whole: its objects run beyond it at byte {address}")
        objects[index] = length
        place += taken
    return objects


def _bytes(path: Path, file: Any, place: int, size: int) -> bytes:
    if place + size > path.stat().st_size:
        raise ValueError(f"{path} must hold the texts that it refers to: it ends before byte {place + size}")
    file.seek(place)
    return file.read(size)


DEFLATE = 1
FILTERS = {DEFLATE: "deflate", 2: "shuffle", 3: "fletcher32", 32000: "lzf"}
"""The filters that h5py and the libraries on it write; others allocate as much as the file tells them to."""
DEFLATE_RATIO = 1032
"""How many times deflate can shrink a block of zeros; chunks that could not reach `UNPACKED` are not tried first."""
MOST_TEXTS = 10_000
"""Texts in one data set: names of columns."""


class Members:
    """The data sets of an open file by name; each is checked before it is read."""

    def __init__(self, path: Path, file: Any, trust: bool = False) -> None:
        self._path = path
        self.root = file
        self._trust = trust
        self._packed = path.stat().st_size
        self._total = 0
        self._h5py = library("h5py", "d3rlpy")

    def __contains__(self, name: object) -> bool:
        """Whether the name is there, as a link of any kind; a link on the way to it is not followed."""
        *way, last = str(name).split("/")
        place = self.root
        for part in way:
            if not place.id.links.exists(part.encode()):
                return False
            place = self.follow(place, part)
        return bool(place.id.links.exists(last.encode()))

    def __iter__(self) -> Iterator[str]:
        """The first few names: only errors list them, and a log of a million episodes has four million."""
        return (name for name, _ in zip(self.root, range(12), strict=False))

    def __len__(self) -> int:
        return len(self.root)

    def numbers(self, name: str) -> Array:
        """A data set of numbers or truth values."""
        found = self._dataset(name)
        if found.dtype.kind not in "biuf":
            raise ValueError(f"{name} in {self._path} must hold numbers: its type is {found.dtype}")
        self.check(name, found)
        try:
            values: Array = np.asarray(found[()])
        except OSError as error:  # HDF5 itself tells only that a filter failed
            checks = "its checksum" if found.fletcher32 else "its packing"
            raise ValueError(f"{name} in {self._path} is damaged, by {checks}: take another copy ({error})") from error
        return values

    def whole_number(self, name: str) -> int:
        """A data set of one whole number."""
        value = self.numbers(name)
        if value.shape != () or value.dtype.kind not in "iu":
            raise ValueError(f"{name} in {self._path} must be one whole number: got {value.dtype} {value.shape}")
        return int(value)

    def flag(self, name: str) -> bool:
        """A data set of one truth value, or a number that is 0 or 1."""
        value = self.numbers(name)
        if value.size != 1 or value.reshape(-1)[0] not in (0, 1):
            raise ValueError(f"{name} in {self._path} must be one truth value: got {value.dtype} {value.shape}")
        return bool(value.reshape(-1)[0])

    def texts(self, name: str) -> list[str]:
        """A data set of one text or a few."""
        found = self._dataset(name)
        if self._h5py.check_string_dtype(found.dtype) is None or found.size > MOST_TEXTS:
            raise ValueError(f"{name} in {self._path} must hold text: its type is {found.dtype}")
        self.check(name, found)
        return [str(text) for text in np.atleast_1d(found.asstr()[()])]

    def _dataset(self, name: str) -> Any:
        """The data set of a name, every part of whose path must be in the file itself."""
        place = self.root
        for part in name.split("/"):
            place = self.follow(place, part)
        if not isinstance(place, self._h5py.Dataset):
            raise TypeError(f"{name} in {self._path} must be a data set: it is a {type(place).__name__}")
        return place

    def follow(self, group: Any, part: str) -> Any:
        """The member of a group by its name, if it is in the file itself."""
        if not isinstance(group, self._h5py.Group):
            raise TypeError(f"{part} in {self._path} must be inside a group: it is inside a {type(group).__name__}")
        # Asked of the link itself: h5py's own `in` and `get` would open the file that it leads to.
        if group.id.links.get_info(part.encode()).type != self._h5py.h5l.TYPE_HARD:
            raise ValueError(f"{part} in {self._path} is a link, which may lead to another file: copy the data into it")
        return group[part]

    def check(self, name: str, found: Any) -> None:
        """Refuse a data set whose numbers are not all in the file, or that is far larger than the file."""
        if found.is_virtual or found.external:
            raise ValueError(f"{name} in {self._path} keeps its numbers in another file: copy the data into it")
        if found.dtype.hasobject:
            self._check_parts(name, found)
        size = found.size * found.dtype.itemsize
        if found.chunks is not None:
            size = max(size, self._check_chunks(name, found))
        elif found.id.get_storage_size() < size:
            raise ValueError(
                f"{name} in {self._path} claims {size} bytes, of which {found.id.get_storage_size()} were written"
            )
        self._total += size
        check_unpacked(self._path, self._packed, self._total, self._trust)

    def _check_parts(self, name: str, found: Any) -> None:
        """Refuse Python objects and references; texts and lists of varying length must be whole."""
        kind = found.dtype
        if self._h5py.check_string_dtype(kind) is None and self._h5py.check_vlen_dtype(kind) is None:
            raise ValueError(f"{name} in {self._path} must hold numbers or texts: its type is {kind}")
        if not self._trust:
            check_heaps(self._path, found)

    def _check_chunks(self, name: str, found: Any) -> int:
        """The bytes of all chunks once they are unpacked."""
        filters = found.id.get_create_plist()
        codes = [filters.get_filter(index)[0] for index in range(filters.get_nfilters())]
        if not self._trust and (len(set(codes)) != len(codes) or not set(codes) <= set(FILTERS)):
            raise PermissionError(
                f"{name} in {self._path} is packed by the filters {codes}: pass trust=True if you know where it comes "
                f"from (read without: {', '.join(FILTERS.values())}, each once)"
            )
        one: int = prod(found.chunks) * found.dtype.itemsize
        expected = prod(ceil(side / step) for side, step in zip(found.shape, found.chunks, strict=True))
        written = found.id.get_num_chunks() if found.size else 0
        if written != expected:
            raise ValueError(f"{name} in {self._path} claims {expected} chunks, of which {written} were written")
        check_unpacked(self._path, self._packed, self._total + one * written, self._trust)
        if DEFLATE in codes and written and not self._trust:
            self._check_inflated(name, found, codes.index(DEFLATE), one)
        return one * written

    def _check_inflated(self, name: str, found: Any, place: int, size: int) -> None:
        """Refuse a chunk that inflates to more than it claims: HDF5 would follow it as far as it goes."""
        large: list[Any] = []

        def note(chunk: Any) -> None:
            if chunk.size * DEFLATE_RATIO > UNPACKED and not chunk.filter_mask & 1 << place:
                large.append(chunk.chunk_offset)

        found.id.chunk_iter(note)
        for offset in large:
            stream, left, total = zlib.decompressobj(), found.id.read_direct_chunk(offset)[1], 0
            while left and total <= size:
                total += len(stream.decompress(left, 1 << 20))
                left = stream.unconsumed_tail
            if total > size:
                raise ValueError(f"{name} in {self._path} holds a chunk that unpacks beyond the {size} bytes it claims")


@contextmanager
def opened(path: Path, trust: bool = False) -> Iterator[Members]:
    """Open a file for reading."""
    with library("h5py", "d3rlpy").File(path, "r") as file:
        yield Members(path, file, trust)
