"""What a task of the leaderboard is: logged data by seed, target policies, and what they are worth; kinds by name."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ope_vpm.envs.truth import GAMMA, Value
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy
from ope_vpm.suggestions import unknown

KINDS = {
    "random_mdp": "ope_vpm.leaderboard.tasks.exact:RandomMDPTask",
    "linear_gaussian": "ope_vpm.leaderboard.tasks.exact:LinearGaussianTask",
    "taxi": "ope_vpm.leaderboard.tasks.exact:TaxiTask",
    "wild": "ope_vpm.leaderboard.tasks.stored:WildLeaderboardTask",
    "bullet": "ope_vpm.leaderboard.tasks.stored:BulletTask",
    "files": "ope_vpm.leaderboard.tasks.files:FilesTask",
}


def task_class(kind: str) -> type[Task]:
    """The kind of task of that name; an unknown one is answered with the nearest."""
    if kind not in KINDS:
        raise ValueError(unknown("kind of task", kind, KINDS))
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)


AXES = ("trajectories", "length", "alpha")
"""The settings that a suite may vary, as the paper's figure does."""
FLOOR_SEED = 1_000_000
"""Added to the seeds of on-policy data, which so share nothing with the logs."""


@dataclass(frozen=True)
class Reference:
    """The true value of a policy, and the error of an on-policy mean of as many episodes."""

    truth: float
    truth_error: float = 0.0
    """The truth's own standard error; 0 where it is exact."""
    floor: float | None = None
    """The root mean squared error of the on-policy mean."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """One setting of one kind of task; subclasses are frozen dataclasses whose fields a suite may give."""

    kind: ClassVar[str]
    slow_data: ClassVar[bool] = False
    """Whether making the data takes longer than reading them, so that they are worth a file."""
    units: ClassVar[tuple[str, ...]] = ("step",)
    """The choices of `per` for which a truth can be known."""

    per: str = "step"
    """What is compared with the truth: the value per "step", or at γ = 1 the return of an "episode"."""

    @abstractmethod
    def targets(self) -> dict[str, TargetPolicy]:
        """The target policies by name."""

    @abstractmethod
    def dataset(self, seed: int) -> LoggedDataset:
        """The log of one run."""

    @abstractmethod
    def reference(self, policy: str, gamma: float) -> Reference | None:
        """The truth, where there is one."""

    def problems(self) -> list[str]:
        """Problems of the settings, one sentence each."""
        return []

    def names(self) -> list[str]:
        """The targets' names."""
        return list(self.targets())

    def choices(self, gamma: float) -> dict[str, Any]:
        """The keyword arguments of an estimator beside data and policy: on_end, time_limit, ignore."""
        return {}

    def refusals(self, gamma: float) -> list[str]:
        """Why there is no such γ here, one sentence each."""
        return []

    def small(self) -> Self:
        """Return this task with a log just large enough to see which estimators fit it."""
        least: dict[str, Any] = {"trajectories": 4, "length": 4}
        return replace(self, **{name: value for name, value in least.items() if hasattr(self, name)})

    def identity(self, policy: str | None) -> dict[str, Any]:
        """Everything but code that decides the data and the policy (None: the data alone), as JSON holds it."""
        return {"kind": self.kind, **asdict(self)}

    def truth_identity(self, policy: str) -> dict[str, Any]:
        """What decides the reference beyond `identity`, as JSON holds it."""
        return {}

    def axes(self) -> dict[str, Any]:
        """The settings that a figure may have on its axis."""
        return {name: getattr(self, name, None) for name in AXES}


@dataclass(frozen=True, kw_only=True)
class Simulated(Task):
    """A task whose targets can be run: its floor is the error of their own on-policy means.

    Its truth is exact.
    """

    replicates: ClassVar[int] = 200
    """On-policy means behind the floor."""

    trajectories: int = 50
    """Logged episodes of one run."""
    length: int = 50
    """Steps of each."""

    @abstractmethod
    def truth(self, policy: str, gamma: float) -> float:
        """Return the exact value of a policy."""

    @abstractmethod
    def on_policy(self, policy: str, seed: int) -> LoggedDataset:
        """Return as many episodes of the target itself, drawn by a seed."""

    def reference(self, policy: str, gamma: float) -> Reference:
        """The exact value, and the error of an on-policy mean over replicates."""
        truth = self.truth(policy, gamma)
        seeds = range(FLOOR_SEED, FLOOR_SEED + self.replicates)
        squared = np.array([(on_policy_mean(self.on_policy(policy, seed), gamma) - truth) ** 2 for seed in seeds])
        return Reference(truth, floor=sqrt(squared.mean()))

    def problems(self) -> list[str]:
        """Refuse fewer than two trajectories, and none of at least one step."""
        return at_least(self, trajectories=2, length=1)


@dataclass(frozen=True, kw_only=True)
class Stored(Task):
    """A task whose truths are stored, at γ = 1 and at γ = 0.99.

    At γ = 1 episodes of at most the log's limit are what is asked about (`time_limit="restart"`); at γ = 0.99 the task
    goes on for ever. The floor is the deviation of one on-policy episode over √trajectories.
    """

    slow_data: ClassVar[bool] = True

    trajectories: int = 50
    """Logged episodes of one run."""

    @abstractmethod
    def stored(self, policy: str, gamma: float) -> Value:
        """The stored value of a policy."""

    def reference(self, policy: str, gamma: float) -> Reference:
        """Return the stored value, and the error of an on-policy mean of as many episodes."""
        known = self.stored(policy, gamma)
        return Reference(known.value, known.standard_error, known.deviation / sqrt(self.trajectories) or None)

    def refusals(self, gamma: float) -> list[str]:
        """Truths are stored for two discounts."""
        return [] if gamma in (1.0, GAMMA) else [f"the truth is stored for gamma 1 and {GAMMA}: got {gamma:g}"]

    def choices(self, gamma: float) -> dict[str, Any]:
        """Tell estimators what a time limit means at this γ."""
        return {"time_limit": "restart" if gamma == 1 else "continue"}


def hash_of(*parts: bytes) -> str:
    """A hash of some bytes."""
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def digest(path: str | Path) -> str:
    """A hash of a file, or of a folder's files; of the name, where there is neither (a Minari id)."""
    place, content = Path(path), hashlib.blake2b(digest_size=16)
    if not place.exists():
        return hash_of(str(path).encode())
    for file in sorted(part for part in place.rglob("*") if part.is_file()) if place.is_dir() else [place]:
        content.update(str(file.relative_to(place)).encode())
        with file.open("rb") as stream:
            while part := stream.read(1 << 20):
                content.update(part)
    return content.hexdigest()


def on_policy_mean(data: LoggedDataset, gamma: float) -> float:
    """The mean reward of the target's own episodes, weighted by γ^t."""
    weight = gamma**data.time
    return float(weight @ data.rewards / weight.sum())


def without(identity: dict[str, Any], name: str) -> dict[str, Any]:
    """An identity in which one field plays no part."""
    return {key: value for key, value in identity.items() if key != name}


def at_least(task: Task, **least: float) -> list[str]:
    """A sentence for each setting below its least value."""
    values = {name: getattr(task, name) for name in least}
    return [
        f"{name} must be at least {least[name]:g}: got {value:g}"
        for name, value in values.items()
        if not value >= least[name]
    ]
