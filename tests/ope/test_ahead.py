"""Walks in a model of one step, followed by hand: the model is written down here, not learned."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.linear.features import DistinctColumns, Standardiser
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.dynamics.ahead import Ahead, Simulator
from ope_vpm.ope.dynamics.regression import Regression
from ope_vpm.ope.dynamics.world import World, fit_world, with_products
from ope_vpm.policy import CategoricalPolicy, DeterministicPolicy

ALWAYS = 1e9
"""Log-odds of what is certain."""


def regression(*coefficients):
    """Of [1, z, a, z², za, a²], one column, exact."""
    column = np.array(coefficients, dtype=float)[:, None]
    one = np.ones(1)
    return Regression(column, 0 * one, one, one, np.eye(6), np.zeros((6, 1)))


def world(**changed):
    """z' = z + a/2 - z/4, r = z + 2a; states within ±10 and rewards within ±100; nothing ends."""
    given = {
        "states": DistinctColumns(Standardiser.unit(1), np.array([0]), np.array([0])),
        "to_actions": np.asarray,
        "n_actions": None,
        "frequencies": np.zeros((2, 0)),
        "phases": np.zeros(0),
        "change": regression(0, -0.25, 0.5, 0, 0, 0),
        "reward": regression(0, 1, 2, 0, 0, 0),
        "end_reward": 7.0,
        "ends": None,
        "low": np.array([-10.0]),
        "high": np.array([10.0]),
        "rewards": (-100.0, 100.0),
        "explained": 1.0,
        "ends_explained": 1.0,
    }
    return World(**(given | changed))


def log(terminated=False, episodes=3, length=4):
    """Logged next states lie 0.1 beyond the model's, and rewards 0.5."""
    rng = np.random.default_rng(0)
    z, a = rng.standard_normal((2, episodes * length, 1))
    last = np.arange(len(z)) % length == length - 1
    after = 0.75 * z + 0.5 * a + 0.1
    for row in np.flatnonzero(~last):
        z[row + 1] = after[row]
        after[row + 1] = 0.75 * z[row + 1] + 0.5 * a[row + 1] + 0.1
    rewards = (z + 2 * a)[:, 0] + 0.5
    return ov.LoggedDataset.from_arrays(z, a, rewards, after, last & terminated, last & (not terminated))


def simulator(data, model, gamma=0.5, **choices):
    """The target's action is -z."""
    policy = DeterministicPolicy(lambda s: -s)
    problem = Problem.pose(data, policy, gamma=gamma, ignore=("flags-confused", "one-row-off"), **choices)
    return Simulator(problem, model, pair_features(problem, 4, 1).states.features)


def test_one_step_by_hand():
    after, reward, ending = world().step(np.array([[2.0], [-1.0]]), np.array([[1.0], [3.0]]))
    np.testing.assert_allclose(after, [[2.0], [0.75]])
    np.testing.assert_allclose(reward, [4, 5])
    np.testing.assert_array_equal(ending, [0, 0])


def test_one_step_where_the_task_may_end():
    """Log-odds ln 3 of an end: a quarter of the reward while it goes on, three quarters of that of an end."""
    model = world(ends=np.array([np.log(3), 0, 0]), rewards=(-1.0, 4.5))
    _, reward, ending = model.step(np.array([[2.0], [-1.0]]), np.array([[1.0], [3.0]]))
    np.testing.assert_allclose(ending, 0.75)
    np.testing.assert_allclose(reward, [0.25 * 4 + 0.75 * 7, 0.25 * 4.5 + 0.75 * 7])  # the second is cut at 4.5


def test_states_stay_within_the_limits_and_are_known_to_lie_at_them():
    model = world(low=np.array([-1.0]), high=np.array([1.5]))
    np.testing.assert_array_equal(model.inside(np.array([[-3.0], [0.0], [2.0]])), [[-1.0], [0.0], [1.5]])
    at = model.at_limits(np.array([[-3.0], [-1.0], [0.0], [1.5], [2.0]]))
    assert at.tolist() == [True, True, False, True, True]
    after, _, _ = model.step(np.array([[1.5]]), np.array([[2.0]]))
    np.testing.assert_array_equal(after, [[1.5]])


