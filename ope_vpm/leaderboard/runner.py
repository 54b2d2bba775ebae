"""Runs a suite: what is missing, on a backend, each cell stored as it finishes, behind a progress bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ope_vpm.leaderboard.backends import check, run
from ope_vpm.leaderboard.jobs import Job, plan
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.store import Store
from ope_vpm.leaderboard.suites import Suite
from ope_vpm.progress import counting

STORE = "cells.sqlite"
DATA = "data"


@dataclass(frozen=True)
class Finished:
    """What a call has done."""

    board: Board
    computed: int
    """Cells that this call has run."""
    interrupted: bool


def run_suite(
    suite: Suite,
    output: Path,
    *,
    backend: str = "loky",
    workers: int | None = None,
    address: str | None = None,
    resume: bool = False,
) -> Finished:
    """Run every cell of a suite, or with `resume` only those that are not in the store yet.

    Ctrl-C ends it early: what is finished is stored, and shown.
    """
    check(backend, workers)
    jobs = plan(suite)
    output.mkdir(parents=True, exist_ok=True)
    store = Store(output / STORE)
    unique = list({job.key: job for job in jobs}.values())
    computed, interrupted = 0, False
    todo = _missing(store, unique) if resume else iter(unique)
    done = len(store.load(job.key for job in unique)) if resume else 0
    try:
        results = run(todo, backend=backend, workers=workers, address=address, folder=str((output / DATA).resolve()))
        with counting(suite.title, len(unique)) as tell:
            tell(done)
            for job, result in results:
                store.save(job, result)
                computed += 1
                tell(done + computed)
    except KeyboardInterrupt:
        interrupted = True
    board = Board(suite, jobs, store.load(job.key for job in jobs))
    store.close()
    return Finished(board, computed, interrupted)


def _missing(store: Store, jobs: Sequence[Job]) -> Iterator[Job]:
    """The jobs that nobody has finished by the time that it is their turn, other processes included."""
    return (job for job in jobs if not store.has(job.key))
