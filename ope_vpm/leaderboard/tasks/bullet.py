"""Reacher, HalfCheetah and Ant in PyBullet, as in the paper: shipped policies, stored truths."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from ope_vpm.envs import bullet
from ope_vpm.envs.training import TASKS
from ope_vpm.envs.truth import Value
from ope_vpm.leaderboard.tasks.base import Stored, at_least, without
from ope_vpm.leaderboard.words import unknown
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.arrays import ArrayPolicy


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
        """A mixture has no α."""
        return {**super().axes(), "alpha": None if self.mix else self.alpha}


def _content(network: ArrayPolicy) -> str:
    """A hash of a network's numbers."""
    parts = [*network.layers.weights, *network.layers.biases]
    parts += [value for value in vars(network.layers).values() if not isinstance(value, list)]
    return blake2b(b"".join(np.asarray(part).tobytes() for part in parts), digest_size=16).hexdigest()
