"""Errors of estimators on Reacher, HalfCheetah and Ant as multiples of an on-policy mean's, γ = 1 and 0.99.

`python -m benchmarks.control [TASK]... [--behaviours 1.0,mix] [--trajectories 100] [--seeds 0,1,2] [--names dr,auto]`
prints one line per log and the table of root mean squares at the end; errors are relative to the stored true values.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from ope_vpm.envs import bullet
from ope_vpm.envs.training import TASKS
from ope_vpm.envs.truth import GAMMA
from ope_vpm.ope import Problem
from ope_vpm.ope.estimator import ProblemEstimator, make

LENGTH = 100
"""Steps per trajectory, for which true values of all three tasks are stored; the study has 150 for two of them."""
ESTIMATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "naive": ("naive", {}),
    "onestep": ("onestep", {}),
    "vpm": ("vpm", {}),
    "lstd": ("fqe", {"solver": "linear"}),
    "gendice": ("gendice", {}),
    "mwl": ("mwl", {}),
    "fqe": ("fqe", {}),
    "dr": ("dr", {}),
    "dr-networks": ("dr", {"q": "neural", "folds": 2}),
    "auto": ("auto", {}),
}
"""Names on the command line with the estimator's name and settings."""
Errors = dict[tuple[str, str, float, str], list[float]]
"""The errors of each log, by task, behaviour, γ and estimator."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--behaviours", default="1.0,mix")
    parser.add_argument("--trajectories", type=int, default=100)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--names", default=",".join(ESTIMATORS))
    chosen = parser.parse_args()
    errors: Errors = {}
    for seed in chosen.seeds.split(","):
        for task in chosen.tasks:
            for kind in chosen.behaviours.split(","):
                one(errors, task, kind, chosen.trajectories, int(seed), chosen.names.split(","))
    print("\n| task | behaviour | γ | estimator | RMSE / on-policy | logs |\n|---|---|---|---|---|---|")
    for (task, kind, gamma, name), each in errors.items():
        print(f"| {task} | {kind} | {gamma} | {name} | {np.sqrt(np.mean(np.square(each))):.2f} | {len(each)} |")


def one(errors: Errors, task: str, kind: str, trajectories: int, seed: int, names: list[str]) -> None:
    """Collect one log, evaluate it by the named estimators, and add their errors in floors to `errors`."""
    behaviour: bullet.Behaviour = kind if kind == bullet.MIX else float(kind)
    truth = bullet.stored_truth(task)
    log = bullet.dataset(task, behaviour, trajectories, LENGTH, seed)
    problem = Problem.pose(log, bullet.target(task), gamma=1.0, time_limit="restart")
    for gamma in (1.0, GAMMA):
        problem = problem.with_gamma(gamma, time_limit="restart" if gamma == 1 else "continue")
        exact = truth.per_step[LENGTH] if gamma == 1 else truth.discounted
        floor = exact.deviation / trajectories**0.5
        shown = []
        for name in names:
            estimator = make(ESTIMATORS[name][0], ESTIMATORS[name][1])
            assert isinstance(estimator, ProblemEstimator)
            start = time.perf_counter()
            found = estimator.answer(problem)
            error = (found.value - exact.value) / floor
            errors.setdefault((task, kind, gamma, name), []).append(error)
            width = (found.standard_error or float("nan")) / floor
            shown.append(f"{name} {error:+.2f} ± {width:.2f} ({time.perf_counter() - start:.0f} s)")
        print(task, kind, f"seed {seed}", f"gamma {gamma}:", "; ".join(shown), flush=True)


if __name__ == "__main__":
    main()
