"""How long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable


def fastest(function: Callable[[], object], times: int = 5) -> float:
    """The least of some durations: the others were disturbed."""
    durations = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        durations.append(time.perf_counter() - start)
    return min(durations)
