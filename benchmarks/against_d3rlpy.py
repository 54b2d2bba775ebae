"""Our fqe compared with d3rlpy's own on a greedy d3rlpy policy, the only kind that d3rlpy can evaluate: error and time.

The policy is TD3+BC, trained for 1000 steps on one log of the linear-Gaussian MDP; other logs are evaluated. The true
value is simulated by 20,000 episodes until γ^t < 10⁻⁴.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, LinearGaussian
from ope_vpm.logged.formats.d3rlpy import to_d3rlpy
from ope_vpm.policy import TargetPolicy

EPISODES, LENGTH, LOGS, FIRST_SEED, GAMMA = 100, 100, 8, 60_000, 0.95
"""Logs of the size of the other benchmarks on this MDP; eight, because d3rlpy takes half a minute for each. Seeds from
60 000 up are used nowhere else. d3rlpy's FQE needs γ < 1."""
ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "d3rlpy, its defaults, 10,000 steps": ("d3rlpy_fqe", {}),
    "ours, networks": ("fqe", {}),
    "ours, LSTD-Q": ("fqe", {"solver": "linear"}),
    "ours, model": ("model", {}),
    "naive": ("naive", {}),
}
"""Labels of the table with the estimator's name and settings."""


def main() -> None:
    logging.disable(logging.INFO)
    env = LinearGaussian()
    algo = trained(env)
    policy = ov.as_policy(algo, deterministic=True)
    truth = simulated(env, policy)
    print(f"truth {truth:.4f}; {LOGS} logs of {EPISODES} trajectories of {LENGTH} steps, gamma = {GAMMA}\n")
    print("| estimator | RMSE | bias | seconds |\n|---|---|---|---|")
    measured = {}
    for label, each in ESTIMATORS.items():
        measured[label] = rmse, bias, seconds = one(env, policy, truth, *each)
        print(f"| {label} | {rmse:.4f} | {bias:+.4f} | {seconds:.1f} |", flush=True)
    theirs, ours = measured["d3rlpy, its defaults, 10,000 steps"], measured["ours, networks"]
    if ours[0] > theirs[0] or ours[2] > theirs[2]:
        raise SystemExit(
            f"against_d3rlpy: ours has {ours[0] / theirs[0]:.2f} of the error, {ours[2] / theirs[2]:.2f} of the time"
        )


def trained(env: LinearGaussian) -> Any:
    import d3rlpy

    data = to_d3rlpy(env.dataset(EPISODES, LENGTH, BEHAVIOUR, FIRST_SEED - 1))
    d3rlpy.seed(0)
    algo = d3rlpy.algos.TD3PlusBCConfig(action_scaler=d3rlpy.preprocessing.MinMaxActionScaler()).create(device="cpu:0")
    quiet = d3rlpy.logging.NoopAdapterFactory()
    algo.fit(data, n_steps=1000, n_steps_per_epoch=1000, logger_adapter=quiet, show_progress=False)
    return algo


def simulated(env: LinearGaussian, policy: TargetPolicy, episodes: int = 20_000) -> float:
    rng = np.random.default_rng(FIRST_SEED)
    states, total = env.initial_deviation * rng.standard_normal((episodes, 2)), 0.0
    for step in range(int(np.log(1e-4) / np.log(GAMMA))):
        actions = policy.sample(states, rng)
        total += GAMMA**step * float(env.reward(states, actions).mean())
        states = env.step(states, actions, rng)
    return (1 - GAMMA) * total


def one(
    env: LinearGaussian, policy: TargetPolicy, truth: float, name: str, options: dict[str, Any]
) -> tuple[float, float, float]:
    """Return the RMSE, the bias and the seconds per log of one estimator."""
    errors, start = [], time.perf_counter()
    for seed in range(FIRST_SEED, FIRST_SEED + LOGS):
        data = env.dataset(EPISODES, LENGTH, BEHAVIOUR, seed)
        errors.append(ov.evaluate(data, policy, name, gamma=GAMMA, seed=seed, **options).value - truth)
    seconds = (time.perf_counter() - start) / LOGS
    return float(np.sqrt(np.mean(np.square(errors)))), float(np.mean(errors)), seconds


if __name__ == "__main__":
    main()
