"""What a further policy costs on a log that is checked already, as inside a training loop, in units of a first call.

CPU time of one thread, `auto`, γ = 0.99, 50 episodes. "Twenty" is what twenty policies cost by `ope_vpm.plugins.select`
in calls of `ov.evaluate`: 1 for the first and the share of each further one.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import d3rlpy

import ope_vpm as ov
from ope_vpm.envs.wild import collect_log, wild_task
from ope_vpm.plugins.valuation import Choices, Valuation
from ope_vpm.policy import TargetPolicy

SEED, EPISODES, FURTHER = 100, 50, 3
"""A tuning seed; the size of the logs; policies after the first."""
TRAINING_STEPS = 200
"""Gradient steps of d3rlpy's algorithms: how good they are does not matter here."""


def main() -> None:
    logging.disable(logging.INFO)
    print(f"{'policies':34} {'rows':>7} {'a call':>8} {'further':>8} {'share':>6} {'twenty':>7}")
    for name, (environment, algorithm) in _kinds().items():
        task = wild_task(environment)
        data = collect_log(task, "mix", EPISODES, SEED, cut=environment != "Pendulum-v1")
        policies = _policies(data, task.target, algorithm)
        ov.evaluate(
            collect_log(task, "near", 4, SEED, cut=True), policies.pop(), "auto", gamma=0.99
        )  # loads what is lazy
        first, further = measured(data, policies)
        share = further / first
        print(f"{name:34} {len(data):7} {first:7.2f}s {further:7.2f}s {share:6.2f} {1 + 19 * share:7.1f}", flush=True)


def measured(data: ov.LoggedDataset, policies: list[TargetPolicy]) -> tuple[float, float]:
    """The CPU seconds of the first policy, the check of the log included, and the median of the others."""
    start = time.process_time()
    valuation = Valuation.of(data, Choices(gamma=0.99))
    seconds = []
    for policy in policies:
        valuation.answered(policy)
        seconds.append(time.process_time() - start)
        start = time.process_time()
    return seconds[0], median(seconds[1:])


def _kinds() -> dict[str, tuple[str, Callable[[], Any] | None]]:
    """The kinds of policies: an environment, and one of d3rlpy's algorithms or None for the shipped network."""
    scaler = d3rlpy.preprocessing.MinMaxActionScaler(minimum=[-2.0], maximum=[2.0])
    return {
        "deterministic (d3rlpy's TD3+BC)": ("Pendulum-v1", d3rlpy.algos.TD3PlusBCConfig(action_scaler=scaler).create),
        "Gaussian (d3rlpy's CQL)": ("Pendulum-v1", d3rlpy.algos.CQLConfig(action_scaler=scaler).create),
        "Gaussian, small networks": ("Pendulum-v1", None),
        "Gaussian, small networks, Hopper": ("Hopper-v5", None),
        "discrete, greedy (DiscreteCQL)": ("CartPole-v1", d3rlpy.algos.DiscreteCQLConfig().create),
        "discrete, small networks": ("CartPole-v1", None),
    }


def _policies(data: ov.LoggedDataset, target: TargetPolicy, algorithm: Callable[[], Any] | None) -> list[TargetPolicy]:
    """Policies that share nothing but their weights: what is computed for one is not there for another."""
    number = 2 + FURTHER
    if algorithm is None:
        return [copy.copy(target) for _ in range(number)]
    learner = algorithm()
    learner.fit(
        data.to_d3rlpy(),
        n_steps=TRAINING_STEPS,
        n_steps_per_epoch=TRAINING_STEPS,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    return [ov.as_policy(learner, deterministic=data.discrete_actions) for _ in range(number)]


if __name__ == "__main__":
    main()
