"""Parquet files as one log, read row group after row group."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, require, spaces_from_json
from ope_vpm.logged.formats.parquet import SPACES, column_of
from ope_vpm.logged.formats.table import REQUIRED, check_unique, from_table, names_of
from ope_vpm.optional import library
from ope_vpm.outside import check_regular, reading

BATCH = 1 << 15
"""Rows that are decoded at once."""
FLAGS = ("terminated", "truncated", "episode", "from_reset")


@dataclass(frozen=True)
class ParquetFile:
    """A file, by its path, or by its path in one of Arrow's file systems."""

    path: str
    system: Any = None

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Arrow's reader of it; whatever it raises names the file."""
        parquet = library("pyarrow.parquet", "parquet")
        with reading(Path(self.path), "Parquet"):
            stream = self._stream()
        with stream:
            with reading(Path(self.path), "Parquet"):
                file = parquet.ParquetFile(stream)
            yield file

    def _stream(self) -> Any:
        if self.system is not None:
            return self.system.open_input_file(self.path)
        check_regular(Path(self.path))
        if Path(self.path).stat().st_size == 0:
            raise ValueError(f"{self.path} is empty: it must be a Parquet file (remove it, or write it again)")
        return Path(self.path).open("rb")  # a name would be taken for an address, of which Arrow knows many kinds

    def tables(self, first: int, last: int, columns: Sequence[str]) -> Iterator[Any]:
        """The rows from one number up to another, as Arrow tables."""
        arrow = library("pyarrow", "parquet")
        with self.opened() as file:
            sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
            bounds = np.cumsum([0, *sizes])
            groups = [k for k in range(len(sizes)) if bounds[k] < last and bounds[k + 1] > first]
            place = int(bounds[groups[0]]) if groups else 0
            batches = file.iter_batches(BATCH, groups, columns=list(columns)) if groups else iter(())
            while True:
                with reading(Path(self.path), "Parquet"):
                    batch = next(batches, None)
                if batch is None:
                    return
                begin, end = max(first - place, 0), min(last - place, len(batch))
                if end > begin:
                    yield arrow.Table.from_batches([batch.slice(begin, end - begin)])
                place += len(batch)


