"""Parquet tables, by pyarrow."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, spaces_from_json, spaces_to_json
from ope_vpm.logged.formats.table import check_unique, from_table, to_table
from ope_vpm.optional import library
from ope_vpm.outside import check_unpacked

SPACES = b"ope_vpm_spaces"
BYTES_A_CELL = 8
"""What most cells take once they are read: a float or an integer of 64 bits."""
LONGEST_TEXT = 1000
"""Characters of an episode's label."""


def write(data: LoggedDataset, path: Path) -> None:
    """One column a coordinate, the spaces in the file's metadata, and a checksum for every page."""
    arrow, parquet = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
    table = arrow.table({name: np.ascontiguousarray(column) for name, column in to_table(data).items()})
    note = spaces_to_json(data.observation_space, data.action_space).encode()
    parquet.write_table(table.replace_schema_metadata({SPACES: note}), path, write_page_checksum=True)


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns by convention or by `columns=`; a column of equal-length lists is a vector column."""
    library("pyarrow", "parquet")
    with path.open("rb") as stream:  # a name would be taken for an address, of which Arrow knows many kinds
        columns = _Columns(path, stream, options.trust)
        note = columns.notes.get(SPACES)
        if note is not None:
            stored = spaces_from_json(note.decode())
            options = replace(
                options,
                observation_space=options.observation_space or stored["observation_space"],
                action_space=options.action_space or stored["action_space"],
            )
        return from_table(path, columns, options)


def reader(stream: Any, dictionaries: list[str] | None = None) -> Any:
    """Arrow's reader of a file, which compares pages with their checksums, where the file has them."""
    parquet = library("pyarrow.parquet", "parquet")
    return parquet.ParquetFile(stream, read_dictionary=dictionaries, page_checksum_verification=True)


def check_size(path: Path, trust: bool) -> None:
    """Refuse a table that claims far more values than its file could hold: one repeated value takes no room."""
    with path.open("rb") as stream:
        check_unpacked(path, path.stat().st_size, claimed(reader(stream).metadata)[""], trust)


def claimed(notes: Any) -> Counter[str]:
    """Bytes of each column once it is read, by its name; those of all columns under the empty name."""
    _check_footer(notes)
    total: Counter[str] = Counter()
    for group in (notes.row_group(number) for number in range(notes.num_row_groups)):
        for number in range(group.num_columns):
            column = group.column(number)
            size = max(BYTES_A_CELL * max(column.num_values, group.num_rows), column.total_uncompressed_size)
            # Arrow finds a column by its whole path, dots included, and by the path of what it is a part of.
            words = notes.schema.column(number).path.split(".")
            total.update({".".join(words[:length]): size for length in range(len(words) + 1)})
    return total


def _check_footer(notes: Any) -> None:
    """Raise, as an ordinary exception, what Arrow has against the notes on a file's columns.

    `RowGroupMetaData.column` ends the interpreter on some damaged footers, because pyarrow does not catch there what
    Arrow throws. Arrow looks at the same notes, and its errors become exceptions, when it begins to read a row group;
    a file that refuses to give any bytes ends that before anything is read.
    """
    with _Nothing() as stream:
        file = library("pyarrow.parquet", "parquet").ParquetFile(stream, metadata=notes, buffer_size=1)
        for number in range(notes.num_row_groups):
            with suppress(_FooterIsSound):
                file.read_row_groups([number], use_threads=False)


class _FooterIsSound(Exception):  # noqa: N818 - good news
    """Arrow began to read the rows, and so had nothing against the footer."""


class _Nothing(io.RawIOBase):
    """A file that is large enough for every claim, and gives nothing."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return offset

    def tell(self) -> int:
        return 1 << 62

    def read(self, size: int = -1) -> bytes:
        raise _FooterIsSound


class _Columns(Mapping[str, Array]):
    """The columns of a file by name, each read when it is asked for, so that others may hold anything."""

    def __init__(self, path: Path, stream: Any, trust: bool) -> None:
        self._arrow = library("pyarrow", "parquet")
        self._path, self._stream, self._trust = path, stream, trust
        self._total = 0
        file = reader(stream)
        self._claims, self._schema = claimed(file.metadata), file.schema_arrow
        self.notes: dict[bytes, bytes] = self._schema.metadata or {}
        check_unique(path, self._schema.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema.names)

    def __len__(self) -> int:
        return len(self._schema.names)

    def __getitem__(self, name: str) -> Array:
        if name not in self._schema.names:
            raise KeyError(name)
        self._total += self._claims[name]
        check_unpacked(self._path, self._path.stat().st_size, self._total, self._trust)
        kind = self._schema.field(name).type
        texts = self._arrow.types.is_string(kind) or self._arrow.types.is_large_string(kind)
        # As a dictionary, a text that stands in many rows is held once.
        file = reader(self._stream, [name] if texts else None)
        return column_of(self._path, name, file.read(columns=[name]).column(0))


def column_of(path: object, name: str, values: Any) -> Array:
    """A column as an array: numbers, vectors, or short texts; missing values are refused, but for NaN in numbers."""
    types = library("pyarrow", "parquet").types
    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    texts = types.is_string(kind) or types.is_large_string(kind)
    if values.null_count and (texts or values.to_numpy().dtype.kind != "f"):
        raise ValueError(f"{name} in {path} must have a value in every row: some are missing")
    if not texts:
        return _column(values)
    return _texts(values if types.is_dictionary(values.type) else values.dictionary_encode())


def _texts(values: Any) -> Array:
    parts = [_short(chunk.dictionary.to_pylist())[chunk.indices.to_numpy()] for chunk in values.chunks]
    return np.concatenate(parts)


def _column(values: Any) -> Array:
    array: Array = values.to_numpy()
    if array.dtype != object:
        return array
    cells = array.tolist()
    if {np.shape(cell) for cell in cells} == {np.shape(cells[0])} and np.ndim(cells[0]) == 1:
        return np.stack(cells)
    return _short([str(cell) for cell in cells])


def _short(texts: list[str]) -> Array:
    """Texts as an array, which takes the longest for every row."""
    longest = max(map(len, texts), default=0)
    if longest > LONGEST_TEXT:
        raise ValueError(f"a text must have at most {LONGEST_TEXT} characters: one has {longest}")
    return np.array(texts, dtype=np.str_)
