"""Estimators on the wild tasks: `python -m benchmarks wild --half tuning --estimators auto,vpm --seeds 100-105`.

`--half made` takes the made-up finite tasks of `benchmarks._made`, on which rules for counts are chosen.

Every run is a row of a CSV as soon as it is finished; rows that are there are not run again, so another version of
the library needs another file. Settings are chosen on the tuning half with seeds from 100 on and reported on the
reporting half with seeds from 0 on.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

import ope_vpm as ov
from benchmarks._made import made_tasks
from benchmarks._wild_tables import Run, print_tables
from ope_vpm.envs.wild import BEHAVIOURS, HALVES, WildTask, collect_log, wild_task, wild_tasks

Key = tuple[Any, ...]
MADE = "made"
"""The name of the made-up tasks, besides those of the halves."""


@dataclass(frozen=True)
class Log:
    """One data set."""

    task: str
    behaviour: str
    episodes: int
    cut: bool
    seed: int


def main() -> None:
    options = _options()
    estimators = options.estimators.split(",")
    runs = read_runs(options.output)
    done = {_key(run) for run in runs}
    wanted = [(log, _missing(log, estimators, options.gammas, done)) for log in _logs(options)]
    wanted = [(log, missing) for log, missing in wanted if missing]
    if not options.table_only:
        parallel = Parallel(n_jobs=options.jobs, return_as="generator_unordered")
        for number, found in enumerate(parallel(delayed(evaluate_log)(*each) for each in wanted), 1):
            append_runs(options.output, found)
            print(f"{number}/{len(wanted)} logs: {found[0].task} {found[0].behaviour}", flush=True)
    chosen = set(_logs(options))
    kept = [
        run
        for run in read_runs(options.output)
        if Log(run.task, run.behaviour, run.episodes, run.cut, run.seed) in chosen and run.estimator in estimators
    ]
    print_tables(kept)


def evaluate_log(log: Log, missing: list[tuple[str, float]]) -> list[Run]:
    """Collect a log and run the estimators that its rows lack."""
    task = _task(log.task)
    data = collect_log(task, log.behaviour, log.episodes, log.seed, cut=log.cut)
    return [run for estimator, gamma in missing for run in _evaluated(log, data, estimator, gamma)]


def _evaluated(log: Log, data: Any, estimator: str, gamma: float) -> Iterator[Run]:
    """One row, or at γ = 1 two: the mean reward per step, and the return per episode where there is one."""
    task = _task(log.task)
    finite = data.finite
    about = {**asdict(log), "gamma": gamma, "estimator": estimator, "finite": finite}
    truth = task.truth(gamma, cut=log.cut)
    floor = task.floor(log.episodes, gamma, cut=log.cut)
    row = Run(**about, per="step", truth=truth.value, truth_error=truth.standard_error, floor=floor)
    start = time.perf_counter()
    try:
        limit = "restart" if gamma == 1 else "continue"
        value = ov.evaluate(data, task.target, estimator, gamma=gamma, seed=log.seed, time_limit=limit)
    except Exception as error:  # a refusal is a result: one estimator must not end the others' runs
        yield replace(row, error=f"{type(error).__name__}: {error}")
        return
    low, high = value.interval or (None, None)
    seconds = time.perf_counter() - start
    row = replace(row, value=value.value, low=low, high=high, verdict=value.verdict, seconds=seconds)
    yield row
    if gamma == 1:
        truth = task.truth(1, "episode", cut=log.cut)
        floor = task.floor(log.episodes, 1, "episode", cut=log.cut)
        row = replace(row, per="episode", truth=truth.value, truth_error=truth.standard_error, floor=floor)
        yield _with_return(row, value)


def _with_return(row: Run, value: Any) -> Run:
    """The row of the return per episode, or why there is none."""
    row = replace(row, value=None, low=None, high=None)
    try:
        low, high = value.return_interval or (None, None)
        return replace(row, value=value.as_return(), low=low, high=high, verdict=value.return_verdict)
    except ValueError as error:
        return replace(row, verdict="", error=f"{type(error).__name__}: {error}")


def _task(name: str) -> WildTask:
    return made_tasks().get(name) or wild_task(name)


def _logs(options: argparse.Namespace) -> Iterator[Log]:
    tasks: Mapping[str, WildTask] = made_tasks() if options.half == MADE else wild_tasks(options.half)
    chosen = options.tasks.split(",") if options.tasks else list(tasks)
    strangers = [name for name in chosen if name not in tasks]
    if strangers:
        raise SystemExit(f"{strangers[0]} is not in the {options.half} half: known are {', '.join(tasks)}")
    for name in chosen:
        task = tasks[name]
        for behaviour in options.behaviours.split(","):
            for episodes in map(int, options.episodes.split(",")):
                for cut in (True, False):
                    same = task.limit == task.own_limit
                    if options.logs == ("whole" if cut else "cut") or (not cut and same):
                        continue
                    yield from (Log(name, behaviour, episodes, cut, seed) for seed in _seeds(options.seeds))


def _missing(log: Log, estimators: list[str], gammas: str, done: set[Key]) -> list[tuple[str, float]]:
    """Estimators and discounts that have no row yet."""
    pairs = [(estimator, float(gamma)) for estimator in estimators for gamma in gammas.split(",")]
    return [(estimator, gamma) for estimator, gamma in pairs if (*asdict(log).values(), estimator, gamma) not in done]


def _key(run: Run) -> Key:
    return run.task, run.behaviour, run.episodes, run.cut, run.seed, run.estimator, run.gamma


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def read_runs(file: Path) -> list[Run]:
    """The rows of a CSV; none where there is no file."""
    if not file.exists():
        return []
    with file.open(newline="") as stream:
        return [Run.read(row) for row in csv.DictReader(stream)]


def append_runs(file: Path, runs: list[Run]) -> None:
    """Add rows, with the head where the file is new."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = not file.exists()
    with file.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Run)])
        if new:
            writer.writeheader()
        writer.writerows(asdict(run) for run in runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=(*HALVES, MADE), default="tuning")
    parser.add_argument("--estimators", default="auto,naive,onestep", help="names, separated by commas")
    parser.add_argument("--seeds", default="100", help="one, or first-last")
    parser.add_argument("--tasks", default="", help="gymnasium ids, separated by commas; all of the half if not given")
    parser.add_argument("--behaviours", default=",".join(BEHAVIOURS))
    parser.add_argument("--episodes", default="50", help="sizes of the logs, separated by commas")
    parser.add_argument("--gammas", default="0.99,1")
    parser.add_argument("--logs", choices=["cut", "whole", "both"], default="cut")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("results/wild.csv"))
    parser.add_argument("--table-only", action="store_true", help="print the tables of the rows that are there")
    return parser.parse_args()


if __name__ == "__main__":
    main()