@dataclass(frozen=True)
class ParquetSource:
    """The rows of several files, one after another."""

    files: tuple[ParquetFile, ...]
    bounds: tuple[int, ...]
    """The number of each file's first row, and that of all rows."""
    columns: tuple[str, ...]
    """The columns that are read."""
    options: Options

    @classmethod
    def of(cls, files: Sequence[ParquetFile], options: Options) -> ParquetSource:
        """Look at the files' heads: they must have the same columns."""
        if not files:
            raise FileNotFoundError("there are no Parquet files to read")
        bounds, schemas = [0], []
        for file in files:
            with file.opened() as opened:
                check_unique(file.path, opened.schema_arrow.names)
                schemas.append(opened.schema_arrow)
                bounds.append(bounds[-1] + opened.metadata.num_rows)
        names = names_of(files[0].path, schemas[0].names, options)
        missing = [name for name in REQUIRED if not names_of(files[0].path, schemas[0].names, options, (name,))]
        require(files[0].path, missing, schemas[0].names, "map your names with columns=")
        for file, schema in zip(files, schemas, strict=True):
            _check_alike(file.path, schema, files[0].path, schemas[0], names)
        if bounds[-1] == 0:
            raise ValueError(f"{files[0].path} has no rows: a dataset needs at least one step")
        made = cls(tuple(files), tuple(bounds), tuple(names), _with_spaces(options, schemas[0].metadata or {}))
        made.check_order()
        return made

    def check_order(self) -> None:
        """Refuse files in another order than that of time: an episode that one leaves open goes on in a later one.

        Labels that are counted anew in each file are no sign of that, for the first one of a file is then rarely the
        last one of another; nor are labels without flags, of which nothing tells that they are open.
        """
        label, flags = (names_of("", self.columns, self.options, some) for some in (("episode",), FLAGS[:2]))
        if not label or not flags or len(self.files) < 3:
            return
        left_open: dict[Any, str] = {}
        before: Any = None
        for file, begin, end in zip(self.files, self.bounds[:-1], self.bounds[1:], strict=True):
            if begin == end:
                continue
            first, last = (self._ends(row, [*label, *flags]) for row in (begin, end - 1))
            if first[0] != before and first[0] in left_open:
                raise ValueError(
                    f"episode {first[0]} is left open in {left_open[first[0]]} and goes on in {file.path}, with other "
                    "files between them: give the files in the order of time"
                )
            before = last[0]
            if not any(last[1:]):
                left_open[last[0]] = file.path

    def _ends(self, row: int, columns: Sequence[str]) -> list[Any]:
        (table,) = self._tables(row, row + 1, columns)
        return [table.column(name)[0].as_py() for name in columns]

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.bounds[-1]

    def named(self, row: int) -> str:
        """The file that holds a row."""
        return self.files[bisect_right(self.bounds, row) - 1].path

    def flags(self) -> Iterator[dict[str, Array]]:
        """The columns that tell where episodes begin and end, some rows at a time."""
        wanted = names_of("", self.columns, self.options, FLAGS)
        if not wanted:
            return
        for table in self._tables(0, self.rows, wanted):
            held = _Columns(self.named(0), table)
            yield {
                name: held[found[0]] for name in FLAGS if (found := names_of("", self.columns, self.options, (name,)))
            }

    def read(self, first: int, last: int, size: int) -> Iterator[LoggedDataset]:
        """The rows from one number up to another, `size` at a time, each time with one row more, if there is one."""
        arrow, place = library("pyarrow", "parquet"), first
        held: list[Any] = []
        tables = self._tables(first, min(last + 1, self.rows), self.columns)
        while place < last:
            wanted = min(size, last - place)
            while sum(len(each) for each in held) < wanted + 1 and (table := next(tables, None)) is not None:
                held.append(table)
            whole = arrow.concat_tables(held)
            yield self._data(place, whole.slice(0, wanted + 1))
            held, place = [whole.slice(wanted)], place + wanted

    def _data(self, first: int, table: Any) -> LoggedDataset:
        path = self.named(first)
        with reading(Path(path), "Parquet"):
            return from_table(path, _Columns(path, table), self.options)

    def _tables(self, first: int, last: int, columns: Sequence[str]) -> Iterator[Any]:
        for file, begin, end in zip(self.files, self.bounds[:-1], self.bounds[1:], strict=True):
            if end > first and begin < last and end > begin:
                yield from file.tables(max(first - begin, 0), min(last, end) - begin, columns)


class _Columns(Mapping[str, Array]):
    """The columns of an Arrow table by name."""

    def __init__(self, path: str, table: Any) -> None:
        self._path, self._table = path, table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return len(self._table.column_names)

    def __getitem__(self, name: str) -> Array:
        return column_of(self._path, name, self._table.column(name))


def _check_alike(path: str, schema: Any, first: str, expected: Any, names: Sequence[str]) -> None:
    """Refuse a file without one of the columns that are read, or with another type of it."""
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise ValueError(f"{path} has no column {', '.join(missing)}, which {first} has: all files must be alike")
    for name in names:
        here, there = schema.field(name).type, expected.field(name).type
        if here != there:
            raise ValueError(f"{name} is {here} in {path} and {there} in {first}: all files must be alike")
    more = [name for name in names_of(path, schema.names, Options()) if name not in expected.names]
    if more:
        raise ValueError(f"{first} has no column {', '.join(more)}, which {path} has: all files must be alike")


def _with_spaces(options: Options, notes: Mapping[bytes, bytes]) -> Options:
    """The options with the spaces that our own writer stored, where none were given."""
    if SPACES not in notes:
        return options
    stored = spaces_from_json(notes[SPACES].decode())
    return replace(
        options,
        observation_space=options.observation_space or stored["observation_space"],
        action_space=options.action_space or stored["action_space"],
    )


def in_order(paths: Sequence[Path]) -> list[Path]:
    """Paths by name, numbers in them by size: part-2 comes before part-10."""
    return sorted(paths, key=lambda path: [int(word) if word.isdigit() else word for word in _words(str(path))])


def _words(text: str) -> list[str]:
    """Texts and numbers in turn, so that the same places hold the same kind."""
    return re.split(r"(\d+)", text)
