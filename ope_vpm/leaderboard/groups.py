"""Estimators that agree by construction, as several do on counted pairs: tables show them as one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.leaderboard.records import Board

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
        block = board.blocks(number).get(label)
        shape = len(board.suite.seeds(setting)), len(board.policies[setting.label, setting.gamma])
        parts.append((np.full(shape, np.nan) if block is None else block.answers.value).reshape(-1))
    return np.concatenate(parts) if parts else np.zeros(0)


def _same(one: Floats, other: Floats) -> bool:
    known = np.isfinite(one)
    if not np.array_equal(known, np.isfinite(other)):
        return False
    return bool((np.abs(one - other)[known] <= ALIKE * np.abs(one[known]).max()).all())
