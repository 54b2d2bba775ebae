"""Truths from episodes whose values are worked out by hand."""

import numpy as np
import pytest

import ope_vpm as ov
from benchmarks._truths import last_reward, truth_of, write_truths
from ope_vpm.envs import bullet
from ope_vpm.envs.bullet import LOGGED, stored_truth
from ope_vpm.envs.collect import collect
from ope_vpm.envs.truth import GAMMA, Episodes, Value, read_truths


def log(*lengths, reward=1.0, ended=()):
    """Episodes of constant reward; those numbered in `ended` terminate."""
    episode = np.repeat(np.arange(len(lengths)), lengths)
    last = np.append(np.diff(episode) != 0, True)
    terminated = last & np.isin(episode, ended)
    states = np.arange(len(episode) + 1.0)[:, None]
    return ov.LoggedDataset.from_arrays(
        states[:-1], states[:-1], np.full(len(episode), reward), states[1:], terminated, last & ~terminated
    )


def test_average_parts_stop_at_the_length():
    sums, steps = Episodes.of(log(10, 3, reward=2.0)).sums(5)
    assert sums.tolist() == [10, 6]
    assert steps.tolist() == [5, 3]


def test_discounted_parts_by_hand():
    """γ = ½: (1-γ)(1 + ½ + ¼) = 7/8 for three steps; cut ones go on with the tail, ended ones with nothing."""
    values = Episodes.of(log(3, 3, ended=[1])).discounted(0.5, beyond=4.0)
    assert values.tolist() == [7 / 8 + 4 / 8, 7 / 8]
    later = Episodes.of(log(3, 3, ended=[1])).discounted(0.5, beyond=4.0, start=1)
    assert later.tolist() == [3 / 4 + 4 / 4, 3 / 4]


def test_a_constant_reward_is_its_own_value_at_any_discount():
    truth = truth_of(Episodes.of(log(400, 400, 400, reward=0.7)), (50, 100), logged=100)
    assert truth.at(1.0, 50).value == pytest.approx(0.7)
    assert truth.at(GAMMA, 50).value == pytest.approx(0.7)
    assert truth.tail == pytest.approx(0.7)
    assert truth.at(1.0, 100).standard_error == pytest.approx(0)


def test_an_ended_episode_counts_its_steps_at_gamma_one_and_zeros_below():
    truth = truth_of(Episodes.of(log(400, 50, ended=[1])), (100,), logged=100)
    assert truth.at(1.0, 100).value == pytest.approx(1.0)
    assert truth.at(GAMMA, 100).value == pytest.approx((1 + (1 - GAMMA**50)) / 2)
    assert truth.tail == pytest.approx(1.0)


@pytest.mark.parametrize("task", ["reacher", "halfcheetah", "ant"])
def test_stored_truths_are_what_the_policies_do(task):
    truth = stored_truth(task)
    assert truth.episodes >= 1000
    data = collect(bullet.environment_id(task), bullet.target(task), 20, LOGGED[task], seed=4321)
    sums, steps = Episodes.of(data).sums(LOGGED[task])
    value = truth.at(1.0, LOGGED[task])
    error = np.hypot(value.deviation / np.sqrt(20), value.standard_error)
    assert abs(sums.sum() / steps.sum() - value.value) < 4 * error
    returns = Episodes.of(data).discounted(GAMMA, truth.tail)
    below = truth.at(GAMMA, LOGGED[task])
    assert abs(returns.mean() - below.value) < 4 * np.hypot(below.deviation / np.sqrt(20), below.standard_error)


def test_values_of_episodes_by_hand(tmp_path):
    """Two episodes: rewards 1, 2 and the end; rewards 1, 1, 1 and the horizon of three."""
    episodes = Episodes(np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0]]), np.array([2, 3]), np.array([True, False]))
    sums = 0.01 * np.array([1 + 2 * 0.99, 1 + 0.99 + 0.99**2]) + np.array([0, 0.99**3 * 1.0])
    np.testing.assert_allclose(episodes.discounted(0.99, last_reward(episodes)), sums)
    truth = truth_of(episodes, {2, 3})
    assert truth.per_episode[2].value == 2.5
    assert truth.per_episode[3] == Value(3, 0, 0)
    assert truth.per_step[2].value == 5 / 4
    assert truth.per_step[3].value == 6 / 5
    assert truth.per_step[3].deviation == pytest.approx(np.std([(3 - 2.4) / 2.5, (3 - 3.6) / 2.5], ddof=1))
    assert truth.tail is None
    write_truths(tmp_path / "truth.json", "Pendulum-v1", {"step-1": truth})
    assert read_truths(tmp_path / "truth.json") == {"step-1": truth}


def test_an_unknown_truth_names_the_command():
    with pytest.raises(ValueError, match=r"is not known: run `python -m benchmarks._measure reacher step-1`"):
        bullet.find_truth(bullet.POLICIES / "reacher" / "truth.json", "step-1")
