"""The PyBullet tasks Reacher, HalfCheetah and Ant: their environments, shipped policies and behaviour policies.

Policies are stored as `policies/TASK/step-NNNNNNN.npz`, trained by `ope-vpm train-policy TASK`, each with a JSON file
of its settings, its seed and its return over 20 episodes; 100 episodes for the last one, which is the target.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from ope_vpm.envs.collect import MakeEnvironment, collect, register
from ope_vpm.envs.training import TASKS
from ope_vpm.logged import LoggedDataset
from ope_vpm.optional import library
from ope_vpm.outside import write_text
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.arrays import ArrayPolicy, load_arrays
from ope_vpm.suggestions import suggestion

POLICIES = Path(__file__).parent / "policies"
"""The folder of the shipped policies."""
OLDER = -3
"""The index of the checkpoint that is the other half of "mix": the third from the end, less skilled than the target."""
MIX_ALPHA = 0.5
"""The α of the first half of "mix": the smallest of the study, so that this half is near the target."""
MIX = "mix"
"""The name of the behaviour in which two policies take turns."""

Behaviour = float | str
"""A behaviour of the study: the paper's α, or "mix"."""


def environment_id(task: str) -> str:
    """Return the gymnasium id of a task; an unknown task is refused, naming the nearest known one."""
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}: {suggestion(task, TASKS)}")
    return TASKS[task].environment


def without_limit(task: str, length: int) -> MakeEnvironment:
    """Return a function that makes the task's environment with a time limit of `length` steps instead of its own."""
    name = environment_id(task)

    def made() -> gym.Env[Any, Any]:
        library("pybullet_envs_gymnasium", "sb3")
        return gym.make(name, disable_env_checker=True, max_episode_steps=length)

    return made


def checkpoints(task: str) -> list[Path]:
    """Return the files of the shipped policies, in the order of training."""
    environment_id(task)
    found = sorted((POLICIES / task).glob("step-*.npz"))
    if not found:
        raise FileNotFoundError(f"no policies are shipped for {task}: train some by `ope-vpm train-policy {task}`")
    return found


@cache
def policy(task: str, name: str = "target") -> ArrayPolicy:
    """Load a shipped policy: "target", "older" (of the mixture), or a checkpoint such as "step-0800000"."""
    files = checkpoints(task)
    by_name = {file.stem: file for file in files}
    by_name |= {"target": files[-1], "older": files[max(OLDER, -len(files))]}
    if name not in by_name:
        raise ValueError(f"{task} has no policy {name!r}: known are {', '.join(by_name)}")
    return load_arrays(by_name[name])


def about(task: str, name: str) -> dict[str, Any]:
    """Return the content of the JSON file beside a checkpoint: settings, seed and return."""
    stored: dict[str, Any] = json.loads((POLICIES / task / f"{name}.json").read_text())
    return stored


def target(task: str) -> ArrayPolicy:
    """Load the task's target policy, the one to evaluate: its last checkpoint."""
    return policy(task, "target")


def behaviour(task: str, kind: Behaviour) -> list[TargetPolicy]:
    """Return the policies of a behaviour, which collect trajectories in turn.

    Args:
        task: the name of the task.
        kind: α for the target's mean with 1 + α times its covariance, as in the paper; or "mix", where trajectories are
            collected in turn by α = 0.5 and by an older checkpoint.
    """
    if kind == MIX:
        return [target(task).more_random(1 + MIX_ALPHA), policy(task, "older")]
    if isinstance(kind, str) or not kind > -1:
        raise ValueError(f"a behaviour is {MIX!r} or a number α above -1: got {kind!r}")
    return [target(task).more_random(1 + kind)]


def dataset(task: str, kind: Behaviour, trajectories: int, length: int, seed: int) -> LoggedDataset:
    """Collect trajectories of a task by a behaviour.

    Args:
        task: the name of the task.
        kind: the behaviour, as in `behaviour`.
        trajectories: the number of trajectories.
        length: the largest number of steps of a trajectory.
        seed: of everything random.
    """
    return collect(environment_id(task), behaviour(task, kind), trajectories, length, seed)


def add_return(file: Path, episodes: int = 100, seed: int = 0) -> None:
    """Measure a policy's return over whole episodes, and add it to the JSON file beside the policy.

    Args:
        file: the policy's arrays.
        episodes: the number of episodes.
        seed: of everything random.
    """
    note = file.with_suffix(".json")
    stored = json.loads(note.read_text())
    register(stored["environment"])
    limit = gym.spec(stored["environment"]).max_episode_steps or 1000
    returns = collect(stored["environment"], load_arrays(file), episodes, limit, seed).returns
    stored["return"] = {
        "mean": round(float(returns.mean()), 3),
        "standard_error": round(float(returns.std(ddof=1) / episodes**0.5), 3),
        "episodes": episodes,
        "seed": seed,
    }
    write_text(note, json.dumps(stored, indent=2) + "\n")
