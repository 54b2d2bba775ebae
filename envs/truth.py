"""True values of shipped network policies, from their own episodes; the errors of estimates are measured against these.

`python -m benchmarks._measure ID` runs the policies and writes `policies/ID/truth.json`. Three kinds of value:

- γ = 1 per step: E[Σ r] / E[length] of episodes of at most some limit, estimated with `time_limit="restart"`;
- per episode: the undiscounted return of such episodes;
- γ = 0.99: (1 - γ)·E[Σ γ^t r_t] of the task going on for ever, with reward 0 after it has ended, estimated with
  `time_limit="continue"`. Steps beyond the last are given the mean reward of the last 100.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.logged import LoggedDataset

GAMMA = 0.99
"""The discount of the stored values; a common choice in continuous control."""


@dataclass(frozen=True)
class Value:
    """A mean over episodes, with its precision."""

    value: float
    standard_error: float
    deviation: float
    """The standard deviation of one episode: divided by √T, the standard error of an on-policy mean of T episodes."""


@dataclass(frozen=True)
class Truth:
    """The true values of one policy."""

    per_step: Mapping[int, Value]
    """E[Σ r] / E[length] at γ = 1, by the limit of the episodes."""
    per_episode: Mapping[int, Value]
    """The undiscounted return of an episode, by the limit of the episodes; {} where it was not measured."""
    discounted: Value
    """(1-γ)·E[Σ γ^t r_t]."""
    horizon: int
    """The length of the longest episode."""
    episodes: int
    """The number of episodes."""
    seed: int
    """The seed of the episodes."""
    tail: float | None = None
    """(1-γ)·E[Σ γ^(t-n) r_t] from the last step n of the studies' logs on, over the episodes that last so long."""
    gamma: float = GAMMA
    """The discount of `discounted` and `tail`."""

    def at(self, gamma: float, length: int) -> Value:
        """Return the value at γ = 1 in episodes of some length, or the discounted one, which is the same for all."""
        return self.per_step[length] if gamma == 1 else self.discounted


@dataclass(frozen=True)
class Episodes:
    """The rewards of on-policy episodes."""

    rewards: Floats
    """(episodes, horizon), 0 after an episode's last step."""
    lengths: Integers
    """The number of steps of each episode."""
    ended: Bools
    """Whether the task ended, rather than the horizon."""

    @classmethod
    def of(cls, data: LoggedDataset, horizon: int | None = None) -> Episodes:
        """Take the rewards out of a log; columns up to `horizon`, or up to its longest episode."""
        rewards = np.zeros((data.n_episodes, horizon or int(data.lengths.max())))
        rewards[data.episode, data.time] = data.rewards
        return cls(rewards, data.lengths, data.terminated[data.ends])

    def sums(self, limit: int) -> tuple[Floats, Floats]:
        """Return each episode's sum of rewards and number of steps, over its first `limit` steps."""
        return self.rewards[:, :limit].sum(axis=1), self.lengths.clip(max=limit).astype(np.float64)

    def discounted(self, gamma: float, beyond: float, start: int = 0) -> Floats:
        """Return (1-γ)·Σ γ^(t-start) r_t of each episode from step `start` on.

        Args:
            gamma: the discount γ, below 1.
            beyond: the value, (1-γ)·E[Σ γ^t r_t], of what follows where an episode was cut.
            start: the first step that counts.
        """
        weight = gamma ** np.arange(self.rewards.shape[1] - start, dtype=np.float64)
        rest = gamma ** (self.lengths - start).clip(0).astype(np.float64)
        return (1 - gamma) * (self.rewards[:, start:] @ weight) + np.where(self.ended, 0.0, rest) * beyond


@cache
def read_truths(file: Path) -> Mapping[str, Truth]:
    """The truths in a JSON file, by policy."""
    stored: dict[str, dict[str, Any]] = json.loads(file.read_text())["policies"]
    return {name: _read(truth) for name, truth in stored.items()}


def _read(stored: dict[str, Any]) -> Truth:
    by_limit = {
        kind: {int(limit): Value(**value) for limit, value in stored[kind].items()}
        for kind in ("per_step", "per_episode")
    }
    return Truth(**{**stored, **by_limit, "discounted": Value(**stored["discounted"])})


def find_truth(file: Path, policy: str) -> Truth:
    """The stored truth of one policy; without one, the error names the command that measures it."""
    truths = read_truths(file)
    if policy not in truths:
        raise ValueError(
            f"the truth of {policy} is not known: run `python -m benchmarks._measure {file.parent.name} {policy}`"
        )
    return truths[policy]
