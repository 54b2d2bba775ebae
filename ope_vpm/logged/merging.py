"""Results of parts of a log, merged as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar


class Mergeable(Protocol):
    """A result of some rows that can be merged with that of others."""

    def merge(self, other: Any, /) -> Any:
        """The result of both."""


Result = TypeVar("Result", bound=Mergeable)


def merged(
    parts: Iterable[Any], function: Callable[..., Result], settings: tuple[Any, ...], told: Callable[[int], None] | None
) -> Result:
    """The merged results of a function over parts.

    Neighbours that hold equally many parts are merged first, like digits of a binary counter: a number that a result
    keeps for each episode is copied log₂(parts) times, and no more than that many results wait.
    """
    waiting: list[tuple[int, Result]] = []  # how many parts a result holds, each at least twice as many as the next
    for part in parts:
        size, found = 1, function(part, *settings)
        while waiting and waiting[-1][0] == size:
            size, found = 2 * size, waiting.pop()[1].merge(found)
        waiting.append((size, found))
        if told is not None:
            told(part.first_row + len(part))
    if not waiting:
        raise ValueError("the log is empty: it needs at least one step")
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1].merge(total)
    return total
