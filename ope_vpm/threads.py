"""One thread for work on few rows, and several such works at once."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from threading import RLock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

from ope_vpm.gathering import works

FEW_ROWS = 50_000
"""Rows below which a second thread waits more than it works. Measured for vpm with 17-dimensional states on two busy
cores: with 2000 rows the CPU time of two threads is 17 times that of one."""
_LOCK = RLock()
_LIMIT, _WORKS = ExitStack(), [0]
"""The limit that all works on few rows share, and how many of them there are just now: the last one takes it away."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread for work on few rows; leave them as they are for more."""
    if rows >= FEW_ROWS:
        yield
        return
    with _LOCK:
        _WORKS[0] += 1
        limit_loaded()
    try:
        yield
    finally:
        with _LOCK:
            _WORKS[0] -= 1
            if not _WORKS[0]:
                _LIMIT.close()


def limit_loaded() -> None:
    """Limit the libraries that are loaded by now to one thread, as long as `threads_for` lasts; nothing outside it."""
    with _LOCK:
        if _WORKS[0]:
            _LIMIT.enter_context(_controller(len(sys.modules)).limit(limits=1))


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """The libraries with threads of their own; looking for them takes milliseconds, so it is done after imports only.

    Args:
        modules: how many have been imported: one that came later may have brought a library along.
    """
    return ThreadpoolController()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_jobs(jobs: int | None) -> None:
    """Refuse a number of jobs that is none."""
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise ValueError(f"jobs must be a whole number, at least 1, or None for one on each core: got {jobs!r}")


def at_once(
    function: Callable[[Item], Result], items: Sequence[Item], rows: int, jobs: int | None, in_parts: bool = False
) -> Iterator[Result]:
    """The results of a function in the order of the items, of which several are worked on at once, each in a thread.

    On a log that is read in parts they share passes (`ope_vpm.gathering`).

    From `FEW_ROWS` on one after another: the libraries then use all cores for each, and two works would take twice the
    memory. So no answer depends on the number of jobs.

    Args:
        function: is called with each item; what it computes for several of them is to be safe under threads.
        items: to work on.
        rows: of the log that each works on.
        jobs: how many at once; None: one on each core.
        in_parts: whether the rows are read in parts.
    """
    check_jobs(jobs)
    if in_parts and len(items) > 1:
        yield from works(function, items)
        return
    threads = min(jobs or cores(), len(items)) if rows < FEW_ROWS else 1
    if threads <= 1:
        yield from map(function, items)
        return
    with threads_for(rows), ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(function, item) for item in items]
        try:
            for each in waiting:
                yield each.result()
        finally:
            for each in waiting:
                each.cancel()
