"""What says nothing about the policy moves no answer: units, offsets, names, order, constant and duplicated columns."""

from functools import cache

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.policy import GaussianPolicy

NAMES = tuple(name for name in ov.estimators() if name != "d3rlpy_fqe")  # takes d3rlpy's policies only
WEIGHTED = ("wist", "wiss", "liu", "wdr", "magic")
FAST = {
    "vpm": {"n_features": 60},
    "model": {"training_steps": 40, "rollouts": 10, "members": 2},
    "liu": {"training_steps": 20},
    "fqe": {"training_steps": 30, "n_features": 40},
    **{
        name: {"n_features": 40}
        for name in ("auto", "dr", "wdr", "magic", "dualdice", "gendice", "gradientdice", "bestdice", "mwl", "mql")
    },
}
EXACT, TRAINED = 1e-6, 0.05
"""Of the interval's width: how far an answer may move, and that of a network in single precision, whose inputs differ
in their last bits."""
QUIET = ("constant-columns", "broken-chain", "one-row-off")
LOG = LinearGaussian().dataset(12, 20, BEHAVIOUR, seed=0)
ORDER = np.random.default_rng(0).permutation(12)
SMALL, LARGE = 1e-15, 1e15

MDP = RandomMDP.draw(12, 3, seed=0)
COUNTED = MDP.dataset(12, 15, MDP.policy(1), seed=2)  # some pairs are never seen
TABLE = np.asarray(MDP.policy(3))


def controller(rule, columns, units=1.0, offset=0.0, action_units=1.0):
    """The linear-Gaussian rule for observations and actions in other units, its two states in some columns."""

    def moments(observations):
        states = (observations[:, columns] - offset) / units
        return (states @ np.array(rule.gain)[:, None] + rule.shift) * action_units, rule.deviation * action_units

    return GaussianPolicy(moments, action_dimension=1)


def logged(observations, following, actions=LOG.actions, rewards=LOG.rewards):
    return ov.LoggedDataset.from_arrays(observations, actions, rewards, following, LOG.terminated, LOG.truncated)


def in_units(units):
    data = logged(*(units * each for each in (LOG.observations, LOG.next_observations, LOG.actions, LOG.rewards)))
    return data, lambda rule: controller(rule, [0, 1], units, action_units=units), units


def far_away():
    data = logged(LOG.observations + 1e7, LOG.next_observations + 1e7)
    return data, lambda rule: controller(rule, [0, 1], offset=1e7), 1.0


def other_columns():
    """The two columns change places, one of them is there again in other units, and a third never changes."""

    def columns(states):
        return np.column_stack([states[:, 1], np.full(len(states), 0.3), states[:, 0], 60 * states[:, 1] + 273.15])

    return logged(columns(LOG.observations), columns(LOG.next_observations)), lambda rule: controller(rule, [2, 0]), 1.0


def other_order():
    return LOG.select(ORDER), lambda rule: controller(rule, [0, 1]), 1.0


CONTINUOUS = {
    "small units": lambda: in_units(SMALL),
    "large units": lambda: in_units(LARGE),
    "offset": far_away,
    "columns": other_columns,
    "episodes": other_order,
}


def renamed(states, actions, rewards=1.0, order=None):
    """The finite log with other names for states and actions; `states[s]` and `actions[a]` are the new ones."""
    data = COUNTED if order is None else COUNTED.select(order)
    table = np.empty_like(TABLE)
    table[np.ix_(states, actions)] = TABLE
    columns = states[data.observations], actions[data.actions], rewards * data.rewards, states[data.next_observations]
    return ov.LoggedDataset.from_arrays(*columns, data.terminated, data.truncated), table, rewards


SAME = np.arange(12), np.arange(3)
FINITE = {
    "names": lambda: renamed(np.random.default_rng(1).permutation(12), np.array([2, 0, 1])),
    "small units": lambda: renamed(*SAME, SMALL),
    "large units": lambda: renamed(*SAME, LARGE),
    "episodes": lambda: renamed(*SAME, order=ORDER),
}


def ask_continuous(name, gamma, data, policy):
    known = {"behaviour": policy(BEHAVIOUR)} if name in WEIGHTED else {}
    return ov.evaluate(data, policy(TARGET), name, gamma=gamma, ignore=QUIET, **FAST.get(name, {}), **known)


@cache
def continuous_answer(name, gamma):
    return ask_continuous(name, gamma, LOG, lambda rule: controller(rule, [0, 1]))


@cache
def finite_answer(name, gamma):
    data, table, _ = renamed(*SAME)
    return ov.evaluate(data, table, name, gamma=gamma)


def assert_same(found, expected, units, tolerance):
    """The same answer in other units of the rewards."""
    slack = tolerance * (expected.interval[1] - expected.interval[0])
    assert found.value / units == pytest.approx(expected.value, abs=slack)
    assert np.array(found.interval) / units == pytest.approx(expected.interval, abs=slack)
    assert found.verdict == expected.verdict


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("change", CONTINUOUS)
@pytest.mark.parametrize("name", NAMES)
def test_continuous_answers(name, change, gamma):
    data, policy, units = CONTINUOUS[change]()
    found = ask_continuous(name, gamma, data, policy)
    tolerance = TRAINED if name in ("model", "fqe", "liu") else EXACT
    assert_same(found, continuous_answer(name, gamma), units, tolerance)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("change", FINITE)
@pytest.mark.parametrize("name", NAMES)
def test_finite_answers(name, change, gamma):
    data, table, units = FINITE[change]()
    assert_same(ov.evaluate(data, table, name, gamma=gamma), finite_answer(name, gamma), units, EXACT)


@pytest.mark.parametrize("name", NAMES)
def test_where_no_state_differs_from_another_the_verdict_is_caution_at_best(name):
    still = np.zeros_like(LOG.observations)
    known = {"behaviour": controller(BEHAVIOUR, [0, 1])} if name in WEIGHTED else {}
    found = ov.evaluate(logged(still, still), controller(TARGET, [0, 1]), name, **FAST.get(name, {}), **known)
    assert found.verdict != "reliable"
    assert any("Nothing tells one state from another" in reason for reason in found.reasons)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("name", NAMES)
def test_rewards_far_from_zero(name, gamma):
    """Below γ = 1 what products of ratios miss may be an end, after which nothing is paid: 0 is no offset there."""
    data = logged(LOG.observations, LOG.next_observations, rewards=LOG.rewards + 1e7)
    found = ask_continuous(name, gamma, data, lambda rule: controller(rule, [0, 1]))
    expected = continuous_answer(name, gamma)
    slack = (TRAINED if name in ("model", "fqe", "liu") else 1e-4) * (expected.interval[1] - expected.interval[0])
    assert found.value - 1e7 == pytest.approx(expected.value, abs=slack)
    assert found.verdict == expected.verdict
    if gamma == 1 or name not in ("wist", "wiss"):
        assert np.array(found.interval) - 1e7 == pytest.approx(expected.interval, abs=slack)
