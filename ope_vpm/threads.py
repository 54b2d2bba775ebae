"""One thread for work on few rows."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController

FEW_ROWS = 50_000
"""Rows below which a second thread waits more than it works. Measured for vpm with 17-dimensional states on two busy
cores: with 2000 rows the CPU time of two threads is 17 times that of one."""
_LIMITED: list[ExitStack] = []
"""Where threads are limited just now, the innermost last."""


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread for work on few rows; leave them as they are for more."""
    if rows >= FEW_ROWS:
        yield
        return
    with ExitStack() as stack:
        _LIMITED.append(stack)
        stack.callback(_LIMITED.pop)
        limit_loaded()
        yield


def limit_loaded() -> None:
    """Limit the libraries that are loaded by now to one thread, as long as `threads_for` lasts; nothing outside it."""
    if _LIMITED:
        _LIMITED[-1].enter_context(_controller(len(sys.modules)).limit(limits=1))


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """The libraries with threads of their own; looking for them takes milliseconds, so it is done after imports only.

    Args:
        modules: how many have been imported: one that came later may have brought a library along.
    """
    return ThreadpoolController()
