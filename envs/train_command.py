"""The command `ope-vpm train-policy`: train with a progress bar, then measure the returns of the checkpoints."""

from __future__ import annotations

from pathlib import Path

from ope_vpm.envs import bullet
from ope_vpm.envs.training import TASKS, scaled, train
from ope_vpm.progress import counting

EPISODES, EPISODES_BEFORE = 100, 20
"""Episodes over which returns are measured: for the last policy and for the checkpoints before it. Round numbers: the
last one is compared with published returns, the others only have to show the order of skill."""


def train_task(task: str, output: Path, seed: int, steps: int | None, episodes: int = EPISODES) -> list[Path]:
    """Train by the task's recipe, measure the returns, and return the checkpoints' files.

    Args:
        task: reacher, halfcheetah, ant or taxi.
        output: the folder for the checkpoints.
        seed: of everything random.
        steps: the number of environment steps; None: the recipe's. The checkpoints are scaled with it.
        episodes: the number of episodes over which the last policy's return is measured.
    """
    if task == "taxi":
        return _train_taxi(output, seed, steps)
    bullet.environment_id(task)
    recipe = TASKS[task] if steps is None else scaled(TASKS[task], steps)
    with counting(f"training {task}", recipe.steps) as progress:
        files = train(recipe, output, seed=seed, progress=lambda done, _: progress(done))
    measure_returns(files, seed, episodes)
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
            bullet.add_return(file, episodes if number == len(files) else min(episodes, EPISODES_BEFORE), seed)
            progress(number)


def _train_taxi(output: Path, seed: int, steps: int | None) -> list[Path]:
    from ope_vpm.envs import taxi_training as taxi

    if steps is not None:
        raise ValueError("taxi trains for 1000 iterations of 5000 steps: leave --steps out")
    with counting("training taxi", taxi.ITERATIONS) as progress:
        files: list[Path] = taxi.train(output, seed=seed, progress=lambda done, _: progress(done))
    return files
