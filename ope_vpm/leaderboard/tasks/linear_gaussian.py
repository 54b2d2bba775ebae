"""The linear-Gaussian control problem: continuous states and actions, every value in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, GaussianController, LinearGaussian
from ope_vpm.leaderboard.tasks.base import Simulated, at_least
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy

STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.25)
"""How far each target lies on the way from the behaviour's gain (0) to the known target's (1)."""


@dataclass(frozen=True, kw_only=True)
class LinearGaussianTask(Simulated):
    """Controllers on a line from the behaviour's gain to the target's and beyond."""

    kind: ClassVar[str] = "linear_gaussian"

    alpha: float = 3.0
    """The behaviour's variance is (1 + α) times the targets'."""

    def problems(self) -> list[str]:
        """Sizes too small."""
        return super().problems() + at_least(self, alpha=0)

    def targets(self) -> dict[str, TargetPolicy]:
        """Gaussian policies."""
        return {name: controller.policy() for name, controller in _controllers().items()}

    def dataset(self, seed: int) -> LoggedDataset:
        """By the behaviour."""
        deviation = TARGET.deviation * sqrt(1 + self.alpha)
        behaviour = GaussianController(BEHAVIOUR.gain, BEHAVIOUR.shift, deviation)
        return LinearGaussian().dataset(self.trajectories, self.length, behaviour, seed)

    def on_policy(self, policy: str, seed: int) -> LoggedDataset:
        """By the target."""
        return LinearGaussian().dataset(self.trajectories, self.length, _controllers()[policy], seed)

    def truth(self, policy: str, gamma: float) -> float:
        """In closed form."""
        return LinearGaussian().value(_controllers()[policy], gamma)


def _controllers() -> dict[str, GaussianController]:
    return {f"gain-{strength:g}": _between(strength) for strength in STRENGTHS}


def _between(strength: float) -> GaussianController:
    def mix(start: float, end: float) -> float:
        return (1 - strength) * start + strength * end

    first, second = (mix(*ends) for ends in zip(BEHAVIOUR.gain, TARGET.gain, strict=True))
    return GaussianController((first, second), mix(BEHAVIOUR.shift, TARGET.shift), TARGET.deviation)
