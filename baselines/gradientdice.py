"""GradientDICE (Zhang, Liu, Whiteson 2020)."""

from __future__ import annotations

from typing import ClassVar

from ope_vpm.ope.ratio.dice import DiceEstimator
from ope_vpm.ope.ratio.lagrangian import Regularisation


class GradientDice(DiceEstimator):
    """GenDICE without the constraint ζ ≥ 0, which makes the saddle point unique."""

    name: ClassVar[str] = "gradientdice"
    terms: ClassVar[Regularisation] = Regularisation(primal=1, dual=0, reward=False, normalised=True, positive=False)
