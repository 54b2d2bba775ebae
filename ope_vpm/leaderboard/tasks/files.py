"""A user's own task: a logged dataset and policies, by their files, and the truth where it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from ope_vpm.leaderboard.tasks import Reference, Task, digest
from ope_vpm.logged import LoggedDataset, load_dataset
from ope_vpm.policy import TargetPolicy, load_policy
from ope_vpm.suggestions import unknown


@dataclass(frozen=True, kw_only=True)
class FilesTask(Task):
    """Data and policies by path, relative to the suite's file."""

    kind: ClassVar[str] = "files"
    units: ClassVar[tuple[str, ...]] = ("step", "episode")

    dataset_file: str
    """`dataset` in the suite: a file, a Minari folder, or a Minari id."""
    policies: Mapping[str, str]
    """Names and files."""
    truth: Mapping[str, float] = field(default_factory=dict)
    """By policy, on the scale of one reward at the suite's γ, or where `per` is "episode" the return of one; those
    without are ranked and not scored."""
    trajectories: int | None = None
    """A run takes that many of the logged episodes, drawn by its seed without replacement; None: all of them."""
    format: str | None = None
    on_end: str | None = None
    time_limit: str = "continue"
    ignore: tuple[str, ...] = ()
    trust: bool = False
    """Allow files that run code when they are read."""

    def problems(self) -> list[str]:
        """Names that are not there, files that cannot be read."""
        found = [
            unknown("policy", name, self.policies) + " (in truth)" for name in self.truth if name not in self.policies
        ]
        if not self.policies:
            found.append("policies must name at least one policy file")
        found += _unreadable(self._whole)
        for name in self.policies:
            found += _unreadable(lambda name=name: self._target(name))
        if not found and self.trajectories is not None and not 2 <= self.trajectories <= self._whole().n_episodes:
            episodes = self._whole().n_episodes
            found.append(f"trajectories must be between 2 and the log's {episodes} episodes: got {self.trajectories}")
        return found

    def names(self) -> list[str]:
        """The policies' names in the suite."""
        return list(self.policies)

    def targets(self) -> dict[str, TargetPolicy]:
        """Load the policies from their files."""
        return {name: self._target(name) for name in self.policies}

    def dataset(self, seed: int) -> LoggedDataset:
        """The log, or some of its episodes."""
        data = self._whole()
        if self.trajectories is None:
            return data
        episodes = np.random.default_rng(seed).choice(data.n_episodes, self.trajectories, replace=False)
        return data.select(np.sort(episodes))

    def reference(self, policy: str, gamma: float) -> Reference | None:
        """The user's truth; the logged episodes stand in for on-policy ones."""
        if policy not in self.truth:
            return None
        data = self._whole()
        episodes = self.trajectories or data.n_episodes
        means = data.returns if self.per == "episode" else data.returns / data.lengths
        spread = float(means.std(ddof=1)) if len(means) > 1 else 0.0
        return Reference(self.truth[policy], floor=spread / np.sqrt(episodes) or None)

    def choices(self, gamma: float) -> dict[str, Any]:
        """The choices that the suite gives."""
        return {"on_end": self.on_end, "time_limit": self.time_limit, "ignore": self.ignore}

    def small(self) -> FilesTask:
        """Itself: the files are what is to be checked."""
        return self

    def identity(self, policy: str | None) -> dict[str, Any]:
        """Hashes of the files' content, so that their paths do not matter."""
        return {
            "kind": self.kind,
            "dataset": digest(self.dataset_file),
            "policy": None if policy is None else digest(self.policies[policy]),
            "trajectories": self.trajectories,
            "choices": [self.on_end, self.time_limit, list(self.ignore)],
            "per": self.per,
        }

    def truth_identity(self, policy: str) -> dict[str, Any]:
        """The true value that the suite gives."""
        return {"truth": self.truth.get(policy)}

    def _whole(self) -> LoggedDataset:
        return _loaded(self.dataset_file, digest(self.dataset_file), self.format, self.trust)

    def _target(self, name: str) -> TargetPolicy:
        return load_policy(self.policies[name], trust=self.trust)


@lru_cache(maxsize=2)
def _loaded(path: str, content: str, format_name: str | None, trust: bool) -> LoggedDataset:
    return load_dataset(path, format=format_name, trust=trust)


def _unreadable(read: Any) -> list[str]:
    try:
        read()
    except (OSError, ValueError, TypeError, ImportError) as error:
        return [" ".join(str(error).split())]
    return []
