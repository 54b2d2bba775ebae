"""Everything that a leaderboard found, as JSON holds it: what the tables and the page are made of.

The first sentence says which estimator to trust here, and why. Estimators that agree by construction, as several do on
counted pairs, are shown as one.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.leaderboard.jobs import Result
from ope_vpm.leaderboard.metrics import METRICS, Line, agreement
from ope_vpm.leaderboard.records import Board
from ope_vpm.optional import versions

ALIKE = 1e-6
"""The largest difference of equal estimators, as a share of the largest value: iterative solvers of one system of
equations differ by 1e-9, other equations by 1e-4 or more."""


def alike(board: Board, settings: Iterable[int]) -> list[list[str]]:
    """Groups of two or more estimators with the same value in every cell of some settings, in the suite's order."""
    numbers = list(settings)
    values = {entry.label: _values(board, numbers, entry.label) for entry in board.suite.entries}
    groups: list[list[str]] = []
    for label, own in values.items():
        if not np.isfinite(own).any():
            continue
        home = next((group for group in groups if _same(values[group[0]], own)), None)
        if home is None:
            groups.append([label])
        else:
            home.append(label)
    return [group for group in groups if len(group) > 1]


def _values(board: Board, numbers: list[int], label: str) -> Floats:
    """Every value of an estimator, NaN where it has none."""
    parts: list[Floats] = []
    for number in numbers:
        setting = board.suite.settings[number]
        block = board.blocks[number].get(label)
        shape = len(board.suite.seeds(setting)), len(board.policies[setting.label, setting.gamma])
        parts.append((np.full(shape, np.nan) if block is None else block.answers.value).reshape(-1))
    return np.concatenate(parts) if parts else np.zeros(0)


def _same(one: Floats, other: Floats) -> bool:
    known = np.isfinite(one)
    if not np.array_equal(known, np.isfinite(other)):
        return False
    return bool((np.abs(one - other)[known] <= ALIKE * np.abs(one[known]).max()).all())


LEAST_RUNS = 5
"""With n runs no p-value of the bootstrap is below 2⁻ⁿ: fewer can call nobody significantly worse."""
TOO_OFTEN = 0.05
"""The share of "reliable" answers that may be confidently wrong: what a 95 % interval promises."""


def trusted(total: Sequence[Line], settings: int) -> str:
    """Who comes nearest to the truth, how near, how often it was confidently wrong, and who is level with it.

    Args:
        total: the lines over all settings, best first.
        settings: how many settings there are.
    """
    level = [line for line in total if line.level]
    if not level:
        return _without_best(total)
    best = min(
        level, key=lambda line: (_risk(line), -line.settings)
    )  # the first of those that ran on the most settings
    if max(line.runs for line in total) < LEAST_RUNS:
        few = f"{best.runs} runs can tell nobody apart, {LEAST_RUNS} or more might."
        return f"Here, {best.estimator} comes nearest: {_error(best)}{_over(best, settings)}{_safety(best)}. {few}"
    said = f"Here, trust {best.estimator}: {_error(best)}{_over(best, settings)}{_safety(best)}."
    for first in (line for line in level if line.best and line is not best):
        said += f" {first.estimator} has the lowest error{_safety(first)}."
    others = [line for line in level if line is not best and not line.best]
    if others:
        same, they = ("is", "it") if len(others) == 1 else ("are", "they")
        there = f" where {they} ran" if any(line.settings < best.settings for line in others) else ""
        said += f" {_listed([line.estimator for line in others])} {same} not significantly worse{there}."
    return said


def _without_best(total: Sequence[Line]) -> str:
    if all(line.numbers["log_mse"][0] is None for line in total):
        return "No truth is known here, so nobody can be called the best: see how far the estimators agree."
    return "Too little is finished to say which estimator to trust."


def _risk(line: Line) -> float:
    """How often it was confidently wrong, where that is more than an interval promises."""
    wrong = line.numbers["confidently_wrong"][0]
    return 0.0 if wrong is None or wrong <= TOO_OFTEN else wrong


def _error(line: Line) -> str:
    ratio, log_mse = line.numbers["ratio"][0], line.numbers["log_mse"][0]
    if ratio is not None:
        return f"its error is {ratio:.2g} times that of an on-policy mean of as many episodes"
    return f"its errors are the smallest (log₁₀ MSE {log_mse:.2f})"


def _over(line: Line, settings: int) -> str:
    if settings == 1:
        return ""
    count = "all" if line.settings == settings else f"{line.settings} of"
    return f", over {count} {settings} settings"


