"""Finished cells in an SQLite file: written one by one, safe for two processes, readable by anybody."""

from __future__ import annotations

import gc
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ope_vpm.leaderboard.jobs import Job, Result

VERSION = 1
TABLES = (
    """
create table if not exists cells (
    key text primary key,
    cell text not null,
    outcome text,
    error text,
    seconds real not null,
    finished text not null
)
""",
    "create table if not exists owners (owner text primary key, host text, pid integer, renewed real)",
    "create table if not exists claims (key text primary key, owner text not null, finished integer not null)",
)
"""Results; processes at work here, and the cells that each has taken, see `Claims`."""
PATIENCE = 60.0
"""Seconds to wait while another process writes."""
LEAN = ("value", "interval", "standard_error", "effective_sample_size", "verdict")
"""What tables over runs need of an outcome."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Make many small objects that all stay: looking for garbage among them again and again finds none.

    It takes a tenth of the time of a report on 100 000 cells.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Store:
    """Results by the key of their job."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._told():
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            self._connection.execute("pragma journal_mode = wal")
            self._connection.execute(
                "pragma synchronous = normal"
            )  # whole after a kill; a power cut may cost the last cells
            (version,) = self._connection.execute("pragma user_version").fetchone()
            if version not in (0, VERSION):
                raise ValueError(f"{self.path} was written by another version: give another --output")
            for table in TABLES:
                self._connection.execute(table)
            self._connection.execute(f"pragma user_version = {VERSION}")

    def save(self, job: Job, result: Result) -> None:
        """Keep a result, at once; a newer one takes the place of an older."""
        row = self.row(job, result)
        with self.writing() as connection:
            connection.execute("insert or replace into cells values (?, ?, ?, ?, ?, ?)", row)
            connection.execute("update claims set finished = 1 where key = ?", (result.key,))

    @staticmethod
    def row(job: Job, result: Result) -> tuple[Any, ...]:
        """A result as the table of cells holds it."""
        finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        cell = json.dumps(job.describe(), ensure_ascii=False)
        outcome = None if result.error is not None else json.dumps(result.outcome, ensure_ascii=False)
        return result.key, cell, outcome, result.error, result.seconds, finished

    def load(self, keys: Iterable[str], lean: bool = False) -> dict[str, Result]:
        """The results that are there; with `lean` without diagnostics and texts, which take most of the memory."""
        wanted = set(keys)
        with self._told(), without_collection():
            rows = self._connection.execute("select key, outcome, error, seconds from cells")
            return {
                key: Result(key, _read(outcome, lean), error, seconds)
                for key, outcome, error, seconds in rows
                if key in wanted
            }

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other process writes in between; undone if it fails."""
        with self._told():
            self._connection.execute("begin immediate")
            try:
                yield self._connection
            except BaseException:
                if self._connection.in_transaction:  # a full disk has ended it already
                    self._connection.execute("rollback")
                raise
            self._connection.execute("commit")

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn what SQLite raises into one sentence."""
        try:
            yield
        except sqlite3.Error as error:
            raise OSError(
                f"{self.path}: {error} (what is finished stays there; go on with --resume once this is mended)"
            ) from error


def _read(outcome: str | None, lean: bool) -> dict[str, Any]:
    found: dict[str, Any] = {} if outcome is None else json.loads(outcome)
    if lean and "value" in found:
        return {name: found[name] for name in LEAN if name in found}
    return found
