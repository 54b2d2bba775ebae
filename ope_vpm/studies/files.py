"""Results on disk: rows as CSV, arrays as NPZ, whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.outside import write_text, write_whole
from ope_vpm.studies.study import Arrays, Row


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV; their columns are those of the first one."""
    if not rows:
        return
    lines: list[str] = []
    writer = csv.DictWriter(_Lines(lines.append), fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, "".join(lines))


def read_rows(path: Path) -> list[Row]:
    """Read what `write_rows` wrote; numbers come back as numbers."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays as NPZ."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))


def read_arrays(path: Path) -> Arrays:
    """Read what `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


class _Lines:
    """A file for `csv` that hands each line on."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
