"""The DICE family: settings of one regularised Lagrangian, linear in features in closed form, or with networks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ope_vpm.ope.estimator import check_positive
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.linear.estimate import LinearEstimate, PairEquations
from ope_vpm.ope.ratio.estimator import RatioEstimator, ratio_estimate
from ope_vpm.ope.ratio.lagrangian import Regularisation, linear_ratio

MOST_UNSETTLED = 0.01
"""The share of rows that may still change sides of 0 without a remark: so few do not move the value."""


@dataclass(frozen=True, kw_only=True)
class DiceEstimator(RatioEstimator):
    """The saddle point of the regularised Lagrangian for one setting of its terms."""

    terms: ClassVar[Regularisation]
    """The terms that the method has."""

    solver: str = "linear"
    """On continuous states: "linear" (closed form) or "neural" (two players with networks, as published)."""
    training_steps: int = 3000
    """Gradient steps of the networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.solver not in ("linear", "neural"):
            raise ValueError(f"unknown solver {self.solver!r}: known are linear, neural")
        check_positive(self, "training_steps")

    def find_linear(self, equations: PairEquations, lstd: LinearEstimate) -> RawEstimate:
        """The ratio at the saddle point; its value and interval as `ratio_estimate` has them."""
        problem, pairs, terms = equations.problem, equations.rows, self.terms
        remarks: tuple[str, ...] = ()
        if problem.gamma == 1 and not terms.normalised:
            terms = replace(terms, normalised=True)
            remarks = (f"{self.name} is for γ < 1: at γ = 1 its ratio is 0 unless E[ζ] = 1 is added, as here",)
        if self.solver == "neural":
            from ope_vpm.ope.ratio.networks import neural_ratio  # which needs torch

            by_row = np.zeros(len(problem.data))
            by_row[problem.steps.rows] = neural_ratio(problem, terms, self.training_steps, self.draws)
            zeta = by_row[pairs.rows]
        else:
            zeta, unsettled = linear_ratio(equations, lstd.ridge, terms)
            if unsettled > MOST_UNSETTLED:
                remarks += (f"ζ ≥ 0 did not settle: {unsettled:.0%} of the rows still change sides",)
        return ratio_estimate(equations, lstd, zeta, self.solver, remarks)
