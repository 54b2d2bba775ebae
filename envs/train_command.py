"""The command `ope-vpm train-policy`: train with a progress bar, then measure the returns of the checkpoints."""

import json
from functools import partial
from pathlib import Path

import numpy as np

from ope_vpm.envs.collect import collect, time_limit
from ope_vpm.envs.training import TASKS, Recipe, scaled, train
from ope_vpm.envs.wild import wild_tasks
from ope_vpm.envs.wild.recipes import RECIPES
from ope_vpm.envs.wild.tables import FiniteTask
from ope_vpm.outside import write_text, write_whole
from ope_vpm.policy.arrays import load_arrays
from ope_vpm.progress import counting
from ope_vpm.suggestions import unknown

EPISODES, EPISODES_BEFORE = 100, 20
"""Episodes over which returns are measured: for the last policy and for the checkpoints before it. Round numbers: the
last one is compared with published returns, the others only have to show the order of skill."""


def train_task(task: str, output: Path, seed: int, steps: int | None, episodes: int = EPISODES) -> list[Path]:
    """Train by the task's recipe, measure the returns, and return the checkpoints' files.

    Args:
        task: reacher, halfcheetah, ant, taxi, or the gymnasium id of a wild task.
        output: the folder for the checkpoints.
        seed: of everything random.
        steps: the number of environment steps; None: the recipe's. The checkpoints are scaled with it.
        episodes: the number of episodes over which the last policy's return is measured.
    """
    if task == "taxi":
        return _train_taxi(output, seed, steps)
    wild = wild_tasks().get(task)
    if isinstance(wild, FiniteTask):
        return _write_tables(wild, output, steps)
    recipe = _recipe(task) if steps is None else scaled(_recipe(task), steps)
    with counting(f"training {task}", recipe.steps) as progress:
        files = train(recipe, output, seed=seed, progress=lambda done, _: progress(done))
    measure_returns(files, seed, episodes)
    return files


def _recipe(task: str) -> Recipe:
    """The recipe of a task; an unknown one is answered with the nearest."""
    known = {**TASKS, **RECIPES}
    if task not in known:
        names = dict.fromkeys(["taxi", *known, *wild_tasks()])
        raise ValueError(unknown("task", task, names))
    return known[task]


def _write_tables(task: FiniteTask, output: Path, steps: int | None) -> list[Path]:
    """The policies of a finite task as tables, each with a JSON of its exact return."""
    if steps is not None:
        raise ValueError(f"the policies of {task.id} come from value iteration, not from steps: leave --steps out")
    output.mkdir(parents=True, exist_ok=True)
    files = []
    for name, policy in {"older": task.older(), "near": task.near(), "target": task.target}.items():
        file = output / f"{name}.npy"
        write_whole(file, partial(np.save, arr=policy.table))
        about = {"environment": task.id, "policy": name, "limit": task.own_limit}
        worth = task.model.episode_return(policy, task.own_limit)
        about["return"] = {"mean": worth.value, "standard_error": 0.0, "deviation": worth.deviation}
        write_text(file.with_suffix(".json"), json.dumps(about, indent=2) + "\n")
        files.append(file)
    return files


def measure_returns(files: list[Path], seed: int, episodes: int = EPISODES) -> None:
    """Measure each checkpoint's return and add it to the JSON file beside it.

    Args:
        files: the checkpoints, the last one being the target.
        seed: of everything random.
        episodes: for the last checkpoint; the others have at most `EPISODES_BEFORE`.
    """
    with counting("measuring returns", len(files)) as progress:
        for number, file in enumerate(files, start=1):
            add_return(file, episodes if number == len(files) else min(episodes, EPISODES_BEFORE), seed)
            progress(number)


def add_return(file: Path, episodes: int = 100, seed: int = 0) -> None:
    """Measure a policy's return over whole episodes, and add it to the JSON file beside the policy.

    Args:
        file: the policy's arrays.
        episodes: the number of episodes.
        seed: of everything random.
    """
    note = file.with_suffix(".json")
    stored = json.loads(note.read_text())
    environment = stored["environment"]
    returns = collect(environment, load_arrays(file), episodes, time_limit(environment), seed).returns
    stored["return"] = {
        "mean": round(float(returns.mean()), 3),
        "standard_error": round(float(returns.std(ddof=1) / episodes**0.5), 3),
        "episodes": episodes,
        "seed": seed,
    }
    write_text(note, json.dumps(stored, indent=2) + "\n")


def _train_taxi(output: Path, seed: int, steps: int | None) -> list[Path]:
    from ope_vpm.envs import taxi_training as taxi

    if steps is not None:
        raise ValueError("taxi trains for 1000 iterations of 5000 steps: leave --steps out")
    with counting("training taxi", taxi.ITERATIONS) as progress:
        files: list[Path] = taxi.train(output, seed=seed, progress=lambda done, _: progress(done))
    return files
