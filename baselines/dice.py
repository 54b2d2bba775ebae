"""The DICE family: saddle points of one regularised Lagrangian, which differ in the terms that they have.

DualDICE is by Nachum, Chow, Dai and Li (2019), GenDICE by Zhang, Dai, Li and Schuurmans (2020), GradientDICE by Zhang,
Liu and Whiteson (2020), and "bestdice" the combination that Yang, Nachum, Dai, Li and Schuurmans (2020) found best.
Linear in features they have a closed form; with networks two players learn, as published.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.linear.estimate import LinearEstimate
from ope_vpm.ope.ratio.estimator import RatioEstimator, ratio_estimate
from ope_vpm.ope.ratio.lagrangian import Regularisation, linear_ratio

MOST_UNSETTLED = 0.01
"""The share of rows that may still change sides of 0 without a remark: so few do not move the value."""


@dataclass(frozen=True, kw_only=True)
class DiceEstimator(RatioEstimator):
    """The saddle point of the regularised Lagrangian for one setting of its terms."""

    words: ClassVar[dict[str, tuple[str, ...]]] = {"solver": ("linear", "neural")}
    terms: ClassVar[Regularisation]
    """The terms that the method has."""

    solver: str = "linear"
    """On continuous states: "linear" (closed form) or "neural" (two players with networks, as published)."""
    training_steps: int = 3000
    """Gradient steps of the networks."""

    def find_linear(self, lstd: LinearEstimate) -> RawEstimate:
        """The ratio at the saddle point; its value and interval as `ratio_estimate` has them."""
        equations, terms = lstd.equations, self.terms
        problem, pairs = equations.problem, equations.rows
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
        return ratio_estimate(lstd, zeta, self.solver, remarks)


class DualDice(DiceEstimator):
    """The ratio that balances the flow with the least E[ζ²]; E[ζ] = 1 is required at γ = 1 only."""

    name: ClassVar[str] = "dualdice"
    terms: ClassVar[Regularisation] = Regularisation(primal=0, dual=1, reward=False, normalised=False, positive=False)


class GenDice(DiceEstimator):
    """The ratio ζ ≥ 0 with E[ζ] = 1 whose flow is balanced for all functions ν that are small in E[ν²]."""

    name: ClassVar[str] = "gendice"
    terms: ClassVar[Regularisation] = Regularisation(primal=1, dual=0, reward=False, normalised=True, positive=True)


class GradientDice(DiceEstimator):
    """GenDICE without the constraint ζ ≥ 0, which makes the saddle point unique."""

    name: ClassVar[str] = "gradientdice"
    terms: ClassVar[Regularisation] = Regularisation(primal=1, dual=0, reward=False, normalised=True, positive=False)


class BestDice(DiceEstimator):
    """The ratio ζ ≥ 0 with E[ζ] = 1 and the least E[ζ²], with the reward in the flow."""

    name: ClassVar[str] = "bestdice"
    terms: ClassVar[Regularisation] = Regularisation(primal=0, dual=1, reward=True, normalised=True, positive=True)
