"""Tasks of other people, by gymnasium id: shipped policies, behaviours by name, stored or exact truths."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, ClassVar

from ope_vpm.envs.truth import GAMMA, Value
from ope_vpm.envs.wild import BEHAVIOURS, WildTask, collect_log, wild_task
from ope_vpm.leaderboard.tasks.base import Stored, at_least
from ope_vpm.leaderboard.words import unknown
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy

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
        content = blake2b(self._task().content(), digest_size=16).hexdigest()
        return {**super().identity(policy), "policies": content}

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
