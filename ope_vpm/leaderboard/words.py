"""Answers to mistakes: the nearest known name, and all problems of a suite at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ope_vpm.suggestions import suggestion


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
    return f"there is no {kind} {name!r}: {suggestion(name, known)}"
