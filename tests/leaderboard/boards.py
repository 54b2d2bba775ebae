"""Boards of any size whose results are drawn instead of computed, for tests and benchmarks of what is made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ope_vpm.leaderboard.jobs import Job, Result, plan
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.suites import Entry, Setting, Suite
from ope_vpm.leaderboard.tasks.exact import RandomMDPTask

NAMES = ("vpm", "auto", "naive", "onestep", "wist", "wiss", "fqe", "dr", "mwl", "mql")
VERDICTS = ("reliable", "caution", "unreliable")
REASONS = {"reliable": [], "caution": ["the interval is wide"], "unreliable": ["the weights rest on 2.3 episodes"]}


def drawn_suite(runs: int, settings: int = 2, policies: int = 5, estimators: int = 10) -> Suite:
    """A suite of runs × settings × policies × estimators cells."""
    tasks = [RandomMDPTask(policies=policies, mdp_seed=number) for number in range(settings)]
    made = tuple(Setting(f"mdp-{number}", task, 1.0) for number, task in enumerate(tasks))
    entries = tuple(Entry(name=name, label=name) for name in NAMES[:estimators])
    return Suite("drawn", "Drawn results", "No estimator has run.", runs, 0, made, entries)


def drawn_board(runs: int, settings: int = 2, policies: int = 5, estimators: int = 10, seed: int = 0) -> Board:
    """A whole board: values around 0 with standard deviation 1, truths of 0 and floors of 0.5."""
    suite = drawn_suite(runs, settings, policies, estimators)
    jobs, rng = plan(suite), np.random.default_rng(seed)
    return Board(suite, jobs, {job.key: drawn_result(job, rng) for job in jobs})


def drawn_result(job: Job, rng: np.random.Generator) -> Result:
    """As an estimator would leave it, with as many diagnostics as `vpm` has."""
    if job.entry is None:
        return Result(job.key, {"truth": 0.0, "truth_error": 0.0, "floor": 0.5})
    value, width, verdict = rng.normal(), rng.uniform(0.1, 2), VERDICTS[rng.integers(3)]
    numbers = {f"diagnostic_{number}": float(found) for number, found in enumerate(rng.uniform(size=12))}
    outcome = {
        "estimator": job.entry.name,
        "value": value,
        "gamma": 1.0,
        "standard_error": width / 2,
        "interval": [value - width, value + width],
        "effective_sample_size": rng.uniform(100, 2500),
        "verdict": verdict,
        "reasons": REASONS[verdict],
        "diagnostics": numbers | {"episodes": 50, "rows": 2500, "solver": "tabular", "notes": []},
    }
    return Result(job.key, outcome, None, float(rng.uniform()))


def with_error(board: Board, number: int, text: str) -> Board:
    """The same board, one of its cells failed."""
    key = [job for job in board.jobs if job.entry is not None][number].key
    return replace(board, results=board.results | {key: Result(key, error=text)})
