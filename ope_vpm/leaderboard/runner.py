"""Checks a suite before anything runs, then runs what is missing of it, each cell stored as it finishes."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ope_vpm.leaderboard.backends import Group, check, run
from ope_vpm.leaderboard.document import DETAILED
from ope_vpm.leaderboard.jobs import Job, grouped, plan
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.store import Claims, Store
from ope_vpm.leaderboard.suite_files import SuiteError
from ope_vpm.leaderboard.suites import Entry, Setting, Suite, parse_suite
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem
from ope_vpm.progress import counting

STORE = "cells.sqlite"
DATA = "data"
LOOK = 0.5
"""Seconds between two looks at what other processes have finished."""
SHARES = 4
"""Groups are so small that every worker gets at least so many: then all finish at about the same time."""


@dataclass(frozen=True)
class Finished:
    """The board after a call of `run_suite`, and how many cells it has run."""

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
    """Groups of jobs that no other process has taken, with the number of jobs finished so far, until all jobs are.

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


TOLD = (ValueError, TypeError, ImportError, OSError, ArithmeticError, MemoryError)
"""What a mistake of the user raises."""


def checked_suite(name: str, trust: bool = False) -> Suite:
    """A suite by name or file, every part of it tried on a small log; raises `SuiteError` with all problems."""
    suite, problems = parse_suite(name, trust)
    left_out: dict[tuple[str, str, float], str] = {}
    seen: set[tuple[str, float]] = set()
    for setting in suite.settings:
        if (setting.name, setting.gamma) not in seen:
            seen.add((setting.name, setting.gamma))
            problems += _unfit(suite, setting, left_out)
    if problems:
        raise SuiteError(suite.name, problems)
    return replace(suite, left_out=left_out)


def _unfit(suite: Suite, setting: Setting, left_out: dict[tuple[str, str, float], str]) -> list[str]:
    """Policies that do not fit their data, and estimators that cannot do what is asked; optional ones stay out."""
    small = setting.task.small()
    try:
        data, targets = small.dataset(suite.first_seed), small.targets()
    except TOLD as error:
        return [f"task {setting.name!r}: {_line(error)}"]
    found = [f"task {setting.name!r}: {problem}" for problem in small.refusals(setting.gamma)]
    for policy, target in targets.items():
        try:
            problem = Problem.pose(data, target, gamma=setting.gamma, **small.choices(setting.gamma))
        except TOLD as error:
            found.append(f"task {setting.name!r}, policy {policy!r}: {_line(error)}")
            continue
        for entry, reason in _refusing(suite.competitors(setting), problem):
            if entry.optional:
                left_out[entry.label, setting.name, setting.gamma] = reason
            else:
                found.append(f"estimator {entry.label!r} on task {setting.name!r}, γ={setting.gamma:g}: {reason}")
    return found


def _refusing(entries: Sequence[Entry], problem: Problem) -> Iterator[tuple[Entry, str]]:
    """The estimators that say that they cannot, and why."""
    for entry in entries:
        estimator = entry.make()
        if isinstance(estimator, ProblemEstimator):
            try:
                estimator.check(problem)
            except TOLD as error:
                yield entry, _line(error)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
