"""Where the rows of a log come from that is read in parts: files, or blocks of tables in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset


class Source(Protocol):
    """Where rows come from, in the order of time; it can be sent to other machines."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def flags(self, first: int, last: int) -> Iterator[dict[str, Array]]:
        """The columns that tell where episodes begin and end, of rows from one number up to another."""

    def read(self, first: int, last: int, size: int) -> Iterator[LoggedDataset]:
        """The rows from one number up to another, `size` at a time, each time with one row more, if there is one."""

    def named(self, row: int) -> str:
        """The file that holds a row."""
