"""Parquet tables, by pyarrow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, spaces_from_json, spaces_to_json
from ope_vpm.logged.formats.table import from_table, to_table
from ope_vpm.optional import library

SPACES = b"ope_vpm_spaces"


def write(data: LoggedDataset, path: Path) -> None:
    """One column a coordinate, the spaces in the file's metadata."""
    arrow, parquet = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
    table = arrow.table({name: np.ascontiguousarray(column) for name, column in to_table(data).items()})
    note = spaces_to_json(data.observation_space, data.action_space).encode()
    parquet.write_table(table.replace_schema_metadata({SPACES: note}), path)


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns by convention or by `columns=`; a column of equal-length lists is a vector column."""
    arrow, parquet = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
    try:
        table = parquet.read_table(path)
    except arrow.ArrowException as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}") from error
    note = (table.schema.metadata or {}).get(SPACES)
    if note is not None:
        stored = spaces_from_json(note.decode())
        options = replace(
            options,
            observation_space=options.observation_space or stored["observation_space"],
            action_space=options.action_space or stored["action_space"],
        )
    return from_table(path, {name: _column(table[name]) for name in table.column_names}, options)


def _column(values: Any) -> Array:
    array: Array = values.to_numpy()
    if array.dtype != object:
        return array
    cells = array.tolist()
    if {np.shape(cell) for cell in cells} == {np.shape(cells[0])} and np.ndim(cells[0]) == 1:
        return np.stack(cells)
    return np.array([str(cell) for cell in cells])