def test_features_of_discrete_actions_stand_in_blocks():
    model = world(n_actions=2, frequencies=np.zeros((1, 1)), phases=np.array([np.pi / 3]))
    found = model.features(np.array([[2.0], [3.0]]), np.array([1, 0]))
    np.testing.assert_allclose(found, [[0, 0, 0, 0, 1, 2, 4, 0.5], [1, 3, 9, 0.5, 0, 0, 0, 0]])
    assert model.size == 8
    assert world().size == 6
    assert world(frequencies=np.zeros((41, 5))).size == 1 + 41 + 41 + 5  # squares only: there are too many products
    assert with_products(np.ones((1, 41))).shape == (1, 83)
    assert with_products(np.ones((1, 40))).shape == (1, 1 + 40 + 820)


def test_the_target_keeps_what_the_model_leaves_unexplained_in_its_first_step():
    """The logged outcome, moved by what another action changes: z/2 for each unit; then z' = z/4 and r = -z."""
    data, gamma = log(), 0.5
    rows = np.array([0, 5, 10])
    sim = simulator(data, world(), gamma)
    one, two, four = sim.of_target(rows, (1, 2, 4), np.random.default_rng(0))
    z, a = data.observations[rows], data.actions[rows]
    first = data.rewards[rows] + 2 * (-z - a)[:, 0]
    z1 = data.next_observations[rows] + 0.5 * (-z - a)
    np.testing.assert_allclose(z1, 0.25 * z + 0.1)
    np.testing.assert_allclose(one.features, sim.features(z1))
    np.testing.assert_allclose(one.reward, first)
    np.testing.assert_allclose(one.time, 1)
    np.testing.assert_allclose(two.features, sim.features(z1 / 4))
    np.testing.assert_allclose(two.reward, first - gamma * z1[:, 0])
    np.testing.assert_allclose(two.time, 1.5)
    np.testing.assert_allclose(four.features, sim.features(z1 / 64))
    np.testing.assert_allclose(four.reward, first - (gamma + gamma**2 / 4 + gamma**3 / 16) * z1[:, 0])
    np.testing.assert_allclose(four.time, 1.875)
    for each in (one, two, four):
        np.testing.assert_array_equal(each.ended, 0)
        np.testing.assert_array_equal(each.beyond, 0)


def test_the_target_may_end_on_its_way():
    """Log-odds ln 3: alive ¼ after the second step. The first step ended as it did in the log."""
    data = log(terminated=True)
    rows = np.array([0, 3])
    one, two = simulator(data, world(ends=np.array([np.log(3), 0, 0]))).of_target(
        rows, (1, 2), np.random.default_rng(0)
    )
    z, a = data.observations[rows][:, 0], data.actions[rows][:, 0]
    going_on = data.rewards[0] + 2 * (-z[0] - a[0])
    np.testing.assert_allclose(one.ended, [0, 1])
    np.testing.assert_allclose(one.reward, [going_on, data.rewards[3]])
    np.testing.assert_allclose(two.ended, [0.75, 1])
    z1 = 0.25 * z[0] + 0.1
    np.testing.assert_allclose(two.reward, [going_on + 0.5 * (0.25 * -z1 + 0.75 * 7), data.rewards[3]])
    np.testing.assert_allclose(two.time, [1.5, 1])
    np.testing.assert_allclose(two.features[1], 0)


def test_being_held_at_the_limits_is_counted_with_its_probability():
    data = log()
    model = world(low=np.array([-0.01]), high=np.array([0.01]), ends=np.array([0.0, 0, 0]))
    one, two = simulator(data, model).of_target(np.array([0]), (1, 2), np.random.default_rng(0))
    assert one.beyond == pytest.approx([1.0])
    assert two.beyond == pytest.approx([0.0])  # z' = z/4 is within the limits again
    held = world(low=np.array([-0.01]), high=np.array([0.01]), ends=np.zeros(3), change=regression(5, 0, 0, 0, 0, 0))
    _, two = simulator(data, held).of_target(np.array([0]), (1, 2), np.random.default_rng(0))
    assert two.beyond == pytest.approx([0.5])


