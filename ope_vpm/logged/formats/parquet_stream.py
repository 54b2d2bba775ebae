"""Parquet files as one log, read row group after row group."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import episode_column
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import Options, require
from ope_vpm.logged.formats.parquet import SPACES, claimed, column_of, is_text, reader
from ope_vpm.logged.formats.table import REQUIRED, check_unique, from_table, names_of
from ope_vpm.optional import library
from ope_vpm.outside import check_regular, check_unpacked, reading

BATCH = 1 << 15
"""Rows that are decoded at once."""
FLAGS = ("terminated", "truncated", "episode", "from_reset")


@dataclass(frozen=True)
class ParquetFile:
    """A file, by its path, or by its path in one of Arrow's file systems."""

    path: str
    system: Any = None

    @contextmanager
    def opened(self, columns: Sequence[str] = ()) -> Iterator[Any]:
        """Arrow's reader of it, by which texts of some columns are held once each; its errors name the file."""
        with reading(Path(self.path), "Parquet"):
            stream = self._stream()
        with stream:
            with reading(Path(self.path), "Parquet"):
                file = reader(stream)
                texts = [name for name in columns if is_text(file.schema_arrow.field(name).type)]
                file = reader(stream, texts) if texts else file
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
        with self.opened(columns) as file:
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
class TableSource(ABC):
    """Rows of several tables, one after another: files, or blocks of tables in a cluster."""

    bounds: tuple[int, ...]
    """The number of each table's first row, and that of all rows."""
    columns: tuple[str, ...]
    """The columns that are read."""
    options: Options

    @staticmethod
    def checked(tables: Sequence[tuple[str, Any]], options: Options) -> tuple[tuple[str, ...], Options]:
        """The columns to be read, and the options with the spaces that are stored; tables must have the same columns.

        Args:
            tables: the name and the schema of each.
            options: what the user said.
        """
        first, expected = tables[0]
        names = names_of(first, expected.names, options)
        missing = [name for name in REQUIRED if not names_of(first, expected.names, options, (name,))]
        require(first, missing, expected.names, "map your names with columns=")
        for name, schema in tables:
            check_unique(name, schema.names)
            _check_alike(name, schema, first, expected, names)
        note = (expected.metadata or {}).get(SPACES)
        return tuple(names), options.with_spaces(None if note is None else note.decode())

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.bounds[-1]

    def place(self, row: int) -> int:
        """The number of the table that holds a row."""
        return bisect_right(self.bounds, row) - 1

    @abstractmethod
    def named(self, row: int) -> str:
        """The table that holds a row, for people."""

    @abstractmethod
    def tables_of(self, number: int, first: int, last: int, columns: Sequence[str]) -> Iterator[Any]:
        """Rows of one table, as Arrow tables."""

    def flags(self, first: int, last: int) -> Iterator[dict[str, Array]]:
        """The columns that tell where episodes begin and end, of rows from one number up to another."""
        named = {name: names_of("", self.columns, self.options, (name,)) for name in FLAGS}
        wanted = {name: names[0] for name, names in named.items() if names}
        for table in self._tables(first, last, list(wanted.values())) if wanted else ():
            with reading(Path(self.named(first)), "Parquet"):
                held = _Columns(self.named(first), table)
                found = {name: held[column] for name, column in wanted.items()}
            yield found

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
            columns = _Columns(path, table, names_of("", self.columns, self.options, ("episode",)))
            return from_table(path, columns, self.options)

    def _tables(self, first: int, last: int, columns: Sequence[str]) -> Iterator[Any]:
        for number, (begin, end) in enumerate(pairwise(self.bounds)):
            if end > first and begin < last and end > begin:
                yield from self.tables_of(number, max(first - begin, 0), min(last, end) - begin, columns)


