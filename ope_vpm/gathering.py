"""Passes over a log that several works ask for, made as one.

Each work has a thread, and works take turns, so that one of them computes at a time. Who asks for a pass gives up its
turn and waits; when all others wait, too, one pass is made for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event, Lock, RLock
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
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
