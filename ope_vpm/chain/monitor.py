"""What solvers share: the damping schedule α_t, and the progress that each power step reports."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING

from ope_vpm.arrays import Floats
from ope_vpm.progress import progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress


Schedule = Callable[[int], float]
Damping = float | str | Schedule


def schedule(damping: Damping) -> Schedule:
    """Return the damping α_t as a function of the step t = 1, 2, ….

    Args:
        damping: a constant in (0, 1]; "sqrt" for the paper's 1/√t; or a function of t.
    """
    if callable(damping):
        return lambda step: _checked(damping(step), step)
    if damping == "sqrt":
        return inverse_square_root
    if isinstance(damping, str) or not 0 < damping <= 1:
        raise ValueError(f'damping must be a number in (0, 1], "sqrt" or a function of the step: got {damping!r}')
    return lambda step: damping


def _checked(alpha: float, step: int) -> float:
    if not 0 < alpha <= 1:
        raise ValueError(f"damping must give numbers in (0, 1]: at step {step} it gave {alpha}")
    return alpha


def inverse_square_root(step: int) -> float:
    """Return α_t = 1/√t, the step size of thm:convergence."""
    return 1 / math.sqrt(step)


Info = dict[str, float]
Callback = Callable[[int, Info], object]


class Monitor:
    """Reports the progress of an iteration, and ends it on Ctrl-C.

    ```python
    with Monitor("VPM", total=100, callback=None) as monitor:
        for step in range(1, 101):
            tau = better(tau)
            monitor.report(step, {"change": 0.1})
    monitor.interrupted  # True if the user pressed Ctrl-C: tau is the best so far
    ```
    """

    DELAY = 1.0
    """Seconds before a bar appears, so that none flashes up for short fits."""

    def __init__(self, label: str, total: int, callback: Callback | None = None) -> None:
        self.interrupted = False
        self.history: list[Info] = []
        self._label = label
        self._total = total
        self._callback = callback
        self._bar: Progress | None = None
        self._start = time.monotonic()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._bar is not None:
            self._bar.stop()
        self.interrupted = kind is KeyboardInterrupt
        return self.interrupted

    def follow(self, iterates: Iterator[tuple[Floats, float]], start: Floats, tolerance: float) -> Floats:
        """The last of some iterates: after `total` of them, when they settle, or when the user presses Ctrl-C.

        Args:
            iterates: each with the size of its change.
            start: what is returned when the user stops before the first.
            tolerance: iterates that change by less have settled.
        """
        last = start
        with self:
            for step, (iterate, change) in enumerate(islice(iterates, self._total), 1):
                last = iterate
                self.report(step, {"change": change})
                if change < tolerance:
                    break
        return last

    def report(self, step: int, info: Info) -> None:
        """Record one finished step, move the bar, and call the user's callback.

        Args:
            step: the number of the step, from 1.
            info: named numbers of the step, such as its change.
        """
        self.history.append(info)
        if self._bar is None and time.monotonic() - self._start > self.DELAY and sys.stderr.isatty():
            self._bar = progress_bar(transient=True)
            self._bar.start()
            self._bar.add_task(self._label, total=self._total, note="")
        if self._bar is not None:
            note = "  ".join(f"{name} {value:.3g}" for name, value in info.items())
            self._bar.update(self._bar.task_ids[0], completed=step, note=note)
        if self._callback is not None:
            self._callback(step, dict(info))
