"""Progress bars on the standard error, where somebody is looking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def progress_bar() -> Progress:
    """A bar with counts and times; nothing is shown where the standard error is not a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )


@contextmanager
def counting(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar for one thing; call what it gives with the number done."""
    with progress_bar() as bar:
        task = bar.add_task(title, total=total)

        def done(number: int) -> None:
            bar.update(task, completed=min(number, total))

        yield done