def test_logged_actions_in_the_model_and_as_they_were_logged():
    """The model lacks 0.1 of each step and 0.5 of each reward; the last two rows of an ended episode stop there."""
    data, gamma = log(terminated=True), 0.5
    sim = simulator(data, world(), gamma)
    rows = np.array([0, 2])
    modelled, logged = sim.of_log(rows, 3)
    a = data.actions[:, 0]
    z0, z1 = data.observations[0, 0], 0.75 * data.observations[0, 0] + 0.5 * a[0]
    z2 = 0.75 * z1 + 0.5 * a[1]
    z3 = 0.75 * z2 + 0.5 * a[2]
    np.testing.assert_allclose(modelled.features[0], sim.features(np.array([[z3]]))[0])
    whole = z0 + 2 * a[0] + gamma * (z1 + 2 * a[1]) + gamma**2 * (z2 + 2 * a[2])
    assert modelled.reward[0] == pytest.approx(whole)
    np.testing.assert_allclose(logged.reward[0], data.rewards[:3] @ gamma ** np.arange(3))
    np.testing.assert_allclose(logged.reward[1], data.rewards[2:4] @ gamma ** np.arange(2))
    np.testing.assert_allclose(modelled.time, [1.75, 1.5])
    np.testing.assert_allclose(logged.time, [1.75, 1.5])
    np.testing.assert_allclose(logged.features[0], sim.features(data.next_observations[2:3])[0])
    np.testing.assert_array_equal(logged.features[1], 0)
    np.testing.assert_array_equal(logged.ended, [0, 1])
    np.testing.assert_array_equal(modelled.ended, [0, 0])  # the model has no ends


def test_a_time_limit_ends_the_walk():
    """Episodes of four steps at γ = 1: from step 2 on there are two steps left, and then an end is certain."""
    data = log()
    sim = simulator(data, world(), gamma=1.0, time_limit="restart")
    assert sim.length == 4
    one, two, three = sim.of_target(np.array([2, 4]), (1, 2, 3), np.random.default_rng(0))
    np.testing.assert_array_equal(one.ended, [0, 0])
    np.testing.assert_array_equal(two.ended, [1, 0])
    np.testing.assert_array_equal(three.ended, [1, 0])
    np.testing.assert_array_equal(three.time, [2, 3])
    modelled, logged = sim.of_log(np.array([2, 4]), 3)
    np.testing.assert_array_equal(modelled.ended, [1, 0])
    np.testing.assert_array_equal(logged.ended, [1, 0])
    np.testing.assert_array_equal(modelled.time, [2, 3])


def test_the_value_of_what_lies_ahead_by_hand():
    ahead = Ahead(np.array([[1.0, 2.0]]), np.array([5.0]), np.array([3.0]), np.array([0.25]), np.zeros(1))
    theta = np.array([0.5, 4.0])
    assert ahead.value(theta, 0.5, 2, first=9.0) == pytest.approx([5 + 0.25 * (0.5 + 8)])
    assert ahead.value(theta, 1.0, 2, first=9.0) == pytest.approx([5 - 0.5 * 3 + 8 + 0.25 * 9])


def test_a_world_is_learned_with_its_limits():
    """A tenth of the logged range beyond it, in units of deviations; rewards within the logged ones."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.standard_normal((601, 1)), axis=0)
    actions = rng.integers(2, size=600)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions + states[:-1, 0], states[1:], truncated=np.arange(600) % 30 == 29
    )
    policy = CategoricalPolicy(lambda s: np.full((len(s), 2), 0.5), 2)
    problem = Problem.pose(data, policy, ignore=("one-row-off",))
    found = fit_world(problem.log, policy.clipping, policy.n_actions, 0)
    scaled = found.states(states)
    room = 0.1 * np.ptp(scaled)
    assert found.low == pytest.approx(scaled.min() - room)
    assert found.high == pytest.approx(scaled.max() + room)
    assert found.rewards == (data.rewards.min(), data.rewards.max())
    assert found.frequencies.shape == (1, 200)  # of 400 Fourier features half for each action
    assert found.reward.explained[0] > 0.99
    assert found.ends is None
    assert found.ends_explained == 1
    assert found.end_reward == 0
    assert (found.phases.min(), found.phases.max()) == pytest.approx((0, 2 * np.pi), abs=0.2)


def test_end_rewards_are_those_of_ending_steps():
    data = log(terminated=True, episodes=60)
    policy = DeterministicPolicy(lambda s: -s)
    problem = Problem.pose(data, policy, gamma=0.5, ignore=("flags-confused", "one-row-off"))
    found = fit_world(problem.log, policy.clipping, policy.n_actions, 0)
    assert found.end_reward == pytest.approx(data.rewards[data.terminated].mean())
    rate = found.end_probability(found.states(data.next_observations)).mean()
    assert rate == pytest.approx(0.25, abs=1e-3)  # a logistic regression with a constant meets the frequency
    certain = replace(found, ends=np.array([ALWAYS, 0, 0]))
    np.testing.assert_array_equal(certain.step(np.zeros((1, 1)), np.zeros((1, 1)))[1], [found.end_reward])
