"""How answers did by verdict, on four of them by hand."""

from __future__ import annotations

import pytest

from benchmarks.calibrate import PENALTY, Line, summary


def line(value: float, verdict: str, kind: str = "near") -> Line:
    """An answer ± 1 to a truth of 0, with an on-policy error of 1."""
    asked = {"seed": 0, "kind": kind, "finite": False, "episodes": 10, "rows": 100, "gamma": 1.0}
    known = {"truth": 0.0, "truth_error": 0.0, "floor": 1.0}
    return Line(**asked, **known, value=value, noise=0.5, low=value - 1, high=value + 1, verdict=verdict)


def test_answers_are_counted_by_verdict():
    answers = line(0.5, "reliable"), line(4.0, "reliable"), line(1.2, "caution", "same"), line(1.0, "unreliable")
    found = summary(answers)
    assert {name: each["tasks"] for name, each in found.items()} == {
        "reliable": 2, "caution": 1, "unreliable": 1, "all": 4, "good": 3, "own": 1
    }  # fmt: skip
    assert found["reliable"]["covered"] == found["reliable"]["wrong"] == pytest.approx(0.5)
    assert found["caution"]["wrong"] == 0  # outside, but near enough
    assert found["good"]["reliable"] == pytest.approx(1 / 3)
    assert found["reliable"]["score"] == pytest.approx((2 + 2 + 3 * PENALTY) / 2)
