"""The made-up finite tasks: probabilities that sum to 1, exact truths, and logs that can be had again."""

import numpy as np
import pytest

from benchmarks._made import from_arrays, garnet, made_tasks, pits, ward
from ope_vpm.policy import TablePolicy

SMALL = {
    "garnet": garnet(20, 3, 2, 0.1, 0.1, seed=0),
    "garnet that pays at ends": garnet(20, 3, 2, 0.1, 0.0, seed=0),
    "pits": pits(5, 0.2, 1.0, seed=0),
    "ward": ward(30, 5, 0.5, seed=0),
}


@pytest.mark.parametrize("name", SMALL)
def test_outcomes_are_distributions(name):
    model = SMALL[name]
    total = np.bincount(model.pair, model.probability, minlength=model.states * model.actions)
    np.testing.assert_allclose(total, 1)
    assert model.initial.sum() == pytest.approx(1)
    assert model.ends.any()


@pytest.mark.parametrize("name", SMALL)
def test_simulated_returns_are_those_of_the_exact_solution(name):
    model = SMALL[name]
    policy = TablePolicy(np.full((model.states, model.actions), 1 / model.actions))
    data = model.simulate([policy], 2000, 60, seed=1)
    truth = model.episode_return(policy, 60)
    assert abs(data.returns.mean() - truth.value) < 4 * truth.deviation / np.sqrt(2000)


def test_one_arrow_by_hand():
    """State 0 leads to the end, state 1, and pays 3."""
    transition = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    model = from_arrays(transition, np.full((2, 1, 2), 3.0), np.array([False, True]), np.array([1.0, 0.0]))
    assert model.episode_return(TablePolicy([[1.0], [1.0]]), 5).value == 3


def test_unused_treatments_do_what_the_used_ones_do_on_average():
    model = ward(30, 5, 0.5, seed=0)
    dies = np.zeros((32, 25))
    np.add.at(dies.reshape(-1), model.pair[model.following == 30], model.probability[model.following == 30])
    assert [len(np.unique(np.round(row, 12))) for row in dies[:30]] == [6] * 30  # five that differ, and their mean


def test_ward_survival_is_a_probability_and_near_behaviours_are_nearly_as_good():
    task = made_tasks()["Made/Ward-strong"]
    values = [task.model.episode_return(policy, task.limit).value for policy in (task.target, task.near(), task.poor())]
    assert 1 > values[0] > values[1] > values[2] > 0
