"""Finished cells in an SQLite file: written one by one, safe for two processes, readable by anybody."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ope_vpm.leaderboard.jobs import Job, Result

VERSION = 1
TABLE = """
create table if not exists cells (
    key text primary key,
    cell text not null,
    outcome text,
    error text,
    seconds real not null,
    finished text not null
)
"""
PATIENCE = 60.0
"""Seconds to wait while another process writes."""


class Store:
    """Results by the key of their job."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self._told():
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
            self._connection.execute("pragma journal_mode = wal")
            (version,) = self._connection.execute("pragma user_version").fetchone()
            if version not in (0, VERSION):
                raise ValueError(f"{self.path} was written by another version: give another --output")
            self._connection.execute(TABLE)
            self._connection.execute(f"pragma user_version = {VERSION}")

    def save(self, job: Job, result: Result) -> None:
        """Keep a result, at once; a newer one takes the place of an older."""
        finished = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        cell = json.dumps(job.describe(), ensure_ascii=False)
        outcome = None if result.error is not None else json.dumps(result.outcome, ensure_ascii=False)
        row = (result.key, cell, outcome, result.error, result.seconds, finished)
        with self._told():
            self._connection.execute("insert or replace into cells values (?, ?, ?, ?, ?, ?)", row)

    def load(self, keys: Iterable[str]) -> dict[str, Result]:
        """The results that are there."""
        wanted = set(keys)
        with self._told():
            rows = self._connection.execute("select key, outcome, error, seconds from cells").fetchall()
        return {
            key: Result(key, json.loads(outcome) if outcome is not None else {}, error, seconds)
            for key, outcome, error, seconds in rows
            if key in wanted
        }

    def has(self, key: str) -> bool:
        """Whether a result is there, failures included."""
        with self._told():
            return self._connection.execute("select 1 from cells where key = ?", (key,)).fetchone() is not None

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
