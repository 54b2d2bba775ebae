"""Random finite MDPs, whose every value is a linear solve away."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.leaderboard.tasks.base import Simulated, at_least
from ope_vpm.leaderboard.words import unknown
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy, as_policy

POLICY_SEED = 1


@dataclass(frozen=True, kw_only=True)
class RandomMDPTask(Simulated):
    """Softmax policies with random logits; the behaviour is one of them, mixed with the targets."""

    kind: ClassVar[str] = "random_mdp"

    alpha: float = 0.0
    """The behaviour is (1-α)·its own policy + α·the mean of the targets."""
    states: int = 15
    actions: int = 3
    mdp_seed: int = 0
    policies: int = 5
    """How many targets, with logits of rising size: `target-1` is the nearest to uniform."""
    spread: float = 1.5
    """The deviation of the last target's logits."""

    def problems(self) -> list[str]:
        """Return what is wrong with the sizes and the share α."""
        found = super().problems() + at_least(self, states=2, actions=2, policies=1, mdp_seed=0, spread=0)
        return found if 0 <= self.alpha <= 1 else [*found, f"alpha must be between 0 and 1: got {self.alpha:g}"]

    def targets(self) -> dict[str, TargetPolicy]:
        """Return the targets, tables of probabilities, by name."""
        return {name: as_policy(table) for name, table in self._tables().items()}

    def dataset(self, seed: int) -> LoggedDataset:
        """Return the log of one run, by the behaviour."""
        own = self._mdp().policy(POLICY_SEED)
        mixed = (1 - self.alpha) * own + self.alpha * np.mean(list(self._tables().values()), axis=0)
        return self._mdp().dataset(self.trajectories, self.length, mixed, seed)

    def on_policy(self, policy: str, seed: int) -> LoggedDataset:
        """Return as many episodes of the target itself."""
        return self._mdp().dataset(self.trajectories, self.length, self._table(policy), seed)

    def truth(self, policy: str, gamma: float) -> float:
        """Return the exact value of a policy, by a linear solve."""
        return self._mdp().value(self._table(policy), gamma)

    def _mdp(self) -> RandomMDP:
        return _drawn(self.states, self.actions, self.mdp_seed)

    def _tables(self) -> dict[str, Floats]:
        sizes = self.spread * np.arange(1, self.policies + 1) / self.policies
        seeds = range(POLICY_SEED + 1, POLICY_SEED + 1 + self.policies)
        return {
            f"target-{number}": self._mdp().policy(seed, size)
            for number, (seed, size) in enumerate(zip(seeds, sizes, strict=True), 1)
        }

    def _table(self, policy: str) -> Floats:
        tables = self._tables()
        if policy not in tables:
            raise ValueError(unknown("policy", policy, tables))
        return tables[policy]


_drawn = cache(RandomMDP.draw)
