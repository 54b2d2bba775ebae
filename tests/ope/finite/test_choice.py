"""Which treatment of unseen pairs is taken: not one in which pairs seen once hold the target."""

import numpy as np
import pytest

import ope_vpm as ov
from benchmarks._made import made_tasks
from ope_vpm.envs.wild import collect_log
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.choice import LEAST_EXPLAINED, MOST_HELD, chosen_solution, time_held
from ope_vpm.ope.finite.preference import Preference, PreferredSolution
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.regression import predicted_pairs
from ope_vpm.ope.finite.solve import solve


def test_the_time_that_is_spent_staying():
    """Action 0 moves between two states, action 1 stays in both: with probability 0.3 in every step."""
    states, actions = [0, 1, 0, 1], [0, 0, 1, 1]
    data = ov.LoggedDataset.from_arrays(states, actions, [0.0] * 4, [1, 0, 0, 1], truncated=[True] * 4)
    problem = finite_problem(Problem.pose(data, [[0.7, 0.3]] * 2, gamma=1.0, ignore=("flags-confused", "one-row-off")))
    assert time_held(problem, solve(problem, Preference())) == pytest.approx(0.3)


def test_a_regression_that_holds_the_target_is_not_taken():
    """On a ward in which patients stay: pairs are predicted well enough, yet the target hardly moves any more."""
    task = made_tasks()["Made/Ward-stays"]
    data = collect_log(task, "older", 200, 104, cut=True)
    problem = finite_problem(Problem.pose(data, task.target, gamma=1.0, time_limit="restart"))
    pairs, preferred = predicted_pairs(problem), solve(problem, Preference())
    assert pairs is not None
    predicted = pairs.solution()
    assert predicted is not None
    assert predicted.explained > LEAST_EXPLAINED
    assert predicted.error < preferred.error
    assert time_held(problem, predicted) > time_held(problem, preferred) + MOST_HELD
    assert isinstance(chosen_solution(problem), PreferredSolution)
    truth = task.truth(1.0).value
    assert abs(preferred.value - truth) < 0.1 * abs(predicted.value - truth)
    assert np.isfinite(preferred.value)
