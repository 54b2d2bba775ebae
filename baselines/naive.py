"""The logged mean: what the behaviour was worth. The control in every table."""

from dataclasses import dataclass
from typing import ClassVar

from ope_vpm.ope.authoring import Problem, ProblemEstimator, RawEstimate
from ope_vpm.ope.inference.logged_mean import logged_mean


@dataclass(frozen=True, kw_only=True)
class Naive(ProblemEstimator):
    """The mean logged reward; below γ = 1 weighted by γ^t."""

    name: ClassVar[str] = "naive"
    follows_states: ClassVar[bool] = False
    streams: ClassVar[bool] = True
    counts_parts: ClassVar[bool] = True

    def find(self, problem: Problem) -> RawEstimate:
        """Return the mean logged reward."""
        return logged_mean(problem)
