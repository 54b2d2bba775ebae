"""CSV text: a header line, then one row a step."""

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.table import check_unique, from_table
from ope_vpm.outside import warn_if_cut

LONGEST_CELL = 1000
"""Characters of a number or a label: arrays of text take the longest for every row."""
WHOLE = re.compile(r"[+-]?[0-9]+")
TRUTH = {"true": "1", "false": "0", "True": "1", "False": "0", "TRUE": "1", "FALSE": "0"}


def read(path: Path, options: Options) -> LoggedDataset:
    """Columns by convention or by `columns=`; see `ope_vpm.logged.formats.table`."""
    return from_table(path, read_columns(path), options)


def read_columns(path: Path) -> dict[str, Array]:
    """The columns by the names in the header: integers, floats or text."""
    return {name: _parse(cells) for name, cells in read_cells(path).items()}


def read_cells(path: Path) -> dict[str, list[str]]:
    """The texts of each column by the names in the header."""
    warn_if_cut(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        header, *rows = _rows(path, csv.reader(file, strict=True))
    if not rows:
        raise ValueError(f"{path} must have a header and at least one row: it has a header only")
    names = [name.strip() for name in header]
    check_unique(path, names)
    return {name: [row[index].strip() for row in rows] for index, name in enumerate(names)}


def _rows(path: Path, lines: Iterable[list[str]]) -> Iterator[list[str]]:
    """The lines, each of which must be like the first; a wrong one ends the reading."""
    cells = 0
    for number, row in enumerate(lines, start=1):
        cells = cells or len(row)
        if len(row) != cells:
            raise ValueError(f"line {number} of {path} must have as many cells as the header: {len(row)} != {cells}")
        longest = max(map(len, row), default=0)
        if longest > LONGEST_CELL:
            raise ValueError(f"line {number} of {path} has a cell of {longest} characters, more than {LONGEST_CELL}")
        yield row
    if cells == 0:
        raise ValueError(f"{path} must have a header and at least one row: it has no lines")


def _parse(cells: list[str]) -> Array:
    """Integers where every cell is one, else floats, empty cells being NaN, else text, which only episodes may be.

    Integers beyond 64 bits stay text: as floats, two of them could become one. So do `1_0` and digits of other scripts,
    which Python takes for numbers.
    """
    plain = [TRUTH.get(cell, cell or "nan") for cell in cells]
    joined = "".join(plain)
    if "_" in joined or not joined.isascii():
        return np.array(cells)
    whole = all(map(WHOLE.fullmatch, plain))
    try:
        return np.array(plain, dtype=np.int64 if whole else np.float64)
    except (ValueError, OverflowError):
        return np.array(cells)
