"""Files of results: rows as CSV, arrays as NPZ; a failed write leaves the old file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.outside import write_text, write_whole
from ope_vpm.studies.study import Arrays, Row


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a CSV file with the columns of the first row; no rows write no file."""
    if not rows:
        return
    lines: list[str] = []
    writer = csv.DictWriter(_Lines(lines.append), fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, "".join(lines))


def read_rows(path: Path) -> list[Row]:
    """Read the rows that `write_rows` wrote, with numbers as int or float; a missing file has no rows."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays to an NPZ file, creating its folder where it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))


def read_arrays(path: Path) -> Arrays:
    """Read the arrays that `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


class _Lines:
    """The file object that `csv` writes to; it passes each line to a function."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
