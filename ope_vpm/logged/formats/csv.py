"""CSV text: a header line, then one row a step."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.table import from_table

TRUTH = {"true": "1", "false": "0", "True": "1", "False": "0", "TRUE": "1", "FALSE": "0"}


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns by convention or by `columns=`; see `ope_vpm.logged.formats.table`."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = list(csv.reader(file))
    if len(lines) < 2:
        raise ValueError(f"{path} must have a header and at least one row: got {len(lines)} lines")
    header, rows = lines[0], lines[1:]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(
                f"line {number} of {path} must have as many cells as the header: {len(row)} != {len(header)}"
            )
    wanted = _named_cells(header, rows)
    return from_table(path, {name: _parse(cells) for name, cells in wanted.items()}, options)


def _named_cells(header: list[str], rows: list[list[str]]) -> dict[str, list[str]]:
    names = [name.strip() for name in header]
    return {name: [row[index].strip() for row in rows] for index, name in enumerate(names)}


def _parse(cells: list[str]) -> Array:
    """Integers where every cell is one, else floats, else text, which no column of ours accepts."""
    plain = [TRUTH.get(cell, cell) for cell in cells]
    for kind in (np.int64, np.float64):
        try:
            return np.array(plain, dtype=kind)
        except (ValueError, OverflowError):
            continue
    return np.array(cells)
