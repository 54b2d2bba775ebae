"""Verdicts on continuous states where any policy logs and any is asked about: `python -m benchmarks network_roles`.

Users ask about worse policies, too, about greedy ones, and about those that act less at random than what was logged.
Of each wild task with networks the target T, a near one N (twice its variance or temperature), a quiet one Q (a
quarter), its greedy form D, an older checkpoint O, the first one E and uniformly random actions U change roles. What
each is worth is measured by running it, once, and kept. Rows that are in the file are not run again, so another version
of the library needs another file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import ope_vpm as ov
from benchmarks._measure import HORIZON, run
from benchmarks._truths import SEED, truth_of, write_truths
from benchmarks._wild_tables import Run
from benchmarks.roles import print_table
from benchmarks.wild import append_runs, read_runs
from ope_vpm.envs.truth import GAMMA, find_truth
from ope_vpm.envs.wild import wild_tasks
from ope_vpm.envs.wild.networks import NetworkTask
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.arrays import NetworkPolicy

FROM_TARGET = ("T>T", "T>N", "T>Q", "T>D", "T>O")
FROM_OTHERS = ("N>Q", "N>D", "N>O", "O>T", "O>D", "O>E")
FROM_TWO = ("TO>N", "TO>D", "TO>E", "TU>O", "NU>D")
ROLES = (*FROM_TARGET, *FROM_OTHERS, *FROM_TWO)
"""Who logs, episode by episode in turn, and who is asked about."""
EPISODES = 50
MEASURED = 1000
"""Episodes behind a truth: its error is then a fifth of the floor of 50."""
QUIET = 0.25
"""Times the target's variance or temperature that Q has."""
GREEDY = 1e-6
"""Times the temperature at which a softmax takes its likeliest action, but for rounding."""


@dataclass(frozen=True)
class Cell:
    """One question about one log."""

    task: str
    roles: str
    gamma: float
    seed: int

    @property
    def behaviour(self) -> str:
        """The letters of those who log."""
        return self.roles.split(">")[0]

    @property
    def asked(self) -> str:
        """The letter of the policy in question."""
        return self.roles.split(">")[1]


def main() -> None:
    options = _options()
    names = options.tasks.split(",") if options.tasks else list(network_tasks(options.half))
    done = {(row.task, row.behaviour, row.gamma, row.seed) for row in read_runs(options.output)}
    parallel = Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    wanted = {(name, roles[-1]) for name in names for roles in ROLES}
    for name, letter in parallel(delayed(measured)(*each, options.truths) for each in sorted(wanted)):
        print(f"{name}: {letter} is measured", flush=True)
    cells = [cell for cell in _cells(names, options.seeds) if astuple(cell) not in done]
    for number, rows in enumerate(parallel(delayed(evaluated)(cell, options.truths) for cell in cells), 1):
        append_runs(options.output, rows)
        if number % 20 == 0:
            print(f"{number}/{len(cells)}", flush=True)
    print_table(read_runs(options.output))


def network_tasks(half: str | None = None) -> dict[str, NetworkTask]:
    """The wild tasks with networks, of one half or all."""
    return {name: task for name, task in wild_tasks(half).items() if isinstance(task, NetworkTask)}


def _cells(names: list[str], seeds: str) -> Iterator[Cell]:
    for name in names:
        for roles in ROLES:
            for gamma in (1.0, GAMMA):
                yield from (Cell(name, roles, gamma, int(seed)) for seed in seeds.split(","))


@cache
def policy_of(name: str, letter: str) -> TargetPolicy:
    """One of the seven policies of a task."""
    task = network_tasks()[name]
    target = task.target
    if letter == "D" and isinstance(target, NetworkPolicy):
        layers = target.layers
        return ov.as_policy(lambda seen: np.clip(layers.output(seen), layers.low, layers.high))
    by_letter = {
        "T": lambda: target,
        "N": task.near,
        "Q": lambda: target.more_random(QUIET),
        "D": lambda: target.more_random(GREEDY),
        "O": task.older,
        "E": lambda: task.policy(task.checkpoints()[0]),
        "U": task.poor,
    }
    return by_letter[letter]()


def measured(name: str, letter: str, folder: Path) -> tuple[str, str]:
    """Run a policy and keep what it is worth, unless that is known."""
    task, file = network_tasks()[name], folder / f"{name}-{letter}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        episodes = run(name, policy_of(name, letter), MEASURED, max(task.steps(True), HORIZON), SEED)
        write_truths(file, name, {letter: truth_of(episodes, {task.steps(True)})})
    return name, letter


def evaluated(cell: Cell, folder: Path) -> list[Run]:
    """The value per step or discounted, and at γ = 1 the return."""
    task, truth = network_tasks()[cell.task], find_truth(folder / f"{cell.task}-{cell.asked}.json", cell.asked)
    limit, asked = task.steps(True), policy_of(cell.task, cell.asked)
    data = task.run([policy_of(cell.task, letter) for letter in cell.behaviour], EPISODES, limit, cell.seed)
    right = truth.discounted if cell.gamma < 1 else truth.per_step[limit]
    blank = Run(
        task=cell.task, behaviour=cell.roles, episodes=EPISODES, cut=True, seed=cell.seed, gamma=cell.gamma, per="step",
        estimator="auto", finite=False, truth=right.value, truth_error=right.standard_error,
        floor=right.deviation / EPISODES**0.5,
    )  # fmt: skip
    ends = "restart" if cell.gamma == 1 else "continue"
    value = ov.evaluate(data, asked, "auto", gamma=cell.gamma, seed=cell.seed, time_limit=ends)
    low, high = value.interval or (None, None)
    rows = [replace(blank, value=value.value, low=low, high=high, verdict=value.verdict)]
    if cell.gamma == 1 and value.episode_return is not None:
        found, right = value.episode_return, truth.per_episode[limit]
        low, high = found.interval or (None, None)
        about = {"truth": right.value, "truth_error": right.standard_error, "floor": right.deviation / EPISODES**0.5}
        rows.append(
            replace(blank, **about, per="episode", value=found.value, low=low, high=high, verdict=found.verdict)
        )
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("tuning", "reporting"), default="tuning")
    parser.add_argument("--tasks", default="", help="gymnasium ids, separated by commas; all of the half if none")
    parser.add_argument("--seeds", default="100,101")
    parser.add_argument(
        "--truths", type=Path, default=Path("results/network_roles"), help="a folder for what was measured"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("results/network_roles.csv"))
    return parser.parse_args()
