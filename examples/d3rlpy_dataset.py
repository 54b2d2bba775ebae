"""A d3rlpy dataset: train on it, and say from the same kind of data what the result is worth.

The script writes a d3rlpy file of CartPole (half-trained policies, so that the truth can be had), trains discrete CQL
on it, and evaluates the greedy policy on episodes that were not trained on, by several estimators side by side.

    python examples/d3rlpy_dataset.py --output docs/results
"""

from __future__ import annotations

import argparse
import logging
from functools import partial
from pathlib import Path

import d3rlpy
import gymnasium as gym
import numpy as np
import structlog
from d3rlpy.logging import NoopAdapterFactory
from matplotlib.figure import Figure

import ope_vpm as ov
from ope_vpm.envs.collect import collect
from ope_vpm.envs.wild.networks import POLICIES

GAMMA = 0.99
ESTIMATORS = ["auto", "vpm", "fqe", "wiss", "naive"]
TRAINED, HELD_OUT = 100, 100
"""Episodes to train on, and others to evaluate on."""
STEPS = 2000
"""Gradient steps of training."""
TRUTH_EPISODES, TRUTH_STEPS = 30, 600
"""In the environment; after 600 steps γ^t is 0.002."""


def write_dataset(path: Path, episodes: int, seed: int) -> None:
    """Episodes of two half-trained policies in turn, as d3rlpy's `ReplayBuffer.dump` would write them."""
    policies = [ov.load_policy(POLICIES / "CartPole-v1" / f"step-{step}.npz") for step in ("0004000", "0008000")]
    collect("CartPole-v1", policies, episodes, 500, seed=seed).save(path)


def train(data: ov.LoggedDataset, steps: int, seed: int) -> d3rlpy.algos.DiscreteCQL:
    """Discrete CQL for some gradient steps."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))  # d3rlpy is talkative
    d3rlpy.seed(seed)
    algo = d3rlpy.algos.DiscreteCQLConfig(gamma=GAMMA, learning_rate=1e-3, batch_size=64).create()
    algo.fit(
        data.to_d3rlpy(),
        n_steps=steps,
        n_steps_per_epoch=steps,
        logger_adapter=NoopAdapterFactory(),
        show_progress=False,
    )
    return algo


def true_value(policy: ov.TargetPolicy, episodes: int, seed: int) -> float:
    """(1 - γ)·E[Σ γ^t r_t] in the environment itself."""
    made = partial(gym.make, "CartPole-v1", max_episode_steps=TRUTH_STEPS)
    log = collect(made, policy, episodes, TRUTH_STEPS, seed=seed)
    return float((1 - GAMMA) * np.sum(GAMMA**log.time * log.rewards) / log.n_episodes)


def draw(values: dict[str, ov.PolicyValue], truth: float, path: Path) -> None:
    """The estimates side by side, and the truth."""
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots()
    for place, value in enumerate(reversed(values.values())):
        low, high = value.interval or (np.nan, np.nan)
        axes.plot([low, high], [place, place], color="C3", lw=3, alpha=0.4)
        axes.plot(value.value, place, color="C3", marker="o", ls="")
    axes.axvline(truth, color="k", lw=1, label="true value")
    axes.set_yticks(range(len(values)), [f"{name} ({value.verdict})" for name, value in reversed(values.items())])
    axes.set(xlabel=f"value per step, γ = {GAMMA}", title="Discrete CQL on CartPole, evaluated from a log")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Write, read, train, evaluate and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--output", type=Path, default=Path("results"), help="the folder for the report and the picture"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a fifth of everything, to see whether it runs")
    given = parser.parse_args()
    part = 5 if given.quick else 1
    given.output.mkdir(parents=True, exist_ok=True)
    file = given.output / "cartpole.h5"
    write_dataset(file, (TRAINED + HELD_OUT) // part, given.seed)
    data = ov.load_dataset(file)
    file.unlink()
    print(data)
    first, held_out = data.select(slice(TRAINED // part)), data.select(slice(TRAINED // part, None))
    policy = ov.as_policy(train(first, STEPS // part, given.seed))
    values = ov.evaluate(held_out, policy, ESTIMATORS, gamma=GAMMA)
    for value in values.values():
        print(value)
    truth = true_value(policy, TRUTH_EPISODES // part, given.seed + 1)
    print(f"truth: {truth:.4f}")
    ov.report(values, given.output / "d3rlpy_dataset.html", held_out)
    draw(values, truth, given.output / "d3rlpy_dataset.png")


if __name__ == "__main__":
    main()
