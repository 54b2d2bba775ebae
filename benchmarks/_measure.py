"""Run shipped network policies and store their true values, for the tasks of the studies and for the wild tasks.

`python -m benchmarks._measure Hopper-v5` writes `policies/Hopper-v5/truth.json`; checkpoints may be named after
the task. Episodes are run without the environment's own time limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._truths import SEED, truth_of, write_truths
from ope_vpm.envs import bullet
from ope_vpm.envs.collect import collect, without_limit
from ope_vpm.envs.training import TASKS
from ope_vpm.envs.truth import Episodes, read_truths
from ope_vpm.envs.wild import wild_tasks
from ope_vpm.envs.wild.networks import NetworkTask
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.arrays import load_arrays

HORIZON, SHORT_HORIZON = 600, 300
"""Steps of an episode: at γ = 0.99, 0.2 % of the discounted weight lies beyond the one, and 4.9 % beyond the other,
which the studies' slower tasks have."""
EPISODES = 4000
PART = 1000
"""Episodes that are held in memory at once, and after which the values so far are written."""


@dataclass(frozen=True)
class Measured:
    """What is run of a task."""

    environment: str
    """The gymnasium id."""
    folder: Path
    """Where checkpoints and truth are kept."""
    policies: list[str]
    """The checkpoints that are run where none is named."""
    limits: Collection[int]
    """The limits of the episodes at γ = 1."""
    horizon: int
    """Steps of each episode."""
    logged: int | None = None
    """The step at which the tail begins."""


def measured_tasks() -> dict[str, Measured]:
    """The tasks with network policies, by name."""
    studied = {
        name: Measured(
            recipe.environment,
            bullet.POLICIES / name,
            [file.stem for file in bullet.checkpoints(name)],
            bullet.LENGTHS,
            SHORT_HORIZON,
            bullet.LOGGED[name],
        )
        for name, recipe in TASKS.items()
    }
    wild = {
        name: Measured(
            name, task.folder, [task.target_name], {task.limit, task.own_limit}, max(task.own_limit, HORIZON)
        )
        for name, task in wild_tasks().items()
        if isinstance(task, NetworkTask)
    }
    return studied | wild


def run(environment: str, policy: TargetPolicy, number: int, horizon: int, seed: int) -> Episodes:
    """Run episodes of a policy without the environment's own time limit, and keep their rewards.

    Args:
        environment: a gymnasium id.
        policy: the policy that acts.
        number: the number of episodes.
        horizon: the largest number of steps of each.
        seed: of resets and actions.
    """
    return Episodes.of(collect(without_limit(environment, horizon), policy, number, horizon, seed), horizon)


def measure(task: Measured, name: str, policy: str, number: int) -> None:
    """Measure one policy of the task `name`, and write its truth after each thousand episodes."""
    file, parts = task.folder / "truth.json", list[Episodes]()
    acting = load_arrays(task.folder / f"{policy}.npz")
    for first in range(0, number, PART):
        parts.append(run(task.environment, acting, min(PART, number - first), task.horizon, SEED + first))
        columns = zip(*((part.rewards, part.lengths, part.ended) for part in parts), strict=True)
        known = dict(read_truths(file)) if file.exists() else {}
        found = truth_of(Episodes(*map(np.concatenate, columns)), task.limits, SEED, task.logged)
        write_truths(file, name, known | {policy: found})
        print(f"{name}, {policy}: {found.episodes} episodes", file=sys.stderr, flush=True)


def main() -> None:
    """Measure the policies named on the command line."""
    known = measured_tasks()
    parser = argparse.ArgumentParser(description="Run shipped policies and store their true values.")
    parser.add_argument("task", choices=known)
    parser.add_argument(
        "policies", nargs="*", help="checkpoints such as step-0800000; all of interest if none is given"
    )
    parser.add_argument("--episodes", type=int, default=EPISODES)
    chosen = parser.parse_args()
    for policy in chosen.policies or known[chosen.task].policies:
        measure(known[chosen.task], chosen.task, policy, chosen.episodes)


if __name__ == "__main__":
    main()
