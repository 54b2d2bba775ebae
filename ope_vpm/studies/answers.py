"""An estimator's answer as a row of results, for the studies of policies."""

from __future__ import annotations

from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem
from ope_vpm.studies.study import Row, timed


def answer(estimator: ProblemEstimator, problem: Problem) -> Row:
    """Return the value, the ends of its interval (NaN without one), the verdict and the seconds."""
    found, seconds = timed(lambda: estimator.answer(problem))
    low, high = found.interval or (float("nan"), float("nan"))
    return {"value": found.value, "low": low, "high": high, "verdict": found.verdict, "seconds": seconds}
