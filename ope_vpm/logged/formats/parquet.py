"""Parquet tables, by pyarrow."""

from __future__ import annotations

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


def write(data: LoggedDataset, path: Path) -> None:
    """One column a coordinate, the spaces in the file's metadata."""
    arrow, parquet = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
    table = arrow.table({name: np.ascontiguousarray(column) for name, column in to_table(data).items()})
    note = spaces_to_json(data.observation_space, data.action_space).encode()
    parquet.write_table(table.replace_schema_metadata({SPACES: note}), path)


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns by convention or by `columns=`; a column of equal-length lists is a vector column."""
    library("pyarrow", "parquet")
    parquet = library("pyarrow.parquet", "parquet")
    check_size(parquet, path, options.trust)
    with path.open("rb") as stream:  # a name would be taken for an address, of which Arrow knows many kinds
        table = parquet.ParquetFile(stream).read()
    check_unique(path, table.column_names)
    note = (table.schema.metadata or {}).get(SPACES)
    if note is not None:
        stored = spaces_from_json(note.decode())
        options = replace(
            options,
            observation_space=options.observation_space or stored["observation_space"],
            action_space=options.action_space or stored["action_space"],
        )
    return from_table(path, {name: _column(table[name]) for name in table.column_names}, options)


def check_size(parquet: Any, path: Path, trust: bool) -> None:
    """Refuse a table that claims far more rows than its file could hold: one repeated value takes no room."""
    with path.open("rb") as stream:
        notes = parquet.ParquetFile(stream).metadata
        groups = [notes.row_group(number).total_byte_size for number in range(notes.num_row_groups)]
    claimed = max(sum(groups), BYTES_A_CELL * notes.num_rows * notes.num_columns)
    check_unpacked(path, path.stat().st_size, claimed, trust)


def _column(values: Any) -> Array:
    array: Array = values.to_numpy()
    if array.dtype != object:
        return array
    if values.null_count:
        raise ValueError("a column of text or lists must have a value in every row: some are missing")
    cells = array.tolist()
    if {np.shape(cell) for cell in cells} == {np.shape(cells[0])} and np.ndim(cells[0]) == 1:
        return np.stack(cells)
    return np.array([str(cell) for cell in cells])
