"""Everything that a leaderboard found, as JSON holds it: what the tables and the page are made of."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ope_vpm.leaderboard.advice import trusted
from ope_vpm.leaderboard.groups import alike
from ope_vpm.leaderboard.jobs import Result
from ope_vpm.leaderboard.metrics import METRICS, Line, agreement
from ope_vpm.leaderboard.records import Board

LIBRARIES = ("ope-vpm", "numpy", "scipy", "torch")
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
        "versions": _versions(),
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


def _versions() -> dict[str, str]:
    """Those of Python and of the libraries that are installed: torch is an extra."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


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
            {
                "name": name,
                "truth": None if one is None else one.truth,
                "truth_error": None if one is None else one.truth_error,
                "floor": None if one is None else one.floor,
            }
            for name, one in zip(names, known, strict=True)
        ],
        "groups": alike(board, [number]),
        "agreement": {"estimators": likeness[0], "matrix": None if likeness[1] is None else likeness[1].tolist()},
    }


def _as_dict(line: Line) -> dict[str, Any]:
    return {
        "estimator": line.estimator,
        "setting": line.setting,
        "settings": line.settings,
        "runs": line.runs,
        "failed": line.failed,
        "missing": line.missing,
        "reliable": line.reliable["reliable_and_covered"],
        "p_value": line.p_value,
        "against_best": line.against_best,
        "best": line.best,
        "level": line.level,
        **{name: list(number) for name, number in line.numbers.items()},
    }


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
    outcome = result.outcome
    low, high = outcome.get("interval") or (None, None)
    return {
        "value": outcome.get("value"),
        "low": low,
        "high": high,
        "standard_error": outcome.get("standard_error"),
        "effective_sample_size": outcome.get("effective_sample_size"),
        "verdict": outcome.get("verdict"),
        "seconds": round(result.seconds, 4),
        "error": result.error,
    }


def _details(result: Result) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "reasons": outcome.get("reasons", []),
        "warnings": outcome.get("warnings", []),
        "diagnostics": outcome.get("diagnostics", {}),
    }
