"""The PyBullet tasks Reacher, HalfCheetah and Ant: their environments, shipped policies and behaviours.

Policies lie in `policies/TASK/step-NNNNNNN.npz`, trained by `ope-vpm train-policy TASK`, each with a JSON of its
settings, its seed and its return over 20 episodes, 100 for the last one, which is the target.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym

from ope_vpm.envs.collect import MakeEnvironment, collect
from ope_vpm.envs.training import TASKS
from ope_vpm.logged import LoggedDataset
from ope_vpm.optional import library
from ope_vpm.outside import write_text
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.arrays import NetworkPolicy, load_arrays
from ope_vpm.suggestions import suggestion

POLICIES = Path(__file__).parent / "policies"
OLDER = -3
"""Which checkpoint is the other half of "mix": the third from the end."""
MIX_ALPHA = 0.5
MIX = "mix"

Behaviour = float | str
"""α, or "mix"."""


def environment_id(task: str) -> str:
    """The gymnasium id of a task; an unknown one is answered with the nearest."""
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}: {suggestion(task, TASKS)}")
    return TASKS[task].environment


def without_limit(task: str, length: int) -> MakeEnvironment:
    """Makes the task's environment with a time limit of `length` steps instead of its own."""
    name = environment_id(task)

    def made() -> gym.Env[Any, Any]:
        library("pybullet_envs_gymnasium", "sb3")
        return gym.make(name, disable_env_checker=True, max_episode_steps=length)

    return made


def checkpoints(task: str) -> list[Path]:
    """The shipped policies, of increasing skill."""
    environment_id(task)
    found = sorted((POLICIES / task).glob("step-*.npz"))
    if not found:
        raise FileNotFoundError(f"no policies are shipped for {task}: train some by `ope-vpm train-policy {task}`")
    return found


@cache
def policy(task: str, name: str = "target") -> NetworkPolicy:
    """A shipped policy: "target", "older" (of the mixture), or a checkpoint such as "step-0800000"."""
    files = checkpoints(task)
    by_name = {file.stem: file for file in files}
    by_name |= {"target": files[-1], "older": files[max(OLDER, -len(files))]}
    if name not in by_name:
        raise ValueError(f"{task} has no policy {name!r}: known are {', '.join(by_name)}")
    return load_arrays(by_name[name])


def about(task: str, name: str) -> dict[str, Any]:
    """What the JSON beside a checkpoint says."""
    stored: dict[str, Any] = json.loads((POLICIES / task / f"{name}.json").read_text())
    return stored


def target(task: str) -> NetworkPolicy:
    """The policy to evaluate."""
    return policy(task, "target")


def behaviour(task: str, kind: Behaviour) -> list[TargetPolicy]:
    """Who logs, trajectory by trajectory in turn.

    Args:
        task: its name.
        kind: α for the target's mean with 1 + α times its covariance, as in the paper; or "mix", of which every
            other trajectory is by α = 0.5 and every other by an older checkpoint.
    """
    if kind == MIX:
        return [target(task).with_variance(1 + MIX_ALPHA), policy(task, "older")]
    if isinstance(kind, str) or not kind > -1:
        raise ValueError(f"a behaviour is {MIX!r} or a number α above -1: got {kind!r}")
    return [target(task).with_variance(1 + kind)]


def dataset(task: str, kind: Behaviour, trajectories: int, length: int, seed: int) -> LoggedDataset:
    """Trajectories by a behaviour."""
    return collect(environment_id(task), behaviour(task, kind), trajectories, length, seed)


def add_return(file: Path, episodes: int = 100, seed: int = 0) -> None:
    """Measure a policy's return over whole episodes, and add it to the JSON beside it."""
    library("pybullet_envs_gymnasium", "sb3")
    note = file.with_suffix(".json")
    stored = json.loads(note.read_text())
    limit = gym.spec(stored["environment"]).max_episode_steps or 1000
    returns = collect(stored["environment"], load_arrays(file), episodes, limit, seed).returns
    stored["return"] = {
        "mean": round(float(returns.mean()), 3),
        "standard_error": round(float(returns.std(ddof=1) / episodes**0.5), 3),
        "episodes": episodes,
        "seed": seed,
    }
    write_text(note, json.dumps(stored, indent=2) + "\n")
