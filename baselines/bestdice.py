"""The combination that Yang, Nachum, Dai, Li and Schuurmans (2020) found best of the regularised Lagrangian."""

from __future__ import annotations

from typing import ClassVar

from ope_vpm.ope.ratio.dice import DiceEstimator
from ope_vpm.ope.ratio.lagrangian import Regularisation


class BestDice(DiceEstimator):
    """The ratio ζ ≥ 0 with E[ζ] = 1 and the least E[ζ²], with the reward in the flow."""

    name: ClassVar[str] = "bestdice"
    terms: ClassVar[Regularisation] = Regularisation(primal=0, dual=1, reward=True, normalised=True, positive=True)
