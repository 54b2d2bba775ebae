"""The sentence on top of a leaderboard: which estimator to trust here, and why."""

from __future__ import annotations

from collections.abc import Sequence

from ope_vpm.leaderboard.metrics import Line

TOO_OFTEN = 0.05
"""The share of "reliable" answers that may be confidently wrong: what a 95 % interval promises."""


def trusted(total: Sequence[Line], settings: int) -> str:
    """Who comes nearest to the truth, how near, how often it was confidently wrong, and who is level with it.

    Args:
        total: the lines over all settings, best first.
        settings: how many settings there are.
    """
    level = [line for line in total if line.level]
    if not level:
        return _without_best(total)
    best = min(
        level, key=lambda line: (_risk(line), -line.settings)
    )  # the first of those that ran on the most settings
    said = f"Here, trust {best.estimator}: {_error(best)}{_over(best, settings)}{_safety(best)}."
    for first in (line for line in level if line.best and line is not best):
        said += f" {first.estimator} has the lowest error{_safety(first)}."
    others = [line for line in level if line is not best and not line.best]
    if others:
        same, they = ("is", "it") if len(others) == 1 else ("are", "they")
        there = f" where {they} ran" if any(line.settings < best.settings for line in others) else ""
        said += f" {_listed([line.estimator for line in others])} {same} not significantly worse{there}."
    return said


def _without_best(total: Sequence[Line]) -> str:
    if all(line.numbers["log_mse"][0] is None for line in total):
        return "No truth is known here, so nobody can be called the best: see how far the estimators agree."
    return "Too little is finished to say which estimator to trust."


def _risk(line: Line) -> float:
    """How often it was confidently wrong, where that is more than an interval promises."""
    wrong = line.numbers["confidently_wrong"][0]
    return 0.0 if wrong is None or wrong <= TOO_OFTEN else wrong


def _error(line: Line) -> str:
    ratio, log_mse = line.numbers["ratio"][0], line.numbers["log_mse"][0]
    if ratio is not None:
        return f"its error is {ratio:.2g} times that of an on-policy mean of as many episodes"
    return f"its errors are the smallest (log₁₀ MSE {log_mse:.2f})"


def _over(line: Line, settings: int) -> str:
    if settings == 1:
        return ""
    count = "all" if line.settings == settings else f"{line.settings} of"
    return f", over {count} {settings} settings"


def _safety(line: Line) -> str:
    wrong, count = line.numbers["confidently_wrong"][0], line.reliable["confidently_wrong"]
    if wrong is None or not count:
        return "; it called none of its answers reliable"
    if wrong == 0:
        return f", and none of its {count} answers called reliable was confidently wrong"
    but = ", but" if wrong > TOO_OFTEN else ", and"
    return f"{but} {wrong:.1%} of its {count} answers called reliable were confidently wrong"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
