"""Verdicts on counts where any policy logs and any is asked about: `python -m benchmarks roles --round A`.

Users ask about worse policies, too, and from better ones' logs. Seven policies of each made-up task (the target T, a
near one N, an older one O, uniform U, and the halves H = T/O, S = O/U, V = N/U) and checkpoints of Taxi change roles.
On round A rules were chosen, round B was looked at while they were, round C was run once before and once after
(note 016). Rows that are in the file are not run again, so another version of the library needs another file.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

import ope_vpm as ov
from benchmarks._made import MadeTask, garnet, made_tasks, patients, pits, to_tune_on, ward
from benchmarks._wild_tables import GOOD, Run, geometric_mean, share
from benchmarks.wild import append_runs, read_runs
from ope_vpm.envs import taxi
from ope_vpm.envs.taxi_training import train
from ope_vpm.envs.wild import wild_task
from ope_vpm.envs.wild.tables import FiniteTask
from ope_vpm.policy import TablePolicy

GAMMAS = (1.0, 0.99)


@dataclass(frozen=True)
class Round:
    """Tasks, who logs for whom, and sizes."""

    tasks: tuple[FiniteTask, ...]
    roles: tuple[str, ...]
    """Two letters: the behaviour's, and that of the policy in question."""
    trainings: tuple[int, ...]
    """Seeds of Q-learning on Taxi; 0 are the shipped tables."""
    checkpoints: tuple[tuple[int, int], ...]
    """Iterations of the behaviour, and of the policy in question."""
    sizes: tuple[tuple[int, int], ...]
    """Trajectories of Taxi and their length."""
    seeds: tuple[int, ...]
    taxi_seeds: tuple[int, ...]


def second_round() -> tuple[FiniteTask, ...]:
    """Made-up tasks, and three of gymnasium's."""
    made = (
        to_tune_on("RGarnet-a", 80, partial(garnet, 150, 6, 5, 0.03, 0.05, 21), older_sweeps=3, temperature=0.3),
        to_tune_on("RGarnet-b", 60, partial(garnet, 80, 4, 3, 0.05, 0.0, 22), older_sweeps=2, temperature=0.03),
        to_tune_on("RGarnet-c", 60, partial(garnet, 400, 6, 4, 0.03, 0.1, 27), noise=1.0, temperature=0.3),
        to_tune_on("RPits-a", 100, partial(pits, 8, 0.2, 1.0, 23), older_sweeps=12, temperature=0.03),
        to_tune_on("RPits-b", 80, partial(pits, 6, 0.1, 2.0, 24), older_sweeps=8, temperature=0.1, random_share=0.05),
        to_tune_on("RWard-a", 200, partial(ward, 300, 6, 0.4, 25), temperature=0.01, **patients()),
        to_tune_on("RWard-b", 200, partial(ward, 150, 10, 0.5, 26, 0.3), temperature=0.02, **patients()),
    )
    others = (wild_task(name) for name in ("CliffWalking-v0", "Taxi-v3", "FrozenLake8x8-v1"))
    return (*made, *(other for other in others if isinstance(other, FiniteTask)))


def last_round() -> tuple[MadeTask, ...]:
    """Made-up tasks of which nothing was known before."""
    return (
        to_tune_on("CGarnet-a", 80, partial(garnet, 120, 5, 3, 0.04, 0.03, 31), older_sweeps=2, temperature=0.2),
        to_tune_on("CGarnet-b", 60, partial(garnet, 200, 5, 4, 0.05, 0.0, 32), older_sweeps=2, temperature=0.02),
        to_tune_on("CGarnet-c", 50, partial(garnet, 600, 8, 4, 0.04, 0.06, 33), noise=1.0, temperature=0.3),
        to_tune_on("CPits-a", 100, partial(pits, 7, 0.2, 2.0, 34), older_sweeps=10, temperature=0.05),
        to_tune_on("CPits-b", 150, partial(pits, 9, 0.1, 1.0, 35), older_sweeps=14, temperature=0.03, random_share=0.1),
        to_tune_on("CWard-a", 200, partial(ward, 250, 7, 0.5, 36), temperature=0.01, **patients()),
        to_tune_on("CWard-b", 200, partial(ward, 500, 12, 0.3, 37, 0.2), temperature=0.01, **patients()),
    )


