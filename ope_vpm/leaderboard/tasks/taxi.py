"""Taxi, as in the paper: 2000 states, Q-learned policies, exact truths."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from ope_vpm.envs import taxi
from ope_vpm.leaderboard.tasks.base import Simulated, without
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy, TargetPolicy

TARGET = 1000
"""The iteration that α mixes in: the paper's target."""


@dataclass(frozen=True, kw_only=True)
class TaxiTask(Simulated):
    """Policies by their Q-learning iteration; the behaviour is an earlier one, mixed with the last."""

    kind: ClassVar[str] = "taxi"
    replicates: ClassVar[int] = 100

    trajectories: int = 200
    length: int = 400
    alpha: float = 0.0
    """The behaviour is α·(iteration 1000) + (1-α)·`behaviour`."""
    behaviour: int = 950
    policies: tuple[int, ...] = (TARGET,)
    """Iterations of the targets."""

    def problems(self) -> list[str]:
        """Iterations that are not shipped, a share off [0, 1]."""
        found = super().problems()
        if not 0 <= self.alpha <= 1:
            found.append(f"alpha must be between 0 and 1: got {self.alpha:g}")
        if not self.policies:
            found.append("policies must name at least one iteration")
        for iteration in (self.behaviour, *self.policies):
            try:
                taxi.shipped(iteration)
            except ValueError as error:
                found.append(str(error))
        return found

    def identity(self, policy: str | None) -> dict[str, Any]:
        """The tables that take part; which other targets there are does not matter."""
        tables = [
            taxi.shipped(self.behaviour),
            taxi.shipped(TARGET),
            *([] if policy is None else [self._table(policy)]),
        ]
        content = hashlib.blake2b(b"".join(one.table.tobytes() for one in tables), digest_size=16).hexdigest()
        return {**without(super().identity(policy), "policies"), "tables": content}

    def targets(self) -> dict[str, TargetPolicy]:
        """Return the targets, tables of probabilities, by name."""
        return {f"iteration-{iteration}": taxi.shipped(iteration) for iteration in self.policies}

    def dataset(self, seed: int) -> LoggedDataset:
        """Return the log of one run, by the behaviour, with its probabilities."""
        mixed = taxi.mixed(taxi.shipped(TARGET), taxi.shipped(self.behaviour), self.alpha)
        return taxi.simulate(mixed, self.trajectories, self.length, seed)

    def on_policy(self, policy: str, seed: int) -> LoggedDataset:
        """Return as many episodes of the target itself."""
        return taxi.simulate(self._table(policy), self.trajectories, self.length, seed)

    def truth(self, policy: str, gamma: float) -> float:
        """Return the exact value of a policy, by a sparse solve."""
        return taxi.exact_value(self._table(policy), gamma)

    def _table(self, policy: str) -> TablePolicy:
        return taxi.shipped(int(policy.removeprefix("iteration-")))
