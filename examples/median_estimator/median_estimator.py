"""The median over episodes of their mean reward: a control that a few wild episodes cannot move.

It shows all that an estimator of another package needs: a `name`, keyword-only settings, `find`, an uncertainty of its
own, and one line in pyproject.toml. Once installed, `ov.evaluate(..., "median")` and every suite that names "median" or
"all" have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ope_vpm.ope.authoring import Problem, ProblemEstimator, RawEstimate, Uncertainty, doubts_of_weights, remarks


@dataclass(frozen=True, kw_only=True)
class MedianBootstrap(Uncertainty):
    """Medians of episodes that are drawn with replacement."""

    means: Any
    """The mean reward of each episode."""
    replicates: int

    def interval(self, value: float, log: Any, seed: int) -> tuple[float, tuple[float, float]]:
        """The standard deviation and the 95 % percentiles of the medians."""
        rng, ordered = np.random.default_rng(seed), self.means[log.episodes]
        medians = np.median(rng.choice(ordered, size=(self.replicates, len(ordered))), axis=1)
        low, high = np.quantile(medians, [0.025, 0.975])
        return float(medians.std(ddof=1)), (float(low), float(high))


@dataclass(frozen=True, kw_only=True)
class Median(ProblemEstimator):
    """The typical episode of the behaviour policy; like the logged mean it does not ask what the target does."""

    name: ClassVar[str] = "median"

    replicates: int = 200
    """Draws of the bootstrap over episodes that gives the interval."""

    def find(self, problem: Problem) -> RawEstimate:
        """One number for the log, whatever the policy; γ plays no part."""
        data = problem.data
        means = data.returns / data.lengths
        remark = "the median episode is the behaviour's, whatever the target does"
        return RawEstimate(
            value=float(np.median(means)),
            uncertainty=MedianBootstrap(means=means, replicates=self.replicates),
            doubts=(*doubts_of_weights(data, np.ones(len(data))), *remarks([remark])),
        )
