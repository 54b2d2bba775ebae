"""Reading trajectories from one column of a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.outside import check_regular, parse_number, warn_if_cut


def read_paths(path: Path, column: str, by: str | None = None) -> list[Floats]:
    """Read a column of a CSV file as one or several trajectories, in the order of the file.

    Args:
        path: of a CSV file with a header.
        column: the name of the column with the values.
        by: the name of a column whose value identifies the trajectory of a row; None: all rows are one trajectory.
    """
    check_regular(path)
    warn_if_cut(path)
    paths: dict[str, list[float]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        try:
            header = [name.strip() for name in next(reader, [])]
            at = _find(header, column, path)
            key = None if by is None else _find(header, by, path)
            for cells in reader:
                if cells:
                    whose = "" if key is None or key >= len(cells) else cells[key]
                    paths.setdefault(whose, []).append(_number(cells, at, column, reader.line_num))
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} cannot be read as CSV: {error}") from error
    if not paths:
        raise ValueError(f"{path} has a header and no rows")
    return [np.array(values) for values in paths.values()]


def _find(header: list[str], column: str, path: Path) -> int:
    if not header:
        raise ValueError(f"{path} is empty: a header with column names is needed")
    if column not in header:
        raise ValueError(f"{path} has no column {column!r}: its columns are {', '.join(header)[:200]}")
    if header.count(column) > 1:
        raise ValueError(f"{path} has {header.count(column)} columns called {column!r}: names must differ")
    return header.index(column)


def _number(cells: list[str], at: int, column: str, row: int) -> float:
    text = cells[at].strip() if at < len(cells) else ""
    try:
        value = parse_number(text)
    except ValueError:
        raise ValueError(f"column {column!r} must hold numbers: row {row} is {text!r}") from None
    if not np.isfinite(value):
        raise ValueError(f"column {column!r} must hold finite numbers: row {row} is {text!r}")
    return value
