"""The files that tables come from: CSV, Parquet, JSON lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.formats.csv import read_cells
from ope_vpm.optional import library
from ope_vpm.outside import check_regular, parse_number, reading

FLAGS = {"true": True, "false": False}


def read_file(path: Path) -> Any:
    """What a file holds, in a form that `read_table` takes: columns by name, a table of Arrow, or records."""
    check_regular(path)
    with reading(path, "a table"):
        if path.suffix == ".csv":
            return {name: _of_cells(cells) for name, cells in read_cells(path).items()}
        if path.suffix in (".parquet", ".pq"):
            return library("pyarrow.parquet", "parquet").read_table(path)
        if path.suffix in (".jsonl", ".ndjson"):
            return _records_of(path)
    raise ValueError(f"a table is read from .csv, .parquet or .jsonl: got {path}")


def _records_of(path: Path) -> list[dict[str, Any]]:
    """The object of each line; texts may hold what Python's `splitlines` takes for the end of one."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    records = {number: json.loads(line) for number, line in enumerate(lines, 1) if line.strip()}
    for number, record in records.items():
        if not isinstance(record, dict):
            raise TypeError(f"line {number} of {path} must be an object such as {{'reward': 1}}: got {record!r:.40}")
    if not records:
        raise ValueError(f"{path} has no lines: a dataset needs at least one step")
    return list(records.values())


def of_records(records: list[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Columns from records; a record within a record becomes columns such as `request.length`."""
    flat = [
        {
            key: value
            for name, entry in record.items()
            for key, value in (
                {f"{name}.{part}": inner for part, inner in entry.items()}
                if isinstance(entry, Mapping)
                else {str(name): entry}
            ).items()
        }
        for record in records
    ]
    names = dict.fromkeys(name for record in flat for name in record)
    return {name: [record.get(name) for record in flat] for name in names}


def _of_cells(cells: list[str]) -> Array:
    """Flags where every cell is true or false, numbers where every cell is one, otherwise texts; empty is missing."""
    known = [cell for cell in cells if cell]
    if known and all(cell.lower() in FLAGS for cell in known):
        return np.array([FLAGS.get(cell.lower()) for cell in cells], dtype=object)
    try:
        if len(known) == len(cells):
            return np.array([_whole(cell) for cell in cells], dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    try:
        return np.array([parse_number(cell or "nan") for cell in cells])
    except ValueError:
        return np.array([cell or None for cell in cells], dtype=object)


def _whole(text: str) -> int:
    parse_number(text)  # `int` takes `1_0`
    return int(text)
