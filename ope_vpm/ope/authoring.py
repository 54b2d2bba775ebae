"""All that an estimator is written with: nine names.

An estimator is a frozen dataclass of keyword-only settings, with a `name` and one method:

    class Mine(ProblemEstimator):
        name: ClassVar[str] = "mine"

        def find(self, problem: Problem) -> RawEstimate: ...

`problem` has the log (`problem.data`), the target (`problem.policy`), `gamma`, the steps of the target's chain
(`problem.steps`) and what other estimators share (functions that are `remembered`). `RawEstimate` takes a value, its
uncertainty, the weights of the rows and the doubts about it; interval and verdict are made of these. At γ = 1 on tasks
that end, `find` is asked about two further rewards for the return of an episode, unless the estimate has it as
`per_episode`.
"""

from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.inference.doubts import remarks
from ope_vpm.ope.inference.estimate import RawEstimate, doubts_of_weights
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums, Uncertainty, influence_sums
from ope_vpm.ope.problem import Problem

__all__ = [
    "Bootstrap",
    "EpisodeSums",
    "Problem",
    "ProblemEstimator",
    "RawEstimate",
    "Uncertainty",
    "doubts_of_weights",
    "influence_sums",
    "remarks",
]
