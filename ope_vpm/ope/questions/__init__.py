"""What people ask of a policy beside its value: is it better, how bad can it get, what if the log hides something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ope_vpm import logged
from ope_vpm.ope.inference.value import Asked
from ope_vpm.ope.problem import Problem

if TYPE_CHECKING:
    from ope_vpm.ope.inference.value import PolicyValue


def problem_of(value: PolicyValue, data: Any, policy: Any, method: str) -> Problem:
    """The question that a value answers, asked again.

    Args:
        value: the answer.
        data: the log, where it is given again.
        policy: the target, where it is given again.
        method: who asks, for the error.
    """
    asked = value.asked or Asked()
    if value.question is None:
        raise ValueError(f"{method} needs to know what was asked, and {value.estimator} did not say")
    data, policy = asked.again(data, policy, method)
    log, question = logged.scan_dataset(data), value.question
    return Problem.pose(
        log,
        policy,
        gamma=question.gamma,
        seed=question.seed,
        on_end=question.on_end,
        time_limit=question.time_limit,
        ignore=asked.ignore,
    )
