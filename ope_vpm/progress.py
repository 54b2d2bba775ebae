"""Progress on the standard error: a bar where somebody is looking, now and then a line where it goes into a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PERIOD = 5.0
"""Seconds between two lines in a file: a study of a minute leaves a dozen, and what takes less leaves none."""


def progress_bar(transient: bool = False) -> Progress:
    """A bar with counts, times and each task's `note`; nothing is shown where the standard error is not a terminal.

    Args:
        transient: whether it disappears when it is done.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=transient,
        disable=not sys.stderr.isatty(),
    )


@contextmanager
def counting(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Tell how much of one thing is done; call what it gives with the number done."""
    if not sys.stderr.isatty():
        yield lines(title, total)
        return
    with progress_bar() as bar:
        task = bar.add_task(title, total=total, note="")

        def done(number: int) -> None:
            bar.update(task, completed=min(number, total))

        yield done


def lines(title: str, total: int, period: float = PERIOD) -> Callable[[int], None]:
    """A function of the number done that prints a line to the standard error at most once in a period."""
    started = last = time.monotonic()

    def done(number: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= period:
            last = now
            print(f"{title}: {min(number, total)} of {total}, {now - started:.0f} s", file=sys.stderr, flush=True)

    return done


def rates(title: str, total: int, period: float = 1.0) -> Callable[[int], None]:
    """A function of the rows done that tells now and then how fast it goes, and how long it will take.

    On a terminal one line is written again and again; into a file goes a line at most once in `PERIOD` seconds.
    """
    started = last = time.monotonic()
    terminal = sys.stderr.isatty()

    def done(number: int) -> None:
        nonlocal last
        now = time.monotonic()
        finished = number >= total
        if now - last < (period if terminal else PERIOD) and not (terminal and finished):
            return
        last, speed = now, number / max(now - started, 1e-9)
        left = (total - number) / speed if speed > 0 else 0.0
        words = f"{title}: {number:,} of {total:,} rows, {speed:,.0f} rows/s, {left:.0f} s left"
        ending = "" if terminal and not finished else "\n"
        print(f"\r\x1b[K{words}" if terminal else words, end=ending, file=sys.stderr, flush=True)

    return done


@contextmanager
def working(title: str) -> Iterator[None]:
    """Show that something is going on, for as long as it takes, where the standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task(title, total=None)
        yield
