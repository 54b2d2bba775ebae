"""Timing of functions."""

from __future__ import annotations

import time
from collections.abc import Callable


def fastest(function: Callable[[], object], times: int = 5) -> float:
    """Return the shortest of several durations in seconds; longer ones include interference by other processes."""
    durations = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        durations.append(time.perf_counter() - start)
    return min(durations)
