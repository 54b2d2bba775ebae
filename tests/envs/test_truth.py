"""Truths from episodes whose values are worked out by hand."""

import json

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs import bullet
from ope_vpm.envs.collect import collect
from ope_vpm.envs.truth import (
    GAMMA,
    LOGGED,
    Truth,
    average_parts,
    discounted_parts,
    of_episodes,
    stored_truth,
    truth_file,
)


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
    sums, steps = average_parts(log(10, 3, reward=2.0), 5)
    assert sums.tolist() == [10, 6]
    assert steps.tolist() == [5, 3]


def test_discounted_parts_by_hand():
    """γ = ½: (1-γ)(1 + ½ + ¼) = 7/8 for three steps; cut ones go on with the tail, ended ones with nothing."""
    values = discounted_parts(log(3, 3, ended=[1]), 0.5, tail=4.0)
    assert values.tolist() == [7 / 8 + 4 / 8, 7 / 8]
    later = discounted_parts(log(3, 3, ended=[1]), 0.5, tail=4.0, start=1)
    assert later.tolist() == [3 / 4 + 4 / 4, 3 / 4]


def test_a_constant_reward_is_its_own_value_at_any_discount():
    truth = of_episodes(log(400, 400, 400, reward=0.7), 100)
    assert truth.at(1.0, 50).value == pytest.approx(0.7)
    assert truth.at(GAMMA, 50).value == pytest.approx(0.7)
    assert truth.tail == pytest.approx(0.7)
    assert truth.at(1.0, 100).standard_error == pytest.approx(0)


def test_an_ended_episode_counts_its_steps_at_gamma_one_and_zeros_below():
    truth = of_episodes(log(400, 50, ended=[1]), 100)
    assert truth.at(1.0, 100).value == pytest.approx(1.0)
    assert truth.at(GAMMA, 100).value == pytest.approx((1 + (1 - GAMMA**50)) / 2)
    assert truth.tail == pytest.approx(1.0)


@pytest.mark.parametrize("task", ["reacher", "halfcheetah", "ant"])
def test_stored_truths_are_what_the_policies_do(task):
    truth = stored_truth(task)
    assert truth.episodes >= 1000
    data = collect(bullet.environment_id(task), bullet.target(task), 20, LOGGED[task], seed=4321)
    sums, steps = average_parts(data, LOGGED[task])
    value = truth.at(1.0, LOGGED[task])
    error = np.hypot(value.deviation / np.sqrt(20), value.standard_error)
    assert abs(sums.sum() / steps.sum() - value.value) < 4 * error
    returns = discounted_parts(data, GAMMA, truth.tail)
    below = truth.at(GAMMA, LOGGED[task])
    assert abs(returns.mean() - below.value) < 4 * np.hypot(below.deviation / np.sqrt(20), below.standard_error)


def test_truths_survive_json():
    truth = stored_truth("reacher")
    stored = json.loads(truth_file("reacher").read_text())["policies"][bullet.checkpoints("reacher")[-1].stem]
    assert Truth.read(stored) == truth
    with pytest.raises(ValueError, match="is not known: run `python -m"):
        stored_truth("reacher", "step-1")
