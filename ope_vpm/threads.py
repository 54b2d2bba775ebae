"""Several works at once: threads with one core each, shared passes over a log, properties that hold no common lock.

Each work has a thread. On a log that is read in parts works take turns, so that one of them computes at a time. Who
asks for a pass gives up its turn and waits; when all others wait, too, one pass is made for all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Event, Lock, RLock
from typing import TYPE_CHECKING, Any, TypeVar

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801  # takes the place of functools' own
        """That of Python 3.12: the one of 3.11 holds a lock for all objects of a class while it computes."""

        def __init__(self, make: Any) -> None:
            self.make, self.__doc__ = make, make.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            kept = instance.__dict__
            if self.name not in kept:
                kept[self.name] = self.make(instance)
            return kept[self.name]


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

    On a log that is read in parts they share passes (`ope_vpm.threads`).

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


MOST_WORKS = 20
"""Works of one gathering: each keeps moments and what it knows of the log's sample, some 50 MB, until its next turn."""


@dataclass(eq=False)
class Request:
    """What a work wants of a pass."""

    log: int
    """A number of the log: requests about one can be answered by one pass."""
    make: Callable[[list[Any]], list[Any]]
    """Makes a pass for all that was asked about this log."""
    asked: Any
    ready: Event = field(default_factory=Event)
    found: Any = None
    error: BaseException | None = None


class Gathering:
    """Works that take turns, and wait for one another where they ask for passes."""

    def __init__(self) -> None:
        self.turn, self.busy = Lock(), 0
        self.waiting: list[Request] = []
        self.stopped: BaseException | None = None

    def run(self, function: Callable[[Item], Result], item: Item) -> Result:
        """One work, in a thread of its own."""
        with self.turn:
            _CURRENT.set(self)
            try:
                return function(item)
            except BaseException as error:
                self.stopped = self.stopped or error  # of the others nobody wants an answer any more
                raise
            finally:
                self._leave()

    def ask(self, request: Request) -> Any:
        """The answer to a request, after the pass that brings it."""
        if self.stopped is not None:
            raise self.stopped
        self.waiting.append(request)
        self._leave()
        self._away(request.ready.wait)
        if request.error is not None:
            raise request.error
        return request.found

    def idle(self, wait: Callable[[], Result]) -> Result:
        """Wait for something that another work has to do first."""
        self._leave()
        try:
            return self._away(wait)
        finally:
            self.busy += 1

    def _leave(self) -> None:
        """Count one work less that may still ask; when there is none, answer those that wait."""
        self.busy -= 1
        if self.busy == 0 and self.waiting:
            waiting, self.waiting = self.waiting, []
            for log in dict.fromkeys(each.log for each in waiting):
                self._serve([each for each in waiting if each.log == log])
            self.busy += len(waiting)

    def _serve(self, requests: list[Request]) -> None:
        try:
            found = requests[0].make([each.asked for each in requests])
            for each, answer in zip(requests, found, strict=True):
                each.found = answer
        except BaseException as error:  # it belongs to those who asked, not to whom the pass fell
            for each in requests:
                each.error = error
        for each in requests:
            each.ready.set()

    def _away(self, wait: Callable[[], Result]) -> Result:
        """Let others have their turns in the meantime."""
        self.turn.release()
        try:
            return wait()
        finally:
            self.turn.acquire()


_CURRENT: ContextVar[Gathering | None] = ContextVar("_CURRENT", default=None)


def works(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The results of a function for each item, in their order; passes that all of them ask for are made as one."""
    for first in range(0, len(items), MOST_WORKS):
        yield from _some_works(function, items[first : first + MOST_WORKS])


def _some_works(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    current = _CURRENT.get()
    gathering = current or Gathering()
    with ThreadPoolExecutor(len(items)) as pool:
        gathering.busy += len(items)
        running = [pool.submit(gathering.run, function, item) for item in items]
        if current is not None:  # works of a work
            yield from current.idle(lambda: [each.result() for each in running])
            return
        try:
            for each in running:
                yield each.result()
        finally:
            gathering.stopped = gathering.stopped or RuntimeError("nobody waits for these works any more")


def gathered(log: object, make: Callable[[list[Any]], list[Any]], asked: Any) -> Any:
    """The answer of a pass, which is shared with other works where there are any.

    Args:
        log: what is passed over.
        make: the answers of one pass to several things that are asked.
        asked: what is asked.
    """
    current = _CURRENT.get()
    if current is None:
        return make([asked])[0]
    return current.ask(Request(id(log), make, asked))


@contextmanager
def held(lock: RLock) -> Iterator[None]:
    """A lock, for which a work waits outside of its turn: another one may have to ask for a pass before it is free."""
    current = _CURRENT.get()
    if current is None:
        lock.acquire()
    elif not lock.acquire(blocking=False):
        current.idle(lock.acquire)
    try:
        yield
    finally:
        lock.release()
