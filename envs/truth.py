"""What the shipped policies are really worth, by running them: the truth that estimates are measured against.

`python -m ope_vpm.envs.truth TASK` writes `policies/TASK/truth.json`. Every policy runs 1000 episodes or more, each
for 300 steps without the task's own time limit. Two kinds of value come out:

- γ = 1: Σ rewards / Σ steps of episodes of at most 25, 50, 100 or 150 steps, which is what an evaluation with
  `time_limit="restart"` asks for;
- γ = 0.99: (1 - γ)·E[Σ γ^t r_t] of the task going on for ever, a fallen Ant receiving 0. Steps beyond the last,
  4.9 % of the mass, are taken at the mean reward of the last 100.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.envs import bullet
from ope_vpm.envs.collect import collect
from ope_vpm.envs.training import TASKS
from ope_vpm.logged import LoggedDataset
from ope_vpm.outside import write_text
from ope_vpm.policy import TargetPolicy

LENGTHS = (25, 50, 100, 150)
"""Of logged trajectories."""
LOGGED = {"reacher": 100, "halfcheetah": 150, "ant": 150}
"""Steps of the studies' longest trajectories: Ant still gains speed after 100."""
HORIZON, EPISODES, LAST = 300, 1000, 100
GAMMA = 0.99
SEED = 1_000_000
"""Of the episodes behind the truth: far from those of any log."""


@dataclass(frozen=True)
class Value:
    """A mean over episodes."""

    value: float
    standard_error: float
    deviation: float
    """Of one episode: divided by √T, the error of an on-policy mean of T episodes."""


@dataclass(frozen=True)
class Truth:
    """The values of one policy."""

    average: dict[int, Value]
    """By the length of the episodes."""
    discounted: Value
    tail: float
    """(1-γ)·E[Σ γ^(t-n) r_t] from step n = `LOGGED` on, of the episodes that go on so long."""
    horizon: int
    episodes: int
    seed: int
    gamma: float = GAMMA

    def at(self, gamma: float, length: int) -> Value:
        """At γ = 1 in episodes of some length, or at the stored γ, where logs of any length have the same truth."""
        return self.average[length] if gamma == 1 else self.discounted

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Truth:
        """From what JSON holds."""
        average = {int(length): Value(**value) for length, value in stored["average"].items()}
        return cls(**{**stored, "average": average, "discounted": Value(**stored["discounted"])})


def average_parts(data: LoggedDataset, length: int) -> tuple[Floats, Floats]:
    """Sum of rewards and number of steps of each episode's first `length` steps."""
    early = data.time < length
    return (
        group_sums(data.episode, data.rewards * early, data.n_episodes),
        group_sums(data.episode, early.astype(np.float64), data.n_episodes),
    )


def discounted_parts(data: LoggedDataset, gamma: float, tail: float, start: int = 0) -> Floats:
    """(1-γ)·Σ γ^(t-start) r_t of each episode from step `start` on; one that was cut has `tail` from there on.

    Args:
        data: the log.
        gamma: below 1.
        tail: (1-γ)·E[Σ γ^t r_t] after the cut.
        start: the first step that counts.
    """
    late = data.time >= start
    weight = np.where(late, gamma ** (data.time - start).clip(0).astype(np.float64), 0.0)
    sums = (1 - gamma) * group_sums(data.episode, weight * data.rewards, data.n_episodes)
    cut = data.truncated[data.ends]
    return sums + np.where(cut, gamma ** (data.lengths - start).clip(0).astype(np.float64), 0.0) * tail


def measure(task: str, policy: TargetPolicy, episodes: int = EPISODES, seed: int = SEED) -> Truth:
    """Run one policy."""
    data = collect(bullet.without_limit(task, HORIZON), policy, episodes, HORIZON, seed)
    return of_episodes(data, LOGGED[task], seed)


def of_episodes(data: LoggedDataset, logged: int, seed: int = SEED) -> Truth:
    """The values that on-policy episodes have; `logged` is where the tail begins."""
    end = int(data.lengths.max())
    last = data.rewards[data.time >= end - LAST]
    beyond = float(last.mean()) if len(last) else 0.0
    later = discounted_parts(data, GAMMA, beyond, logged)[data.lengths > logged]
    return Truth(
        average={length: _ratio(*average_parts(data, length)) for length in LENGTHS},
        discounted=_mean(discounted_parts(data, GAMMA, beyond)),
        tail=float(later.mean()) if len(later) else 0.0,
        horizon=end,
        episodes=data.n_episodes,
        seed=seed,
    )


def _mean(values: Floats) -> Value:
    spread = float(values.std(ddof=1))
    return Value(float(values.mean()), spread / len(values) ** 0.5, spread)


def _ratio(sums: Floats, steps: Floats) -> Value:
    """Σ rewards / Σ steps, its error by first-order expansion."""
    value = float(sums.sum() / steps.sum())
    around = _mean((sums - value * steps) / steps.mean())
    return Value(value, around.standard_error, around.deviation)


def truth_file(task: str) -> Path:
    """Where a task's truths are kept."""
    return bullet.POLICIES / task / "truth.json"


def stored_truth(task: str, name: str = "target") -> Truth:
    """The stored values of a shipped policy, "target" or a checkpoint's name."""
    if name == "target":
        name = bullet.checkpoints(task)[-1].stem
    stored: dict[str, Any] = json.loads(truth_file(task).read_text())
    if name not in stored["policies"]:
        raise ValueError(f"the truth of {name} is not known: run `{stored['command']} {name}`")
    return Truth.read(stored["policies"][name])


def write_truth(task: str, names: list[str], episodes: int = EPISODES) -> None:
    """Measure some policies of a task and write them beside those known before."""
    file = truth_file(task)
    known: dict[str, Any] = json.loads(file.read_text())["policies"] if file.exists() else {}
    for name in names:
        known[name] = asdict(measure(task, bullet.policy(task, name), episodes))
        report = {"command": f"python -m ope_vpm.envs.truth {task}", "policies": dict(sorted(known.items()))}
        write_text(file, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run shipped policies and write down what they are worth.")
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("policies", nargs="*", help="checkpoints such as step-0800000; all if none is given")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    chosen = parser.parse_args()
    write_truth(
        chosen.task, chosen.policies or [file.stem for file in bullet.checkpoints(chosen.task)], chosen.episodes
    )
