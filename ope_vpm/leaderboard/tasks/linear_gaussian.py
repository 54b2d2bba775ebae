"""The linear-Gaussian control problem: continuous states and actions, every value in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, GaussianController, LinearGaussian
from ope_vpm.leaderboard.tasks.base import Simulated, at_least, without
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy


@dataclass(frozen=True, kw_only=True)
class LinearGaussianTask(Simulated):
    """Controllers on a line from the behaviour's gain to the target's and beyond."""

    kind: ClassVar[str] = "linear_gaussian"

    alpha: float = 3.0
    """The behaviour's variance is (1 + α) times the targets'."""
    policies: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25)
    """How far each target lies on the way from the behaviour's gain (0) to the known target's (1)."""

    def problems(self) -> list[str]:
        """Sizes too small, targets too far."""
        found = super().problems() + at_least(self, alpha=0)
        if not self.policies or not all(-1 <= strength <= 2 for strength in self.policies):
            found.append(f"policies must be numbers between -1 and 2: got {list(self.policies)}")
        return found

    def identity(self, policy: str | None) -> dict[str, Any]:
        """Which other targets there are plays no part."""
        return without(super().identity(policy), "policies")

    def targets(self) -> dict[str, TargetPolicy]:
        """Return the targets, Gaussian policies, by name."""
        return {name: _between(strength).policy() for name, strength in self._strengths().items()}

    def dataset(self, seed: int) -> LoggedDataset:
        """Return the log of one run, by the behaviour."""
        deviation = TARGET.deviation * sqrt(1 + self.alpha)
        behaviour = GaussianController(BEHAVIOUR.gain, BEHAVIOUR.shift, deviation)
        return LinearGaussian().dataset(self.trajectories, self.length, behaviour, seed)

    def on_policy(self, policy: str, seed: int) -> LoggedDataset:
        """Return as many episodes of the target itself."""
        return LinearGaussian().dataset(self.trajectories, self.length, _between(self._strengths()[policy]), seed)

    def _strengths(self) -> dict[str, float]:
        return {f"gain-{strength:g}": strength for strength in self.policies}

    def truth(self, policy: str, gamma: float) -> float:
        """Return the exact value of a policy, in closed form."""
        return LinearGaussian().value(_between(self._strengths()[policy]), gamma)


def _between(strength: float) -> GaussianController:
    def mix(start: float, end: float) -> float:
        return (1 - strength) * start + strength * end

    first, second = (mix(*ends) for ends in zip(BEHAVIOUR.gain, TARGET.gain, strict=True))
    return GaussianController((first, second), mix(BEHAVIOUR.shift, TARGET.shift), TARGET.deviation)
