"""Tasks whose truth is exact: linear-Gaussian control in closed form, random MDPs, and Taxi as in the paper."""

from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.envs import taxi
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, GaussianController, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.leaderboard.tasks import Simulated, at_least, hash_of, without
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TablePolicy, TargetPolicy, as_policy
from ope_vpm.suggestions import unknown


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


PAPER_TARGET = 1000
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
    policies: tuple[int, ...] = (PAPER_TARGET,)
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
        own = [] if policy is None else [self._table(policy)]
        tables = [taxi.shipped(self.behaviour), taxi.shipped(PAPER_TARGET), *own]
        content = hash_of(*(one.table.tobytes() for one in tables))
        return {**without(super().identity(policy), "policies"), "tables": content}

    def targets(self) -> dict[str, TargetPolicy]:
        """Return the targets, tables of probabilities, by name."""
        return {f"iteration-{iteration}": taxi.shipped(iteration) for iteration in self.policies}

    def dataset(self, seed: int) -> LoggedDataset:
        """Return the log of one run, by the behaviour, with its probabilities."""
        mixed = taxi.mixed(taxi.shipped(PAPER_TARGET), taxi.shipped(self.behaviour), self.alpha)
        return taxi.simulate(mixed, self.trajectories, self.length, seed)

    def on_policy(self, policy: str, seed: int) -> LoggedDataset:
        """Return as many episodes of the target itself."""
        return taxi.simulate(self._table(policy), self.trajectories, self.length, seed)

    def truth(self, policy: str, gamma: float) -> float:
        """Return the exact value of a policy, by a sparse solve."""
        return taxi.exact_value(self._table(policy), gamma)

    def _table(self, policy: str) -> TablePolicy:
        return taxi.shipped(int(policy.removeprefix("iteration-")))
