"""Errors of every estimator on the linear-Gaussian MDP, from 100 trajectories of another controller.

The true value is known in closed form. `python -m benchmarks.ope_linear_gaussian [NAME]...` runs some of them.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.logged import LoggedDataset

EPISODES, LENGTH, SEEDS = 100, 100, 20
"""The size of a log, and the number of logs: with 20 an RMSE has a standard error of about 16 %."""
FIRST_SEED = 20_000
"""No setting was chosen on seeds from here up."""
NAMES = (
    "vpm",
    "naive",
    "onestep",
    "wist",
    "wiss",
    "model",
    "liu",
    "auto",
    "fqe",
    "dr",
    "gendice",
    "bestdice",
    "mwl",
    "mql",
)
"""The estimators by default: all that are meant for continuous states, the paper's first."""


def main() -> None:
    print(f"{EPISODES} trajectories of {LENGTH} steps, {SEEDS} seeds\n")
    print("| estimator | γ | RMSE | × on-policy mean | bias | seconds |\n|---|---|---|---|---|---|")
    for gamma in (1.0, 0.95):
        table(gamma, sys.argv[1:] or list(NAMES))


def table(gamma: float, names: list[str]) -> None:
    env = LinearGaussian()
    truth = env.value(TARGET, gamma)
    errors: dict[str, list[float]] = {name: [] for name in ("on-policy mean", *names)}
    seconds = dict.fromkeys(errors, 0.0)
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        data = env.dataset(EPISODES, LENGTH, BEHAVIOUR, seed)
        errors["on-policy mean"].append(on_policy_mean(env.dataset(EPISODES, LENGTH, TARGET, seed), gamma) - truth)
        for name in names:
            start = time.perf_counter()
            errors[name].append(ov.evaluate(data, TARGET.policy(), name, gamma=gamma, seed=seed).value - truth)
            seconds[name] += (time.perf_counter() - start) / SEEDS
    floor = float(np.sqrt(np.mean(np.square(errors["on-policy mean"]))))
    for name, found in errors.items():
        rmse = float(np.sqrt(np.mean(np.square(found))))
        print(f"| {name} | {gamma} | {rmse:.4f} | {rmse / floor:.2f} | {np.mean(found):+.4f} | {seconds[name]:.1f} |")
        sys.stdout.flush()


def on_policy_mean(data: LoggedDataset, gamma: float) -> float:
    """Return the mean reward of the target's own trajectories, weighted by γ^t."""
    weight = gamma**data.time
    return float(weight @ data.rewards / weight.sum())


if __name__ == "__main__":
    main()