def _safety(line: Line) -> str:
    wrong, count = line.numbers["confidently_wrong"][0], line.reliable["confidently_wrong"]
    if wrong is None or not count:
        return "; it called none of its answers reliable"
    if wrong == 0:
        return f", and none of its {count} answers called reliable was confidently wrong"
    but = ", but" if wrong > TOO_OFTEN else ", and"
    return f"{but} {wrong:.1%} of its {count} answers called reliable were confidently wrong"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


LIBRARIES = ("ope-vpm", "numpy", "scipy", "torch")
OF_LINE = ("estimator", "setting", "settings", "runs", "failed", "missing", "p_value", "against_best", "best", "level")
DETAILED = 50_000
"""How many cells are listed with their reasons, warnings and diagnostics, which take five times as much as the rest."""
MOST_CELLS = 200_000
"""How many cells are listed at all: as dictionaries they take 1 KB each in memory."""
SHORT = "This board has {:,} cells, more than {:,}: their reasons, warnings and diagnostics are in the store only."
SUMMARISED = "This board has {:,} cells, more than {:,}: they are in cells.csv and the store, and not listed here."


def document(board: Board, found: Sequence[Line], total: Sequence[Line], command: str) -> dict[str, Any]:
    """Everything there is, as JSON holds it; the page is made of this."""
    suite, finished = board.suite, board.finished
    return {
        "suite": suite.name,
        "title": suite.title,
        "description": suite.description,
        "trusted": trusted(total, len(suite.settings)),
        "command": command,
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "versions": versions(LIBRARIES),
        "runs": suite.runs,
        "first_seed": suite.first_seed,
        "metrics": {name: metric.title for name, metric in METRICS.items()},
        "estimators": [
            {"label": entry.label, "name": entry.name, "settings": entry.settings}
            for entry in suite.entries
            if any(entry in suite.competitors(setting) for setting in suite.settings)
        ],
        "left_out": [
            {"estimator": label, "task": task, "gamma": gamma, "reason": reason}
            for (label, task, gamma), reason in suite.left_out.items()
        ],
        "groups": alike(board, range(len(suite.settings))),
        "settings": [_setting(board, number) for number in range(len(suite.settings))],
        "finished": finished,
        "missing": sum(line.missing for line in found),
        "note": _note(finished),
        "overall": [_as_dict(line) for line in total],
        "lines": [_as_dict(line) for line in found],
        "cells": list(cells(board)) if finished <= MOST_CELLS else [],
    }


def _note(finished: int) -> str:
    """A sentence on what is not in the document, because there is too much of it."""
    if finished > MOST_CELLS:
        return SUMMARISED.format(finished, MOST_CELLS)
    return SHORT.format(finished, DETAILED) if finished > DETAILED else ""


def _setting(board: Board, number: int) -> dict[str, Any]:
    setting = board.suite.settings[number]
    names = board.policies[setting.label, setting.gamma]
    known = [board.reference(setting, name) for name in names]
    likeness = agreement(board, number) if len(names) > 1 else ([], None)
    return {
        "label": setting.label,
        "task": setting.name,
        "kind": setting.task.kind,
        **setting.task.axes(),
        "gamma": setting.gamma,
        "per": setting.task.per,
        "runs": len(board.suite.seeds(setting)),
        "policies": [
            {"name": name} | {field: getattr(one, field, None) for field in ("truth", "truth_error", "floor")}
            for name, one in zip(names, known, strict=True)
        ],
        "groups": alike(board, [number]),
        "agreement": {"estimators": likeness[0], "matrix": None if likeness[1] is None else likeness[1].tolist()},
    }


def _as_dict(line: Line) -> dict[str, Any]:
    numbers = {name: list(number) for name, number in line.numbers.items()}
    return (
        {name: getattr(line, name) for name in OF_LINE} | {"reliable": line.reliable["reliable_and_covered"]} | numbers
    )


def cells(board: Board) -> Iterator[dict[str, Any]]:
    """Every finished cell with what made it."""
    detailed = board.finished <= DETAILED
    for (number, label, policy), jobs in board.cells.items():
        for job in jobs:
            result = board.results.get(job.key)
            if result is not None:
                cell = {"setting": number, "policy": policy, "estimator": label, "run": job.run, "seed": job.seed}
                yield cell | _numbers(result) | (_details(result) if detailed else {}) | {"key": job.key}


def _numbers(result: Result) -> dict[str, Any]:
    low, high = result.outcome.get("interval") or (None, None)
    found = {name: result.outcome.get(name) for name in ("value", "standard_error", "effective_sample_size", "verdict")}
    return found | {"low": low, "high": high, "seconds": round(result.seconds, 4), "error": result.error}


def _details(result: Result) -> dict[str, Any]:
    empty: dict[str, Any] = {"reasons": [], "warnings": [], "diagnostics": {}}
    return {name: result.outcome.get(name, nothing) for name, nothing in empty.items()}
