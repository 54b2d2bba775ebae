"""How many threads the linear algebra underneath may use: small problems are faster, and far cheaper, on one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import scipy.linalg  # noqa: F401  # its BLAS must be loaded before it can be limited
import torch  # noqa: F401  # the same for OpenMP
from threadpoolctl import ThreadpoolController

SMALL = 50_000
"""Rows below which a second thread waits more than it works. Measured for vpm with 17-dimensional states on two busy
cores: with 2000 rows the CPU time of two threads is 17 times that of one."""


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread for work on few rows; leave them as they are for more."""
    if rows >= SMALL:
        yield
        return
    with _controller().limit(limits=1):
        yield


@cache
def _controller() -> ThreadpoolController:
    """The libraries with threads of their own; looking for them takes milliseconds, so it is done once."""
    return ThreadpoolController()
