"""Answers to mistakes: the nearest known name, and all problems of a suite at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class SuiteError(ValueError):
    """What is wrong with a suite, every problem one sentence."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        if len(self.problems) == 1:
            super().__init__(f"{name}: {self.problems[0]}")
        else:
            lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(self.problems, 1))
            super().__init__(f"{name} has {len(self.problems)} problems:\n{lines}")


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """There is no such thing, but there is one with nearly that name."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names) or 'none'}"
    return f"there is no {kind} {name!r}: {hint}"
