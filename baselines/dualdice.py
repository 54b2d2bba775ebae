"""DualDICE (Nachum, Chow, Dai, Li 2019)."""

from __future__ import annotations

from typing import ClassVar

from ope_vpm.ope.ratio.dice import DiceEstimator
from ope_vpm.ope.ratio.lagrangian import Regularisation


class DualDice(DiceEstimator):
    """The ratio that balances the flow with the least E[ζ²]; E[ζ] = 1 is required at γ = 1 only."""

    name: ClassVar[str] = "dualdice"
    terms: ClassVar[Regularisation] = Regularisation(primal=0, dual=1, reward=False, normalised=False, positive=False)
