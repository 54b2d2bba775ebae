"""True values of the shipped policies, by running them; the errors of estimates are measured against these.

`python -m ope_vpm.envs.truth TASK` writes `policies/TASK/truth.json`. Every policy runs 1000 episodes or more, each
for 300 steps without the task's own time limit. Two kinds of value are computed:

- γ = 1: Σ rewards / Σ steps of episodes of at most 25, 50, 100 or 150 steps, the value that an evaluation with
  `time_limit="restart"` estimates;
- γ = 0.99: (1 - γ)·E[Σ γ^t r_t] of the task continuing for ever, with reward 0 after an Ant has fallen. Steps beyond
  the last, 4.9 % of the discounted weight, are given the mean reward of the last 100.
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
"""The lengths of logged trajectories in the studies."""
LOGGED = {"reacher": 100, "halfcheetah": 150, "ant": 150}
"""The longest trajectories of the studies: Ant still gains speed after 100 steps."""
HORIZON, EPISODES, LAST = 300, 1000, 100
"""Steps per episode: at γ = 0.99 they carry 95.1 % of the discounted weight. Episodes: the fewest for a true value.
Last: the steps whose mean reward continues an episode beyond its end. Round numbers; Ant gains speed for 200 steps."""
GAMMA = 0.99
"""The discount of the control studies; a common choice in continuous control."""
SEED = 1_000_000
"""The seed of the episodes behind the truth, far from those of any log."""


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

    average: dict[int, Value]
    """The average reward at γ = 1, by the length of the episodes."""
    discounted: Value
    """(1-γ)·E[Σ γ^t r_t]."""
    tail: float
    """(1-γ)·E[Σ γ^(t-n) r_t] from step n = `LOGGED` on, over the episodes that last so long."""
    horizon: int
    """The length of the longest episode."""
    episodes: int
    """The number of episodes."""
    seed: int
    """The seed of the episodes."""
    gamma: float = GAMMA
    """The discount of `discounted` and `tail`."""

    def at(self, gamma: float, length: int) -> Value:
        """Return the value at γ = 1 in episodes of some length, or the discounted one, which is the same for all."""
        return self.average[length] if gamma == 1 else self.discounted

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Truth:
        """Make a truth from what its JSON file holds."""
        average = {int(length): Value(**value) for length, value in stored["average"].items()}
        return cls(**{**stored, "average": average, "discounted": Value(**stored["discounted"])})


def average_parts(data: LoggedDataset, length: int) -> tuple[Floats, Floats]:
    """Return each episode's sum of rewards and number of steps, over its first `length` steps."""
    early = data.time < length
    return (
        group_sums(data.episode, data.rewards * early, data.n_episodes),
        group_sums(data.episode, early.astype(np.float64), data.n_episodes),
    )


def discounted_parts(data: LoggedDataset, gamma: float, tail: float, start: int = 0) -> Floats:
    """Return (1-γ)·Σ γ^(t-start) r_t of each episode from step `start` on; truncated episodes continue with `tail`.

    Args:
        data: the log.
        gamma: the discount γ, below 1.
        tail: (1-γ)·E[Σ γ^t r_t] after a truncation.
        start: the first step that counts.
    """
    late = data.time >= start
    weight = np.where(late, gamma ** (data.time - start).clip(0).astype(np.float64), 0.0)
    sums = (1 - gamma) * group_sums(data.episode, weight * data.rewards, data.n_episodes)
    cut = data.truncated[data.ends]
    return sums + np.where(cut, gamma ** (data.lengths - start).clip(0).astype(np.float64), 0.0) * tail


def measure(task: str, policy: TargetPolicy, episodes: int = EPISODES, seed: int = SEED) -> Truth:
    """Measure the true values of one policy by running it.

    Args:
        task: the name of the task.
        policy: the policy to run.
        episodes: the number of episodes.
        seed: of everything random.
    """
    data = collect(bullet.without_limit(task, HORIZON), policy, episodes, HORIZON, seed)
    return of_episodes(data, LOGGED[task], seed)


def of_episodes(data: LoggedDataset, logged: int, seed: int = SEED) -> Truth:
    """Compute the values of a policy from its own episodes; `logged` is the step at which the tail begins."""
    end = int(data.lengths.max())
    last = data.rewards[data.time >= end - LAST]
    beyond = float(last.mean()) if len(last) else 0.0
    later = discounted_parts(data, GAMMA, beyond, logged)[data.lengths > logged]
    return Truth(
        average={length: ratio_value(*average_parts(data, length)) for length in LENGTHS},
        discounted=mean_value(discounted_parts(data, GAMMA, beyond)),
        tail=float(later.mean()) if len(later) else 0.0,
        horizon=end,
        episodes=data.n_episodes,
        seed=seed,
    )


def mean_value(values: Floats) -> Value:
    """The mean of one number per episode."""
    spread = float(values.std(ddof=1))
    return Value(float(values.mean()), spread / len(values) ** 0.5, spread)


def ratio_value(sums: Floats, steps: Floats) -> Value:
    """Return Σ rewards / Σ steps, with its standard error by the delta method."""
    value = float(sums.sum() / steps.sum())
    around = mean_value((sums - value * steps) / steps.mean())
    return Value(value, around.standard_error, around.deviation)


def truth_file(task: str) -> Path:
    """Return the file in which a task's true values are stored."""
    return bullet.POLICIES / task / "truth.json"


def stored_truth(task: str, name: str = "target") -> Truth:
    """Return the stored values of a shipped policy, "target" or a checkpoint's name."""
    if name == "target":
        name = bullet.checkpoints(task)[-1].stem
    stored: dict[str, Any] = json.loads(truth_file(task).read_text())
    if name not in stored["policies"]:
        raise ValueError(f"the truth of {name} is not known: run `{stored['command']} {name}`")
    return Truth.read(stored["policies"][name])


def write_truth(task: str, names: list[str], episodes: int = EPISODES) -> None:
    """Measure some policies of a task and add their values to the task's file.

    Args:
        task: the name of the task.
        names: of the checkpoints.
        episodes: the number of episodes of each.
    """
    file = truth_file(task)
    known: dict[str, Any] = json.loads(file.read_text())["policies"] if file.exists() else {}
    for name in names:
        known[name] = asdict(measure(task, bullet.policy(task, name), episodes))
        report = {"command": f"python -m ope_vpm.envs.truth {task}", "policies": dict(sorted(known.items()))}
        write_text(file, json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run shipped policies and store their true values.")
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("policies", nargs="*", help="checkpoints such as step-0800000; all if none is given")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    chosen = parser.parse_args()
    write_truth(
        chosen.task, chosen.policies or [file.stem for file in bullet.checkpoints(chosen.task)], chosen.episodes
    )