MANY = ("TN", "TO", "NO", "OU", "TU", "OH", "UH", "NT", "OT", "TV", "HO", "OS")
FEWER = ("TN", "TO", "NO", "OU", "OH", "NT", "OT", "TV", "UH")
WORSE_AND_BETTER = ((950, 700), (950, 850), (950, 1000), (850, 700), (550, 1000), (1000, 950), (700, 850))


@cache
def rounds() -> dict[str, Round]:
    """The three rounds by name."""
    both = (*WORSE_AND_BETTER[:4], (850, 1000), (700, 850), (700, 1000), (1000, 850), (1000, 950))
    small_and_large = ((50, 100), (200, 100), (50, 400), (200, 400))
    between, last = ((50, 200), (100, 400), (200, 200)), ((50, 150), (100, 300), (200, 300), (100, 100))
    return {
        "A": Round(tuple(made_tasks().values()), MANY, (1, 2), both, small_and_large, (100,), (100, 101)),
        "B": Round(second_round(), FEWER, (0, 3), WORSE_AND_BETTER, between, (0, 1), (0, 1)),
        "C": Round(last_round(), FEWER, (4,), WORSE_AND_BETTER, last, (2, 3), (2, 3)),
    }


@dataclass(frozen=True)
class Cell:
    """One question about one log: of a task, or of a training of Taxi."""

    round: str
    task: str
    roles: tuple[str, str]
    episodes: int
    length: int
    gamma: float
    seed: int


def main() -> None:
    options = _options()
    done = {(run.task, run.behaviour, run.episodes, run.gamma, run.seed) for run in read_runs(options.output)}
    trained = Path(tempfile.mkdtemp()) if options.trained is None else options.trained
    for seed in rounds()[options.round].trainings:
        if seed and not (trained / f"{seed}").exists():
            print(f"Q-learning on Taxi with seed {seed}", flush=True)
            train(trained / f"{seed}", seed=seed)
    cells = [cell for cell in _cells(options.round) if _key(cell) not in done]
    found = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(evaluated)(cell, options.estimator, trained) for cell in cells
    )
    for number, runs in enumerate(found, 1):
        append_runs(options.output, runs)
        if number % 50 == 0:
            print(f"{number}/{len(cells)}", flush=True)
    print_table(read_runs(options.output))


def _cells(name: str) -> Iterator[Cell]:
    chosen = rounds()[name]
    for task in chosen.tasks:
        for roles in chosen.roles:
            for episodes in (50, 200):
                for gamma in GAMMAS:
                    for seed in chosen.seeds:
                        yield Cell(name, task.id, (roles[0], roles[1]), episodes, task.steps(True), gamma, seed)
    for training in chosen.trainings:
        for behaviour, asked in chosen.checkpoints:
            for episodes, length in chosen.sizes:
                for gamma in GAMMAS:
                    for seed in chosen.taxi_seeds:
                        roles = str(behaviour), str(asked)
                        yield Cell(name, f"Taxi {training}", roles, episodes, length, gamma, seed)


def _key(cell: Cell) -> tuple[object, ...]:
    return _task_name(cell), _behaviour_name(cell), cell.episodes, cell.gamma, cell.seed


def _task_name(cell: Cell) -> str:
    return f"{cell.task}, {cell.length} steps"


def _behaviour_name(cell: Cell) -> str:
    return f"{cell.roles[0]} for {cell.roles[1]}"


def evaluated(cell: Cell, estimator: str, trained: Path) -> list[Run]:
    """The value per step or discounted, and at γ = 1 the return where there is one."""
    return _on_taxi(cell, estimator, trained) if cell.task.startswith("Taxi ") else _on_task(cell, estimator)


def _on_task(cell: Cell, estimator: str) -> list[Run]:
    task = next(task for task in rounds()[cell.round].tasks if task.id == cell.task)
    policies = policies_of(task)
    behaviour, asked = (policies[letter] for letter in cell.roles)
    data = task.model.simulate([behaviour], cell.episodes, cell.length, cell.seed)
    limit = "restart" if cell.gamma == 1 else "continue"
    value = ov.evaluate(data, asked, estimator, gamma=cell.gamma, seed=cell.seed, time_limit=limit)
    discounted = cell.gamma < 1
    truth = task.model.value(asked, cell.gamma) if discounted else task.model.per_step(asked, cell.length)
    rows = [_row(cell, estimator, value.value, value.interval, value.verdict, truth.value, truth.deviation)]
    if not discounted and value.episode_return is not None:
        truth, found = task.model.episode_return(asked, cell.length), value.episode_return
        of_return = found.value, found.interval, found.verdict, truth.value, truth.deviation
        rows.append(_row(cell, estimator, *of_return, per="episode"))
    return rows


