"""Reference values for Minari datasets that can be made anywhere: `python -m benchmarks minari [--only CartPole-v1]`.

Minari's own collector records episodes by policies that come with the package, the target's own policy with twice its
variance and an older checkpoint in turn, under ids such as `CartPole-v1/mix-v0`. The value of the target by simulation
(4000 episodes, stored with the policies) stands beside what `ov.evaluate` says of the id. Rows go to
docs/results/minari.json, which `benchmarks tables` reads; datasets go to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import ope_vpm as ov
from ope_vpm.envs.collect import reset_seeds
from ope_vpm.envs.truth import GAMMA
from ope_vpm.envs.wild.catalogue import wild_task
from ope_vpm.envs.wild.tasks import WildTask
from ope_vpm.optional import library
from ope_vpm.outside import write_text

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "minari.json"
TASKS = (
    "CartPole-v1", "Pendulum-v1", "Acrobot-v1", "Hopper-v5", "MountainCarContinuous-v0", "Reacher-v5",
    "InvertedDoublePendulum-v5",
)  # fmt: skip
"""Environments of gymnasium and MuJoCo; on the first four settings of the library were chosen, on the others none."""
EPISODES = 100
"""Episodes of a dataset: of the size of Minari's smaller ones, and seconds to evaluate."""


def record(task: WildTask, episodes: int, seed: int) -> str:
    """Write a Minari dataset of the two behaviours in turn with Minari's collector, and return its id."""
    minari = library("minari", "minari")
    env = minari.DataCollector(gym.make(task.id, max_episode_steps=task.limit))
    policies, rng = task.behaviour("mix"), np.random.default_rng(seed)
    for number, start in enumerate(reset_seeds(seed, episodes)):
        state, _ = env.reset(seed=start)
        ended = False
        while not ended:
            action = policies[number % len(policies)].sample(np.asarray(state)[None], rng)[0]
            state, _, terminated, truncated, _ = env.step(_as_told(action, env.action_space))
            ended = terminated or truncated
    name = f"{task.id}/mix-v0"
    env.create_dataset(name)
    env.close()
    return name


def _as_told(action: Any, space: spaces.Space[Any]) -> Any:
    """An action in the type and shape that the environment asks for."""
    if isinstance(space, spaces.Discrete):
        return int(action)
    return np.asarray(action, dtype=space.dtype).reshape(space.shape or ())


def row(name: str, episodes: int, seed: int) -> dict[str, Any]:
    """The reference value of one id, and what `auto` and the logged mean say of it."""
    task = wild_task(name)
    identifier = record(task, episodes, seed)
    values = ov.evaluate(identifier, task.target, ["auto", "naive"], gamma=GAMMA)
    truth, found = task.truth(GAMMA), values["auto"]
    assert found.interval is not None
    return {
        "id": identifier,
        "rows": len(ov.load_dataset(identifier)),
        "truth": truth.value,
        "error": truth.standard_error,
        "auto": found.value,
        "interval": list(found.interval),
        "verdict": found.verdict,
        "naive": values["naive"].value,
        "version": version("ope-vpm"),
        "date": time.strftime("%Y-%m-%d"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=TASKS, help="an environment; all of them if not given")
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    known = json.loads(asked.results.read_text(encoding="utf-8")) if asked.results.exists() else {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        os.environ["MINARI_DATASETS_PATH"] = folder
        warnings.simplefilter("ignore", UserWarning)  # Minari asks for authors and links
        for name in asked.only or TASKS:
            known[name] = row(name, asked.episodes, asked.seed)
            write_text(asked.results, json.dumps(known, indent=1) + "\n")
            print(json.dumps(known[name]), flush=True)


if __name__ == "__main__":
    main()
