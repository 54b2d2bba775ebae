"""Runs a suite: what is missing, on a backend, each cell stored as it finishes, behind a progress bar."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ope_vpm.leaderboard.backends import Group, check, run
from ope_vpm.leaderboard.claims import Claims
from ope_vpm.leaderboard.document import DETAILED
from ope_vpm.leaderboard.jobs import Job, grouped, plan
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.store import Store
from ope_vpm.leaderboard.suites import Suite
from ope_vpm.progress import counting

STORE = "cells.sqlite"
DATA = "data"
LOOK = 0.5
"""Seconds between two looks at what other processes have finished."""
SHARES = 4
"""Groups are so small that every worker gets at least so many: then all finish at about the same time."""


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

    Other processes that run on the same store at the same time share the work, and each returns the whole board.
    Ctrl-C ends it early: what is finished is stored, and shown.
    """
    check(backend, workers)
    jobs = plan(suite)
    output.mkdir(parents=True, exist_ok=True)
    store = Store(output / STORE)
    unique = list({job.key: job for job in jobs}.values())
    where = str((output / DATA).resolve())
    computed, interrupted = 0, False
    try:
        with Claims(store, resume=resume) as claims, counting(suite.title, len(unique)) as tell:
            for groups, done in _free(claims, unique, workers or os.cpu_count() or 1):
                tell(done)
                results = run(groups, backend=backend, workers=workers, address=address, folder=where)
                for number, (job, result) in enumerate(results, 1):
                    store.save(job, result)
                    computed += 1
                    tell(done + number)
    except KeyboardInterrupt:
        interrupted = True
    board = Board(suite, jobs, store.load((job.key for job in jobs), lean=len(jobs) > DETAILED))
    store.close()
    return Finished(board, computed, interrupted)


def _free(claims: Claims, jobs: Sequence[Job], workers: int) -> Iterator[tuple[Iterator[Group], int]]:
    """What is free to be computed, and how many jobs are finished before it, again and again until all are.

    The second time and later there is something to do only if another process has died or stopped.
    """
    while left := claims.unfinished(jobs):
        most = max(1, len(left) // (SHARES * workers))
        taken = filter(None, map(claims.take, grouped(left, most)))
        first = next(taken, None)
        if first is None:
            time.sleep(LOOK)
        else:
            yield chain([first], taken), len(jobs) - len(left)
