"""What can be known before anything runs: whether policies fit their data, and estimators their questions."""

from __future__ import annotations

from ope_vpm.leaderboard.suites import Setting, Suite, parse_suite
from ope_vpm.leaderboard.words import SuiteError
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

TOLD = (ValueError, TypeError, ImportError, OSError)
"""What a mistake of the user raises."""


def checked_suite(name: str) -> Suite:
    """A suite by name or file, every part of it tried on a small log; raises `SuiteError` with all problems."""
    suite, problems = parse_suite(name)
    problems += unfit(suite)
    if problems:
        raise SuiteError(suite.name, problems)
    return suite


def unfit(suite: Suite) -> list[str]:
    """Policies that do not fit their data, and estimators that cannot do what is asked."""
    found: list[str] = []
    seen: set[tuple[str, float]] = set()
    for setting in suite.settings:
        if (setting.name, setting.gamma) in seen:
            continue
        seen.add((setting.name, setting.gamma))
        small = setting.task.small()
        try:
            data, targets = small.dataset(suite.first_seed), small.targets()
        except TOLD as error:
            found.append(f"task {setting.name!r}: {_line(error)}")
            continue
        for policy, target in targets.items():
            found += _misfits(suite, setting, policy, data, target)
    return list(dict.fromkeys(found))


def _misfits(suite: Suite, setting: Setting, policy: str, data: LoggedDataset, target: TargetPolicy) -> list[str]:
    try:
        problem = Problem.pose(data, target, gamma=setting.gamma, **setting.task.choices())
    except TOLD as error:
        return [f"task {setting.name!r}, policy {policy!r}: {_line(error)}"]
    found = []
    for entry in suite.competitors(setting):
        estimator = entry.make()
        if isinstance(estimator, ProblemEstimator):
            try:
                estimator.check(problem)
            except TOLD as error:
                found.append(f"estimator {entry.label!r} on task {setting.name!r}, γ={setting.gamma:g}: {_line(error)}")
    return found


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