def policies_of(task: FiniteTask) -> dict[str, TablePolicy]:
    """Seven policies of a task by letter."""
    target, near, older, uniform = task.target, task.near(), task.older(), task.poor()
    return {
        "T": target,
        "N": near,
        "O": older,
        "U": uniform,
        "H": TablePolicy((target.table + older.table) / 2),
        "S": TablePolicy((older.table + uniform.table) / 2),
        "V": TablePolicy((near.table + uniform.table) / 2),
    }


def _on_taxi(cell: Cell, estimator: str, trained: Path) -> list[Run]:
    """The standard error of the logged mean stands for the on-policy floor."""
    training = int(cell.task.removeprefix("Taxi "))
    behaviour, asked = (_table(training, int(iteration), trained) for iteration in cell.roles)
    data = taxi.simulate(behaviour, trajectories=cell.episodes, length=cell.length, seed=cell.seed)
    value = ov.evaluate(data, asked, estimator, gamma=cell.gamma, seed=cell.seed)
    logged = ov.evaluate(data, asked, "naive", gamma=cell.gamma, seed=cell.seed).standard_error or 0.0
    deviation, truth = logged * np.sqrt(cell.episodes), taxi.exact_value(asked, cell.gamma)
    return [_row(cell, estimator, value.value, value.interval, value.verdict, truth, deviation)]


def _table(training: int, iteration: int, trained: Path) -> TablePolicy:
    if training == 0:
        return taxi.shipped(iteration)
    stored = np.load(trained / f"{training}" / f"iteration-{iteration:04d}.npy", allow_pickle=False)
    return TablePolicy(stored.astype(np.float64))


def _row(
    cell: Cell,
    estimator: str,
    value: float,
    interval: tuple[float, float] | None,
    verdict: str,
    truth: float,
    deviation: float,
    per: str = "step",
) -> Run:
    low, high = interval or (None, None)
    return Run(
        task=_task_name(cell), behaviour=_behaviour_name(cell), episodes=cell.episodes, cut=True, seed=cell.seed,
        gamma=cell.gamma, per=per, estimator=estimator, finite=True, truth=truth, truth_error=0.0,
        floor=deviation / np.sqrt(cell.episodes), value=value, low=low, high=high, verdict=verdict,
    )  # fmt: skip


def print_table(runs: Sequence[Run]) -> None:
    """Whether verdicts keep their word, by kind of task."""
    print("\n| | runs | reliable: covered | confidently wrong | caution: covered | good, called reliable | floors |")
    print("|" + "---|" * 7)
    scored = [run for run in runs if run.floor > 0]
    kinds = sorted({_kind(run) for run in scored if run.per == "step"})
    groups = [(kind, [run for run in scored if run.per == "step" and _kind(run) == kind]) for kind in kinds]
    groups.append(("values", [run for run in scored if run.per == "step"]))
    groups.append(("returns", [run for run in scored if run.per == "episode"]))
    for name, group in groups:
        reliable, caution = ([run for run in group if run.verdict == level] for level in ("reliable", "caution"))
        good = [run for run in group if run.floors <= GOOD]
        wrong = sum(run.confidently_wrong for run in reliable)
        covered = [share(some, lambda run: run.covered) for some in (reliable, caution)]
        kept = share(good, lambda run: run.verdict == "reliable")
        floors = geometric_mean(group)
        print(f"| {name} | {len(group)} | {covered[0]} | {wrong} | {covered[1]} | {kept} | {floors:.2f} |")


def _kind(run: Run) -> str:
    return run.task.split("-")[0].split(" ")[0]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round", choices=("A", "B", "C"), default="A")
    parser.add_argument("--estimator", default="vpm")
    parser.add_argument("--trained", type=Path, help="a folder for the tables of Taxi, to train them once")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("results/roles.csv"))
    return parser.parse_args()
