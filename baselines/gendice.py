"""GenDICE (Zhang, Dai, Li, Schuurmans 2020)."""

from __future__ import annotations

from typing import ClassVar

from ope_vpm.ope.ratio.dice import DiceEstimator
from ope_vpm.ope.ratio.lagrangian import Regularisation


class GenDice(DiceEstimator):
    """The ratio ζ ≥ 0 with E[ζ] = 1 whose flow is balanced for all functions ν that are small in E[ν²]."""

    name: ClassVar[str] = "gendice"
    terms: ClassVar[Regularisation] = Regularisation(primal=1, dual=0, reward=False, normalised=True, positive=True)
