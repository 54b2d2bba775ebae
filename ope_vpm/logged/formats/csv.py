"""CSV text: a header line, then one row a step."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.table import check_unique, from_table

WHOLE = re.compile(r"[+-]?[0-9]+")
TRUTH = {"true": "1", "false": "0", "True": "1", "False": "0", "TRUE": "1", "FALSE": "0"}


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns by convention or by `columns=`; see `ope_vpm.logged.formats.table`."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = list(csv.reader(file, strict=True))
    if len(lines) < 2:
        raise ValueError(f"{path} must have a header and at least one row: got {len(lines)} lines")
    header, rows = lines[0], lines[1:]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(
                f"line {number} of {path} must have as many cells as the header: {len(row)} != {len(header)}"
            )
    names = [name.strip() for name in header]
    check_unique(path, names)
    columns = {name: [row[index].strip() for row in rows] for index, name in enumerate(names)}
    return from_table(path, {name: _parse(cells) for name, cells in columns.items()}, options)


def _parse(cells: list[str]) -> Array:
    """Integers where every cell is one, else floats, else text, which only the episode column may hold.

    Integers beyond 64 bits stay text: as floats, two of them could become one.
    """
    plain = [TRUTH.get(cell, cell) for cell in cells]
    whole = all(map(WHOLE.fullmatch, plain))
    try:
        return np.array(plain, dtype=np.int64 if whole else np.float64)
    except (ValueError, OverflowError):
        return np.array(cells)
