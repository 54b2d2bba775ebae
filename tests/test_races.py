"""The benchmark of races: what it makes of a task, and how it counts."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks._generated import generated
from benchmarks._systems import Linear
from benchmarks.races import GAMMA, POLICIES, Race, policies_of, raced, summary


def test_a_race_of_a_generated_task_keeps_its_best_policy():
    task = replace(generated(21015, 2000), gamma=GAMMA, time_limit="continue")
    assert isinstance(task.target, Linear)
    policies = policies_of(task, task.target)
    assert len(policies) == POLICIES
    assert not np.array_equal(policies["0"].gain, policies["1"].gain)
    found = raced(task, task.target)
    assert not found.error
    assert 1 <= found.stayed <= POLICIES
    assert not found.lost


def test_races_are_counted_by_hand():
    one = Race(seed=1, rows=100, gamma=0.9, stayed=20, behind=0.0, behind_error=0.0)
    lost = replace(one, seed=2, stayed=5, behind=0.5, behind_error=0.1)
    found = summary([one, lost, replace(one, seed=3, stayed=3), replace(one, seed=4, error="ValueError")], "this")
    assert (found["races"], found["refused"], found["with somebody screened"]) == (3, 1, 2)
    assert found["stayed, in the mean"] == pytest.approx(28 / 3, abs=0.01)
    assert (found["best screened"], found["seeds of the lost"]) == (1, [2])
    assert found["best kept"] == pytest.approx(2 / 3, abs=1e-4)
