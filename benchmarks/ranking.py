"""Ranking six policies of rising skill from one log: Spearman's correlation of estimates and true values.

`python -m benchmarks.ranking [TASK]... [--seeds 0,1,2] [--names auto,vpm]`. There are two logs of 200 trajectories: by
all six checkpoints in turn, and the study's "mix", which has no data of the three least trained ones. The true values
are printed with their standard errors: policies within two of them are tied, whatever an estimate says.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from ope_vpm.envs import bullet
from ope_vpm.envs.bullet import LOGGED, stored_truth
from ope_vpm.envs.collect import collect
from ope_vpm.envs.training import TASKS
from ope_vpm.envs.truth import GAMMA
from ope_vpm.ope import Problem
from ope_vpm.ope.estimator import ProblemEstimator, make
from ope_vpm.policy import TargetPolicy

TRAJECTORIES = 200
"""The largest log of the control studies."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--names", default="auto,vpm,dr")
    chosen = parser.parse_args()
    print("| task | log | γ | estimator | Spearman, each seed | mean |\n|---|---|---|---|---|---|")
    for task in chosen.tasks:
        checkpoints = [file.stem for file in bullet.checkpoints(task)]
        everybody: list[TargetPolicy] = [bullet.policy(task, name) for name in checkpoints]
        for log, behaviour in {"all six": everybody, bullet.MIX: bullet.behaviour(task, bullet.MIX)}.items():
            ranked(task, log, behaviour, [int(seed) for seed in chosen.seeds.split(",")], chosen.names.split(","))


def ranked(task: str, log: str, behaviour: Sequence[TargetPolicy], seeds: list[int], names: list[str]) -> None:
    """Print the rank correlation of each estimator on one kind of log.

    Args:
        task: the name of the task.
        log: the name of the log, for the table.
        behaviour: the policies that collect it in turn.
        seeds: of the logs.
        names: of the estimators.
    """
    checkpoints = [file.stem for file in bullet.checkpoints(task)]
    values: dict[tuple[float, str, int], list[float]] = {}
    for seed in seeds:
        data = collect(bullet.environment_id(task), behaviour, TRAJECTORIES, LOGGED[task], seed)
        problem = Problem.pose(data, bullet.target(task), gamma=1.0, time_limit="restart")
        for gamma in (1.0, GAMMA):
            problem = problem.with_gamma(gamma, time_limit="restart" if gamma == 1 else "continue")
            for checkpoint in checkpoints:
                about = problem.with_policy(bullet.policy(task, checkpoint))
                for name in names:
                    estimator = make(name, {})
                    assert isinstance(estimator, ProblemEstimator)
                    values.setdefault((gamma, name, seed), []).append(estimator.answer(about).value)
    for gamma in (1.0, GAMMA):
        truths = [stored_truth(task, name).at(gamma, LOGGED[task]) for name in checkpoints]
        exact = [truth.value for truth in truths]
        for name in names:
            each = [float(spearmanr(values[gamma, name, seed], exact).statistic) for seed in seeds]
            shown = ", ".join(f"{value:.2f}" for value in each)
            print(f"| {task} | {log} | {gamma} | {name} | {shown} | {np.mean(each):.2f} |", flush=True)
        print("  truths:", ", ".join(f"{truth.value:.3f} ± {truth.standard_error:.3f}" for truth in truths), flush=True)
        for name in names:
            print(f"  {name}:", ", ".join(f"{value:.3f}" for value in values[gamma, name, seeds[0]]), flush=True)


if __name__ == "__main__":
    main()
