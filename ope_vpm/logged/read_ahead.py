"""Read ahead: the next item is made in a thread while the last one is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Iterate over items in order while a thread makes the next one; errors are raised where that item would come."""
    nothing = object()
    with ThreadPoolExecutor(max_workers=1) as thread:
        following = thread.submit(next, items, nothing)
        while (item := following.result()) is not nothing:
            following = thread.submit(next, items, nothing)
            yield item  # type: ignore[misc]  # all but `nothing` are items
