"""What to say of a name that nobody knows: the nearest one that somebody does."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(name: str, known: Iterable[str]) -> str:
    """Say "did you mean …?" with the nearest known name, or the list of all where none is near."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names) or 'none'}"


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that a name is unknown, and which one was probably meant."""
    return f"there is no {kind} {name!r}: {suggestion(name, known)}"
