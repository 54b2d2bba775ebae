"""The pinned answers: computed, stored, compared."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.pins.cases import GAMMAS, NAMES, NETWORKS, cases

PATH = Path(__file__).parent / "answers.json"
Answers = dict[str, dict[str, Any]]
EXACT = 1e-8
"""Relative distance of numbers that count as equal: another order of the same sums moves solutions of linear systems
with a condition of 1e6 by less."""
TRAINED = 1e-6
"""The same where a network in single precision was trained."""


def compute(case: str) -> Answers:
    """The answers of every estimator at every discount, by "name discount"; of `make light` those without extras."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {f"{name} {gamma}": cases()[case].answer(name, gamma) for name in NAMES for gamma in GAMMAS}
    return {name: answer for name, answer in found.items() if answer}


def read() -> dict[str, Answers]:
    """What is stored, by case."""
    return dict(json.loads(PATH.read_text())) if PATH.exists() else {}


def write(answers: dict[str, Answers]) -> None:
    """Store them, one answer a line, so that a change shows which ones moved."""
    cases_ = []
    for case, found in answers.items():
        lines = ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.items()
        )
        cases_.append(f" {json.dumps(case)}: {{\n{lines}\n }}")
    PATH.write_text("{\n" + ",\n".join(cases_) + "\n}\n")


def differences(case: str, stored: Answers, present: Answers) -> Iterator[str]:
    """One line for each answer that moved, with what it was and is."""
    for key, value in present.items():
        before = stored.get(key, {})
        tolerance = TRAINED if key.split()[0] in NETWORKS else EXACT
        fields = [name for name in {*before, *value} if not _equal(before.get(name), value.get(name), tolerance)]
        if fields:
            moved = "; ".join(f"{name} {before.get(name)} -> {value.get(name)}" for name in sorted(fields))
            yield f"{case}, {key}: {moved}"


def _equal(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=tolerance, atol=tolerance * 1e-3, equal_nan=True))
    return bool(one == other)
