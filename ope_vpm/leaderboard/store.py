"""Finished cells in an SQLite file, written one by one, and who computes what of those that are missing.

Processes that share a store each take the cells that nobody else is at work on. A process enters itself as an owner and
renews its entry while it lives. A cell is taken by writing the owner beside its key. What an owner has taken is free
again when it leaves, when its process is gone, or when its entry has not been renewed for a while (a machine that was
switched off). A cell that is computed twice nevertheless has the same result.
"""

import gc
import json
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
        """Close the connection to the file."""
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


LEASE = 60.0
"""Seconds after which an owner that has not renewed its entry is taken to be gone."""
BEAT = 10.0
"""Seconds between two renewals: five may fail."""


class Claims:
    """The cells that this process has taken; a context in which it is at work."""

    def __init__(self, store: Store, *, resume: bool) -> None:
        """Enter the store.

        Args:
            store: where results and claims are.
            resume: whether results that are there already count; if not, everything is computed anew, once by all
                processes that are at work here at the same time.
        """
        self._store, self._resume = store, resume
        self._owner = uuid.uuid4().hex
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True, name="claims")

    def __enter__(self) -> Self:
        entry = (self._owner, socket.gethostname(), os.getpid(), time.time())
        with self._store.writing() as connection:
            if not _living(connection):
                connection.execute("delete from claims")  # of runs that are over
            connection.execute("insert into owners values (?, ?, ?, ?)", entry)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        # If this fails, the store has told why already, and the claims end with the process.
        with suppress(OSError), self._store.writing() as connection:
            connection.execute("delete from owners where owner = ?", (self._owner,))
            connection.execute("delete from claims where owner = ? and not finished", (self._owner,))

    def unfinished(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs whose results are not there yet."""
        with self._store.writing() as connection:
            done = self._done(connection)
        return [job for job in jobs if job.key not in done]

    def take(self, jobs: Sequence[Job]) -> list[Job]:
        """Claim the jobs that are neither finished nor claimed by another process, and return them."""
        with self._store.writing() as connection:
            owners = _living(connection)
            free = [job for job in jobs if self._is_free(connection, job.key, owners)]
            rows = [(job.key, self._owner) for job in free]
            connection.executemany("insert or replace into claims values (?, ?, 0)", rows)
        return free

    def _done(self, connection: sqlite3.Connection) -> set[str]:
        query = "select key from cells" if self._resume else "select key from claims where finished"
        return {key for (key,) in connection.execute(query)}

    def _is_free(self, connection: sqlite3.Connection, key: str, owners: set[str]) -> bool:
        claim = connection.execute("select owner, finished from claims where key = ?", (key,)).fetchone()
        if claim is not None and (claim[1] or claim[0] in owners):
            return False
        here = connection.execute("select 1 from cells where key = ?", (key,)).fetchone() is not None
        return not (self._resume and here)

    def _renew(self) -> None:
        """Renew our entry until we stop; a connection belongs to one thread, so this one has its own."""
        connection = sqlite3.connect(self._store.path, timeout=LEASE / 2, isolation_level=None)
        while not self._stop.wait(BEAT):
            try:
                connection.execute("update owners set renewed = ? where owner = ?", (time.time(), self._owner))
            except sqlite3.Error:
                continue  # the disk is full or busy: the next beat may come through
        connection.close()


def _living(connection: sqlite3.Connection) -> set[str]:
    """The owners that are at work; entries of others are removed."""
    found = connection.execute("select owner, host, pid, renewed from owners").fetchall()
    gone = [owner for owner, host, pid, renewed in found if not _lives(host, pid, renewed)]
    connection.executemany("delete from owners where owner = ?", [(owner,) for owner in gone])
    return {owner for owner, *_ in found} - set(gone)


def _lives(host: str, pid: int, renewed: float) -> bool:
    """Whether an owner has renewed its entry of late and, where that can be seen from here, its process is there."""
    if time.time() - renewed > LEASE:
        return False
    if host != socket.gethostname() or os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, and another user's
        return True
    return True
