"""Everything that a leaderboard found, as JSON holds it: what the tables and the page are made of."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from ope_vpm.leaderboard.metrics import METRICS, Line, agreement
from ope_vpm.leaderboard.payload import rounded
from ope_vpm.leaderboard.records import Board

LIBRARIES = ("ope-vpm", "numpy", "scipy", "torch")
MOST_CELLS = 200_000
"""How many cells the document lists one by one: as dictionaries they take 2 KB each in memory and 0.7 KB in a file."""
SUMMARISED = (
    "This board has {:,} cells, more than the {:,} that are listed one by one: they are in cells.csv and the store."
)


def document(board: Board, found: Sequence[Line], total: Sequence[Line], command: str) -> dict[str, Any]:
    """Everything there is, as JSON holds it; the page is made of this."""
    suite, finished = board.suite, board.finished
    listed = finished <= MOST_CELLS
    return {
        "suite": suite.name,
        "title": suite.title,
        "description": suite.description,
        "command": command,
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "runs": suite.runs,
        "first_seed": suite.first_seed,
        "metrics": METRICS,
        "estimators": [
            {"label": entry.label, "name": entry.name, "settings": entry.settings}
            for entry in suite.entries
            if any(entry in suite.competitors(setting) for setting in suite.settings)
        ],
        "left_out": [
            {"estimator": label, "task": task, "gamma": gamma, "reason": reason}
            for (label, task, gamma), reason in suite.left_out.items()
        ],
        "settings": [_setting(board, number) for number in range(len(suite.settings))],
        "finished": finished,
        "missing": sum(line.missing for line in found),
        "note": "" if listed else SUMMARISED.format(finished, MOST_CELLS),
        "overall": [_as_dict(line) for line in total],
        "lines": [_as_dict(line) for line in found],
        "cells": list(cells(board)) if listed else [],
    }


def _setting(board: Board, number: int) -> dict[str, Any]:
    setting = board.suite.settings[number]
    names = setting.task.names()
    known = [board.reference(setting, name) for name in names]
    likeness = agreement(board, number) if len(names) > 1 else ([], None)
    return {
        "label": setting.label,
        "task": setting.name,
        "kind": setting.task.kind,
        **setting.task.axes(),
        "gamma": setting.gamma,
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
        "best": line.best,
        "level": line.level,
        **{name: list(number) for name, number in line.numbers.items()},
    }


def cells(board: Board) -> Iterable[dict[str, Any]]:
    """Every finished cell with what made it."""
    for (number, label, policy), jobs in board.cells.items():
        for job in jobs:
            result = board.results.get(job.key)
            if result is not None:
                outcome = result.outcome
                low, high = outcome.get("interval") or (None, None)
                yield {
                    "setting": number,
                    "policy": policy,
                    "estimator": label,
                    "run": job.run,
                    "seed": job.seed,
                    "value": outcome.get("value"),
                    "low": low,
                    "high": high,
                    "standard_error": outcome.get("standard_error"),
                    "effective_sample_size": outcome.get("effective_sample_size"),
                    "verdict": outcome.get("verdict"),
                    "reasons": outcome.get("reasons", []),
                    "seconds": round(result.seconds, 4),
                    "error": result.error,
                    "warnings": outcome.get("warnings", []),
                    "diagnostics": rounded(outcome.get("diagnostics", {})),
                    "key": job.key,
                }
