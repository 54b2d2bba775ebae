"""What can be known before anything runs: whether policies fit their data, and estimators their questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ope_vpm.leaderboard.suites import Entry, Setting, Suite, parse_suite
from ope_vpm.leaderboard.words import SuiteError
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem

TOLD = (ValueError, TypeError, ImportError, OSError, ArithmeticError, MemoryError)
"""What a mistake of the user raises."""


def checked_suite(name: str, trust: bool = False) -> Suite:
    """A suite by name or file, every part of it tried on a small log; raises `SuiteError` with all problems."""
    suite, problems = parse_suite(name, trust)
    left_out: dict[tuple[str, str, float], str] = {}
    seen: set[tuple[str, float]] = set()
    for setting in suite.settings:
        if (setting.name, setting.gamma) not in seen:
            seen.add((setting.name, setting.gamma))
            problems += _unfit(suite, setting, left_out)
    if problems:
        raise SuiteError(suite.name, problems)
    return replace(suite, left_out=left_out)


def _unfit(suite: Suite, setting: Setting, left_out: dict[tuple[str, str, float], str]) -> list[str]:
    """Policies that do not fit their data, and estimators that cannot do what is asked; optional ones stay out."""
    small = setting.task.small()
    try:
        data, targets = small.dataset(suite.first_seed), small.targets()
    except TOLD as error:
        return [f"task {setting.name!r}: {_line(error)}"]
    found = [f"task {setting.name!r}: {problem}" for problem in small.refusals(setting.gamma)]
    for policy, target in targets.items():
        try:
            problem = Problem.pose(data, target, gamma=setting.gamma, **small.choices(setting.gamma))
        except TOLD as error:
            found.append(f"task {setting.name!r}, policy {policy!r}: {_line(error)}")
            continue
        for entry, reason in _refusing(suite.competitors(setting), problem):
            if entry.optional:
                left_out[entry.label, setting.name, setting.gamma] = reason
            else:
                found.append(f"estimator {entry.label!r} on task {setting.name!r}, γ={setting.gamma:g}: {reason}")
    return found


def _refusing(entries: Sequence[Entry], problem: Problem) -> Iterator[tuple[Entry, str]]:
    """The estimators that say that they cannot, and why."""
    for entry in entries:
        estimator = entry.make()
        if isinstance(estimator, ProblemEstimator):
            try:
                estimator.check(problem)
            except TOLD as error:
                yield entry, _line(error)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
