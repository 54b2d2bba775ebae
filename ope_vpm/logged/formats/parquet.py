"""Parquet tables, by pyarrow: how one is written, what a file claims to hold, and columns as arrays."""

import io
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import spaces_to_json
from ope_vpm.logged.formats.table import to_table
from ope_vpm.optional import library
from ope_vpm.outside import check_unpacked

SPACES = b"ope_vpm_spaces"
BYTES_A_CELL = 8
"""The size of most cells once they are read: a float or an integer of 64 bits."""
LONGEST_TEXT = 1000
"""Characters of an episode's label."""


def write(data: LoggedDataset, path: Path) -> None:
    """One column a coordinate, the spaces in the file's metadata, and a checksum for every page."""
    arrow, parquet = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
    table = arrow.table({name: np.ascontiguousarray(column) for name, column in to_table(data).items()})
    note = spaces_to_json(data.observation_space, data.action_space).encode()
    parquet.write_table(table.replace_schema_metadata({SPACES: note}), path, write_page_checksum=True)


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


def is_text(kind: Any) -> bool:
    """Whether a column of this type of Arrow's holds texts."""
    types = library("pyarrow", "parquet").types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def column_of(path: object, name: str, values: Any) -> Array:
    """A column as an array: numbers, vectors, or short texts; missing values are refused, but for NaN in numbers."""
    types = library("pyarrow", "parquet").types
    texts = is_text(values.type.value_type if types.is_dictionary(values.type) else values.type)
    if values.null_count and (texts or values.to_numpy().dtype.kind != "f"):
        raise ValueError(f"{name} in {path} must have a value in every row: some are missing")
    if not texts:
        return _column(values)
    values = values if types.is_dictionary(values.type) else values.dictionary_encode()
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
