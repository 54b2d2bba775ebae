"""What a wild task is: an environment, a target policy, behaviours that log, and what the target is worth.

Rules for verdicts and settings of estimators may be chosen on the "tuning" half; the "reporting" half is for figures.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from ope_vpm.envs.truth import GAMMA, Value
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy

BEHAVIOURS = ("near", "older", "mix", "poor")
HALVES = ("tuning", "reporting")
NEAR = 2.0
"""Times the target's variance, or temperature, that the behaviour "near" has."""

Per = Literal["step", "episode"]
Half = Literal["tuning", "reporting"]


@dataclass(frozen=True, kw_only=True)
class WildTask(ABC):
    """One environment with its target policy, its behaviours and its truth."""

    id: str
    """The gymnasium id."""
    half: Half
    """Whether settings may be chosen on it or figures reported."""
    limit: int
    """Steps at which a cut log stops each episode."""
    own_limit: int
    """Steps at which a whole log does: the environment's own time limit."""

    @property
    @abstractmethod
    def target(self) -> TargetPolicy:
        """The policy to evaluate."""

    @abstractmethod
    def near(self) -> TargetPolicy:
        """The target with twice its variance or temperature."""

    @abstractmethod
    def older(self) -> TargetPolicy:
        """A policy of clearly less skill."""

    @abstractmethod
    def poor(self) -> TargetPolicy:
        """Uniformly random actions."""

    @abstractmethod
    def run(self, policies: list[TargetPolicy], episodes: int, limit: int, seed: int) -> LoggedDataset:
        """Episodes of at most `limit` steps by some policies in turn."""

    @abstractmethod
    def truth(self, gamma: float, per: Per = "step", *, cut: bool = True) -> Value:
        """The true value of the target, with its standard error and the deviation of one on-policy episode.

        Args:
            gamma: 0.99 for (1 - γ)·E[Σ γ^t r_t] of the task without its time limit (`time_limit="continue"`), or 1 for
                episodes of at most `steps(cut)` steps (`time_limit="restart"`).
            per: at γ = 1, "step" for E[Σ r] / E[length] and "episode" for the undiscounted return of an episode.
            cut: whether the log is cut at `limit`, which matters at γ = 1.
        """

    @abstractmethod
    def content(self) -> bytes:
        """The numbers of the target and the older policy, from which all others follow."""

    def behaviour(self, kind: str) -> list[TargetPolicy]:
        """The policies that log in turn, by a name: "near", "older", "mix" (both in turn), "poor", or "target"."""
        if kind == "mix":
            return [self.near(), self.older()]
        if kind == "target":
            return [self.target]
        if kind not in BEHAVIOURS:
            raise ValueError(f"a behaviour is one of {', '.join(BEHAVIOURS)} and target: got {kind!r}")
        policy: TargetPolicy = getattr(self, kind)()
        return [policy]

    def steps(self, cut: bool = True) -> int:
        """The most steps that an episode of the log has."""
        return self.limit if cut else self.own_limit

    def floor(self, episodes: int, gamma: float, per: Per = "step", *, cut: bool = True) -> float:
        """The standard deviation of an on-policy mean of as many episodes; 0 where the rewards leave no doubt."""
        return self.truth(gamma, per, cut=cut).deviation / sqrt(episodes)


def collect_log(task: WildTask, behaviour: str, episodes: int, seed: int, *, cut: bool = True) -> LoggedDataset:
    """A log of a wild task, the same again for the same arguments.

    Args:
        task: one of `wild_tasks()`.
        behaviour: "near", "older", "mix", "poor", or "target".
        episodes: how many.
        seed: of resets and actions; the first 50 episodes of 200 are those of a call for 50.
        cut: whether episodes are cut at the task's `limit`, or whole.
    """
    return task.run(task.behaviour(behaviour), episodes, task.steps(cut), seed)


def check_gamma(gamma: float, per: Per) -> None:
    """Refuse a discount or a unit for which no truth is known."""
    if gamma != GAMMA:
        raise ValueError(f"the truth is known for gamma 1 and {GAMMA}: got {gamma:g}")
    if per != "step":
        raise ValueError(f'the return of an episode is undiscounted: per="episode" needs gamma 1, got {gamma:g}')
