"""The logged mean: what the behaviour was worth. The control in every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ope_vpm.ope.adapter.time_weights import time_weights, weighted_sums
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.inference.conclude import Found
from ope_vpm.ope.inference.verdict import Evidence
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Naive(ProblemEstimator):
    """The mean logged reward; below γ = 1 weighted by γ^t."""

    name: ClassVar[str] = "naive"

    def find(self, problem: Problem) -> Found:
        """One ratio of sums."""
        weights, tail = time_weights(problem)
        sums = weighted_sums(problem, weights, tail)
        remark = "the logged mean is the behaviour's value, whatever the target does"
        return Found(value=float(sums.ratios.sum()), sums=sums, weights=weights, evidence=Evidence(remarks=(remark,)))
