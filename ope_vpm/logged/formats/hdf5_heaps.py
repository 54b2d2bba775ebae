"""Texts and other parts of varying length in HDF5, whose bytes lie in heaps that are looked at before HDF5 reads them.

A data set of such parts holds references: how long a part is, where its heap begins, and which object of the heap it
is. HDF5 2.0 follows a damaged heap for ever (one mutant in a thousand of a d3rlpy file). A heap of format 1 is
"GCOL", a version byte, three bytes, its size in eight bytes, and then objects, one after the other: an index and a
count of references of two bytes each, four bytes, its size in eight bytes, and its bytes, filled up to a multiple of 8.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array

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
    content: bytes = file.read(size)
    return content