@dataclass(frozen=True)
class ParquetSource(TableSource):
    """The rows of several files, one after another."""

    files: tuple[ParquetFile, ...] = ()

    @classmethod
    def of(cls, files: Sequence[ParquetFile], options: Options) -> ParquetSource:
        """Look at the files' heads: they must have the same columns."""
        if not files:
            raise FileNotFoundError("there are no Parquet files to read")
        bounds, schemas = [0], []
        for file in files:
            with file.opened() as opened:
                schemas.append((file.path, opened.schema_arrow))
                bounds.append(bounds[-1] + opened.metadata.num_rows)
                with reading(Path(file.path), "Parquet"):
                    claim = claimed(opened.metadata)
            read = names_of(file.path, schemas[-1][1].names, options)  # other columns may hold anything
            for total in accumulate(claim[name] for name in read):
                if file.system is None:
                    check_unpacked(file.path, Path(file.path).stat().st_size, total, options.trust)
        names, options = cls.checked(schemas, options)
        if bounds[-1] == 0:
            raise ValueError(f"{files[0].path} has no rows: a dataset needs at least one step")
        made = cls(tuple(bounds), names, options, tuple(files))
        made.check_order()
        return made

    def named(self, row: int) -> str:
        """The file that holds a row."""
        return self.files[self.place(row)].path

    def tables_of(self, number: int, first: int, last: int, columns: Sequence[str]) -> Iterator[Any]:
        """Rows of one file."""
        return self.files[number].tables(first, last, columns)

    def check_order(self) -> None:
        """Refuse files in another order than that of time: an episode that one leaves open goes on in the next one.

        Labels that are counted anew in each file are no sign of another order, for the first one of a file is then
        rarely the last one of another, or it begins several files; nor are labels without flags, of which nothing
        tells that they are open.
        """
        label, flags = (names_of("", self.columns, self.options, some) for some in (("episode",), FLAGS[:2]))
        if not label or not flags or len(self.files) < 2:
            return
        began: dict[Any, list[str]] = {}  # files whose first row is of another episode than the row before
        left_open: dict[Any, str] = {}
        before: Any = None
        gone_on = set()
        for file, (begin, end) in zip(self.files, pairwise(self.bounds), strict=True):
            if begin == end:
                continue
            first, last = (self._ends(row, [*label, *flags]) for row in (begin, end - 1))
            if first[0] == before:
                gone_on.add(before)
            else:
                began.setdefault(first[0], []).append(file.path)
                if first[0] in left_open:
                    raise ValueError(_torn(first[0], left_open[first[0]], file.path))
            before = last[0]
            if not any(last[1:]):
                left_open[last[0]] = file.path
        for episode, path in left_open.items():  # whose end, in a wrong order, comes before its beginning
            others = began.get(episode, [])
            if episode not in gone_on and len(others) == 1 and others != [path]:
                raise ValueError(_torn(episode, path, others[0]))

    def _ends(self, row: int, columns: Sequence[str]) -> list[Any]:
        (table,) = self._tables(row, row + 1, columns)
        return [table.column(name)[0].as_py() for name in columns]


def _torn(episode: Any, opened: str, later: str) -> str:
    return (
        f"episode {episode} is left open in {opened} and goes on in {later}, which does not come next: "
        "give the files in the order of time"
    )


class _Columns(Mapping[str, Array]):
    """The columns of an Arrow table by name.

    Where `labels` names the column of episodes, its runs of equal labels are numbered instead: whether episodes take
    turns was asked of all rows, and a part of them does not know.
    """

    def __init__(self, path: str, table: Any, labels: Sequence[str] = ()) -> None:
        self._path, self._table, self._labels = path, table, labels

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.column_names)

    def __len__(self) -> int:
        return len(self._table.column_names)

    def __getitem__(self, name: str) -> Array:
        column = column_of(self._path, name, self._table.column(name))
        return _runs(episode_column(column, len(column))) if name in self._labels else column


def _runs(label: Array) -> Array:
    """The number of each row's run of equal labels, from 0."""
    return np.concatenate([[0], np.cumsum(label[1:] != label[:-1])])


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


def in_order(paths: Sequence[Path]) -> list[Path]:
    """Paths by name, numbers in them by size: part-2 comes before part-10."""
    return sorted(paths, key=lambda path: [int(word) if word.isdigit() else word for word in _words(str(path))])


def _words(text: str) -> list[str]:
    """Texts and numbers in turn, so that the same places hold the same kind."""
    return re.split(r"(\d+)", text)
