"""Results on disk: rows as CSV, arrays as NPZ, whole or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ope_vpm.studies.study import Arrays, Row


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that takes its name once everything is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            yield file
        except BaseException:
            os.unlink(file.name)
            raise
    umask = os.umask(0)
    os.umask(umask)
    os.chmod(file.name, 0o666 & ~umask)  # temporary files are private; results are like any other file
    os.replace(file.name, path)


def write_text(path: Path, text: str) -> None:
    """Write a text file in one piece."""
    with replacing(path) as file:
        file.write(text.encode())


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
    with replacing(path) as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


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
