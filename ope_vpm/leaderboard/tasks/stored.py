"""Tasks whose truths are stored: the paper's robots in PyBullet, and wild tasks by gymnasium id."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from ope_vpm.envs import bullet
from ope_vpm.envs.training import TASKS
from ope_vpm.envs.truth import GAMMA, Value
from ope_vpm.envs.wild import BEHAVIOURS, WildTask, collect_log, wild_task
from ope_vpm.leaderboard.tasks import Stored, at_least, hash_of, without
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.arrays import ArrayPolicy
from ope_vpm.suggestions import unknown


@dataclass(frozen=True, kw_only=True)
class BulletTask(Stored):
    """Checkpoints of a robot's training; the behaviour is the last one with a larger variance, or a mixture."""

    kind: ClassVar[str] = "bullet"

    robot: str
    """"reacher", "halfcheetah" or "ant"."""
    trajectories: int = 100
    length: int = 100
    """25, 50 or 100: those whose truth is stored."""
    alpha: float = 1.0
    """The behaviour has 1 + α times the target's variance."""
    mix: bool = False
    """Every other trajectory by α = 0.5, every other by an older checkpoint, instead of α."""
    policies: tuple[str, ...] = ("target",)
    """"target", or checkpoints such as "step-0320000"."""

    def problems(self) -> list[str]:
        """Names that are not there, truths that are not stored, libraries that are missing."""
        if self.robot not in TASKS:
            return [unknown("robot", self.robot, TASKS)]
        found = at_least(self, trajectories=2, alpha=0)
        if self.length not in bullet.LENGTHS:
            found.append(f"length must be one of {', '.join(map(str, bullet.LENGTHS))}: got {self.length}")
        for name in self.policies:
            try:
                bullet.policy(self.robot, name)
                bullet.stored_truth(self.robot, name)
            except (ValueError, OSError) as error:
                found.append(str(error))
        return found

    def small(self) -> BulletTask:
        """Two short trajectories; their truth is not asked for."""
        return BulletTask(robot=self.robot, trajectories=2, length=5, alpha=self.alpha, policies=self.policies)

    def identity(self, policy: str | None) -> dict[str, Any]:
        """The policies that take part; which other targets there are does not matter."""
        names = ("target", "older", *([] if policy is None else [policy]))
        content = [_content(bullet.policy(self.robot, name)) for name in names]
        return {**without(super().identity(policy), "policies"), "networks": content}

    def truth_identity(self, policy: str) -> dict[str, Any]:
        """Return the stored values, which decide the reference."""
        return asdict(bullet.stored_truth(self.robot, policy))

    def targets(self) -> dict[str, TargetPolicy]:
        """Return the targets, network policies, by name."""
        return {name: bullet.policy(self.robot, name) for name in self.policies}

    def dataset(self, seed: int) -> LoggedDataset:
        """Return the log of one run, by the behaviour."""
        return bullet.dataset(self.robot, bullet.MIX if self.mix else self.alpha, self.trajectories, self.length, seed)

    def stored(self, policy: str, gamma: float) -> Value:
        """Return the value by robot, checkpoint and length."""
        return bullet.stored_truth(self.robot, policy).at(gamma, self.length)

    def axes(self) -> dict[str, Any]:
        """The sizes and α; None for a mixture, which has no α."""
        return {**super().axes(), "alpha": None if self.mix else self.alpha}


def _content(network: ArrayPolicy) -> str:
    """A hash of a network's numbers."""
    parts = [*network.layers.weights, *network.layers.biases]
    parts += [value for value in vars(network.layers).values() if not isinstance(value, list)]
    return hash_of(*(np.asarray(part).tobytes() for part in parts))


TARGET = "target"


@dataclass(frozen=True, kw_only=True)
class WildLeaderboardTask(Stored):
    """One log of a wild task."""

    kind: ClassVar[str] = "wild"
    units: ClassVar[tuple[str, ...]] = ("step", "episode")

    environment: str
    """The gymnasium id."""
    behaviour: str = "near"
    """"near", "older", "mix" or "poor"."""
    whole: bool = False
    """Whether episodes run to the environment's own time limit instead of being cut."""

    def problems(self) -> list[str]:
        """Names that are not there, sizes too small."""
        try:
            wild_task(self.environment)
        except ValueError as error:
            return [str(error)]
        found = at_least(self, trajectories=2)
        if self.behaviour not in BEHAVIOURS:
            found.append(unknown("behaviour", self.behaviour, BEHAVIOURS))
        return found

    def identity(self, policy: str | None) -> dict[str, Any]:
        """Return the settings with a hash of the policies."""
        return {**super().identity(policy), "policies": hash_of(self._task().content())}

    def truth_identity(self, policy: str) -> dict[str, Any]:
        """Return the stored values, which decide the reference."""
        gammas = (1.0,) if self.per == "episode" else (1.0, GAMMA)
        return {str(gamma): asdict(self.stored(policy, gamma)) for gamma in gammas}

    def targets(self) -> dict[str, TargetPolicy]:
        """Return the one target by its name."""
        return {TARGET: self._task().target}

    def dataset(self, seed: int) -> LoggedDataset:
        """Return the log of one run, by the behaviour."""
        return collect_log(self._task(), self.behaviour, self.trajectories, seed, cut=not self.whole)

    def stored(self, policy: str, gamma: float) -> Value:
        """Return the value of the one target; finite tasks are solved exactly instead."""
        return self._task().truth(gamma, "episode" if self.per == "episode" else "step", cut=not self.whole)

    def axes(self) -> dict[str, Any]:
        """The length is that of the log's limit."""
        return {**super().axes(), "length": self._task().steps(not self.whole)}

    def _task(self) -> WildTask:
        return wild_task(self.environment)
