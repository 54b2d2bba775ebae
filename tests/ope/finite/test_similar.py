"""Unseen pairs that borrow from the same action in similar states: shares by hand, and what they are good for."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.problem import finite_problem, standardised_features

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")
PLACES = np.array([[0.0], [1.0], [3.0]])
"""The features of three states; the median distance to the nearest one is 1, or 0.8018 standardised."""


def log(states, actions, rewards):
    """Steps that are episodes of their own and stay where they are."""
    return ov.LoggedDataset.from_arrays(states, actions, rewards, states, truncated=np.ones(len(states), dtype=bool))


def posed(target, features=PLACES):
    """Action 1 was seen four times in state 0 and once in state 2, never in state 1."""
    data = log([0, 0, 0, 0, 0, 1, 2, 2], [0, 1, 1, 1, 1, 0, 0, 1], np.arange(8.0))
    return finite_problem(Problem.pose(data, target, gamma=1.0, ignore=QUIET, state_features=features))


def test_shares_by_hand():
    """At distances 1 and 2, in units of the usual one: √4·e^-½ and √1·e^-2, and √1 for the state itself."""
    problem = posed([[0.2, 0.8]] * 3)
    weights = np.array([2 * np.exp(-0.5), np.exp(-2.0)])
    found = problem.borrowed
    assert found is not None
    pairs = {(0, 1): weights[0], (2, 1): weights[1]}
    for number, pair in enumerate(zip(problem.counts.state_of_pair, problem.counts.action_of_pair, strict=True)):
        share = 0.8 * pairs.get(pair, 0.0) / (weights.sum() + 1)
        assert found.policy.toarray()[1, number] == pytest.approx(share)
    assert found.rest[1] == pytest.approx([0, 0.8 / (weights.sum() + 1)])
    assert not found.policy.toarray()[[0, 2]].any()


def test_nothing_of_the_targets_probability_is_lost():
    problem = posed([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    found = problem.borrowed
    assert found is not None
    total = problem.seen + found.policy.sum(axis=1) + found.rest.sum(axis=1)
    np.testing.assert_allclose(total, 1)


def test_a_state_that_was_never_left_and_is_far_from_all_others_keeps_its_probability():
    """State 2 is only led to, and so far away that e^-d² is 0: nothing is borrowed, nothing is lost."""
    data = ov.LoggedDataset.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], np.arange(4.0), [0, 1, 0, 2], truncated=[True] * 4)
    target, far = [[0.5, 0.5]] * 3, np.array([[0.0], [1e-9], [1.0]])
    problem = finite_problem(Problem.pose(data, target, gamma=1.0, ignore=QUIET, state_features=far))
    found = problem.borrowed
    assert found is not None
    np.testing.assert_array_equal(found.rest[2], [0.5, 0.5])
    assert not found.policy.toarray().any()


def test_without_features_nothing_is_borrowed():
    problem = posed([[0.2, 0.8]] * 3, None)
    assert problem.borrowed is None
    assert problem.own_missing is problem.missing


def treatments(seed):
    """Twenty states in a circle; the action pays, and moves or not, in the same way everywhere. It was rarely tried."""
    rng = np.random.default_rng(seed)
    states = np.repeat(np.arange(20), 6)
    actions = (rng.random(len(states)) < 0.15).astype(int)
    after = (states + np.where(actions == 1, 1, rng.integers(0, 20, len(states)))) % 20
    cut = np.ones(len(states), dtype=bool)
    rewards = actions + 0.1 * rng.standard_normal(len(states))
    return ov.LoggedDataset.from_arrays(states, actions, rewards, after, truncated=cut)


def test_a_treatment_that_works_everywhere_is_learnt_from_other_states():
    """The target always treats, which pays 1: squared errors fall by more than three standard errors over 20 logs."""
    target, circle = [[0.0, 1.0]] * 20, 2 * np.pi * np.arange(20) / 20
    features = np.stack([np.sin(circle), np.cos(circle)], axis=1)
    errors = []
    for seed in range(20):
        given = {"gamma": 1.0, "unseen": "pooled", "ignore": QUIET}
        data = treatments(seed)
        plain = ov.evaluate(data, target, "vpm", **given)
        similar = ov.evaluate(data, target, "vpm", state_features=features, **given)
        errors.append([plain.value - 1, similar.value - 1])
    plain, similar = np.square(errors).T
    gain = plain - similar
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_a_function_of_observations_says_the_same_as_an_array():
    data, target = treatments(0), [[0.5, 0.5]] * 20
    given = {"gamma": [0.9, 1.0], "ignore": QUIET}
    table = np.arange(20.0)[:, None]
    by_array = ov.evaluate(data, target, ["auto", "model"], state_features=table, **given)
    by_function = ov.evaluate(data, target, ["auto", "model"], state_features=lambda states: table[states], **given)
    for gamma in (0.9, 1.0):
        for name in ("auto", "model"):
            assert by_array[gamma][name].value == by_function[gamma][name].value
    plain = ov.evaluate(data, target, "auto", gamma=0.9, ignore=QUIET)
    assert by_array[0.9]["auto"].value != plain.value


def test_the_unit_of_a_feature_does_not_matter():
    states = np.arange(5)
    table = np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(
        standardised_features(table, states), standardised_features(table * [1e-6, 1.0, 1e6] + 7, states), atol=1e-6
    )
    assert not standardised_features(np.ones((5, 1)), states).any()  # a feature that never changes says nothing


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (np.ones((2, 1)), "states 0 to 2"),
        (np.ones(3), "shape"),
        (np.full((3, 1), np.nan), "finite"),
        (lambda states: np.ones((1, 1)), "one row for each"),
    ],
)
def test_what_does_not_fit_is_refused(features, said):
    with pytest.raises(ValueError, match=said):
        posed([[0.2, 0.8]] * 3, features)


def test_states_that_are_not_numbers_need_a_function():
    with pytest.raises(ValueError, match="function of observations"):
        standardised_features(np.ones((3, 1)), np.zeros((3, 2)))


def test_continuous_states_are_refused():
    data = LinearGaussian().dataset(5, 20, BEHAVIOUR, seed=0)
    with pytest.raises(ValueError, match="continuous"):
        ov.evaluate(data, TARGET.policy(), "naive", state_features=np.ones((3, 1)))
