"""Predictions from the target's preferences, term by term, in logs small enough to be worked out on paper."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.pooling import Pooled, pooled_model, unseen_range, varying_share
from ope_vpm.ope.finite.preference import Preference, PreferencePairs, avoided
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import solve

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off", "broken-chain")
TARGET = np.array([[0.5, 0.3, 0.2]])


def bandit(gamma=1.0):
    """One state: action 0 four times, which pays 0, action 1 once, which pays 6; action 2 never."""
    data = ov.LoggedDataset.from_arrays(
        [0] * 5, [0, 0, 0, 0, 1], [0.0, 0, 0, 0, 6], [0] * 5, truncated=np.ones(5, dtype=bool)
    )
    return finite_problem(Problem.pose(data, TARGET, gamma=gamma, ignore=QUIET))


ELL = np.log(TARGET[0]) - np.log(TARGET[0]).mean()
BY_LOG = 0.8 * ELL[0] + 0.2 * ELL[1]
"""ℓ̄: of five logged actions four were 0."""


def test_preferences_are_centred_at_the_logged_actions():
    found = PreferencePairs(bandit(), pooled_model(bandit()))
    np.testing.assert_allclose(found.preference[0], ELL - BY_LOG)
    np.testing.assert_allclose(found.of_pairs, ELL[:2] - BY_LOG)


def test_the_regression_weighs_pairs_by_the_root_of_their_counts():
    """Weights 2 and 1 around their own mean; the square has 10 pairs more than the two that there are."""
    found = PreferencePairs(bandit(), pooled_model(bandit()), kept=0.5)
    own = ELL[:2]
    raw = np.array([2.0, 1.0]) * (own - (2 * own[0] + own[1]) / 3)
    assert raw.sum() == pytest.approx(0)
    np.testing.assert_allclose(found.regress, 0.5 * raw / (raw @ own * (1 + 10 / 2)))


def test_what_the_target_prefers_beyond_what_pooling_puts_there():
    """The unseen action's ℓ against that of the state, A/(A + λ) = 2/2.03 of it, and of the log: here the same state.

    The target prefers it less than any seen one, so that it counts as the least preferred of those, action 1. Pairs
    that always lead to one state give nothing up.
    """
    share = 2 / 2.03
    assert ELL[2] < ELL[1] < ELL[0]
    expected = 0.2 * (ELL[1] - BY_LOG)
    np.testing.assert_allclose(
        PreferencePairs(bandit(), pooled_model(bandit())).surplus, [share * expected + (1 - share) * expected]
    )


def test_preferences_are_held_at_the_least_that_was_seen():
    """Of five actions the second and the third were seen: the fourth is preferred less than both, the last more."""
    target = np.array([[0.2, 0.3, 0.1, 0.01, 0.39]])
    data = ov.LoggedDataset.from_arrays([0] * 2, [1, 2], np.zeros(2), [0] * 2, truncated=np.ones(2, dtype=bool))
    finite = finite_problem(Problem.pose(data, target, gamma=1.0, ignore=QUIET))
    found = PreferencePairs(finite, pooled_model(finite))
    held = np.log(target[0] * [1, 1, 1, 10, 1]) - np.log(target[0]).mean()
    np.testing.assert_allclose(found.at_least_as_seen(found.preference)[0], held - (held[1] + held[2]) / 2)


def test_one_action_a_state_says_nothing_of_preferences():
    data = ov.LoggedDataset.from_arrays([0] * 5, [0] * 5, np.ones(5), [0] * 5, truncated=np.ones(5, dtype=bool))
    finite = finite_problem(Problem.pose(data, TARGET, gamma=1.0, ignore=QUIET))
    found = PreferencePairs(finite, pooled_model(finite))
    np.testing.assert_array_equal(found.at_least_as_seen(found.preference), found.preference)
    assert found.coefficient == 0
    assert not finite.compares_actions
    assert bandit().compares_actions


def test_the_coefficient_of_a_bandit():
    """Nothing follows from the state's own value, for h sums to 0: c = h'r, its error √Σ(h·residual)²."""
    found = PreferencePairs(bandit(), pooled_model(bandit()))
    h = found.regress
    np.testing.assert_allclose(found.regression, h)
    assert found.coefficient == pytest.approx(6 * h[1])
    y = np.array([0.0, 6.0]) - found.coefficient * (ELL[:2] - BY_LOG)
    residual = y - (0.8 * y[0] + 0.2 * y[1])
    np.testing.assert_allclose(found.residuals - found.residuals.mean(), residual - residual.mean(), atol=1e-9)
    assert found.coefficient_error == pytest.approx(np.sqrt(np.sum((h * found.residuals) ** 2)))


def test_the_coefficient_is_shrunk_by_its_own_error():
    """To c²/(c² + 4·se²); the error of what is left is still that of the whole."""
    plain, shrunk = PreferencePairs(bandit(), pooled_model(bandit())), Preference().complete(bandit())
    c, error = plain.coefficient, plain.coefficient_error
    assert shrunk.kept == pytest.approx(c**2 / (c**2 + 4 * error**2))
    assert 0.01 < shrunk.kept < 0.99
    assert shrunk.coefficient == pytest.approx(shrunk.kept * c)
    kept = shrunk.kept
    expected = np.sqrt(np.sum((plain.regress * shrunk.residuals) ** 2))
    assert shrunk.coefficient_error == pytest.approx(expected)
    assert PreferencePairs(bandit(), pooled_model(bandit()), kept=0.0).coefficient_error == 0
    assert kept == shrunk.kept


def test_the_value_of_a_bandit_and_its_error():
    """Seen actions pay 0 and 6, the unseen one the mean 1.2 of its state and log, and c·(ℓ - ℓ̄) of action 1."""
    finite = bandit()
    found, model = solve(finite, Preference()), Preference().complete(finite)
    expected = 0.3 * 6 + 0.2 * 1.2 + model.coefficient * 0.2 * (ELL[1] - BY_LOG)
    assert found.value == pytest.approx(expected)
    assert found.unseen_mass == pytest.approx(0.2)
    through = 0.2 * (ELL[1] - BY_LOG)
    unseen = np.sqrt(model.components.of_any_pair) * 0.2
    avoidance = avoided(finite, np.ones(1), model.residuals)
    assert found.error == pytest.approx(np.linalg.norm([unseen, through * model.coefficient_error, avoidance]))
    assert found.details["within_pairs"] == 0
    assert found.details["between_pairs"] == model.components.between > 0
    assert found.details["preference"] == model.coefficient


def test_what_the_behaviour_avoids_is_on_the_line_of_what_it_hardly_does():
    """One state, actions taken 1, 3 and 8 times and worth log 1.5, log 3.5 and log 8.5, one of probability 0.2 never.

    A slope of 1, but for the ridge's 10 more pairs: the unseen action lies log 0.5 - Σ shares·log(n + ½) off the mean.
    """
    times = np.array([1, 3, 8])
    data = ov.LoggedDataset.from_arrays(
        [0] * 12, np.repeat([0, 1, 2], times), np.zeros(12), [0] * 12, truncated=np.ones(12, dtype=bool)
    )
    finite = finite_problem(Problem.pose(data, [[0.3, 0.3, 0.2, 0.2]], gamma=1.0, ignore=QUIET))
    x = np.log(times + 0.5)
    apart, slope = x - times @ x / 12, 1 / (1 + 10 / 3)
    root = np.sqrt(times)
    h = root * (x - root @ x / root.sum())
    error = np.sqrt(np.sum((h / (h @ x) * slope * (1 - slope) * apart) ** 2))
    kept = slope**2 / (slope**2 + 4 * error**2)
    expected = slope * kept * 0.2 * (np.log(0.5) - times @ x / 12)
    assert avoided(finite, np.ones(1), apart) == pytest.approx(expected)
    assert avoided(finite, np.ones(1), -apart) == pytest.approx(-expected)
    assert expected < -0.01


@pytest.mark.parametrize("gamma", [0.5, 0.97])
def test_feedback_on_itself_is_limited(gamma):
    """H is divided by 1 + (feedback - 0.3) where c feeds back on itself by more than 0.3, as in the first two logs."""
    for seed, log in ((4, 6), (5, 8), (0, 0), (1, 1)):
        mdp = RandomMDP.draw(6, 5, seed=seed)
        data = mdp.dataset(4, 6, mdp.policy(1), log)
        finite = finite_problem(Problem.pose(data, mdp.policy(2), gamma=gamma, ignore=QUIET))
        found = PreferencePairs(finite, pooled_model(finite))
        added = found.chain.value_function(found.surplus, gamma)
        feedback = float(found.regress @ (gamma * (finite.counts.transitions @ added)))
        assert (0.4 < feedback < 0.55) == (gamma == 0.97 and seed in (4, 5))
        np.testing.assert_allclose(found.regression, found.regress / (1 + max(feedback - 0.3, 0)))
        plain = found.chain.value_function(found._pay, gamma)
        y = finite.counts.reward + gamma * (finite.counts.transitions @ (plain + found.coefficient * added))
        assert found.coefficient == pytest.approx(float(found.regression @ y))  # the fixed point
        np.testing.assert_allclose(found.values, plain + found.coefficient * added)


def test_too_much_feedback_is_cut(monkeypatch):
    """At a limit of -1 every h is halved at feedback 0, as in a bandit, whose h sums to 0."""
    monkeypatch.setattr("ope_vpm.ope.finite.preference.MOST_FEEDBACK", -1.0)
    found = PreferencePairs(bandit(), pooled_model(bandit()))
    np.testing.assert_allclose(found.regression, found.regress / 2)


def test_how_far_unseen_pairs_may_move_a_value():
    """Pairs at -1, -1 and 2 and an unseen share of 0.3: exact limits of shares ⅔ and ⅓ of three pairs."""
    finite = bandit()
    low, high = unseen_range(finite, np.array([1.5]), np.array([-1.0, -1.0, 2.0]))
    assert (low, high) == pytest.approx((-0.3 * (3 * 0.9916 - 2) / 3, 0.3 * 2 * (3 * 0.9057 - 1) / 3), abs=1e-3)


def test_pooling_by_itself_has_the_deviation_of_what_is_taken_as_its_error():
    finite = bandit()
    found = solve(finite, Pooled())
    assert found.error == pytest.approx(found.unseen_mass * found.spread)
    apart = found.q - (0.8 * found.q[0] + 0.2 * found.q[1])
    assert found.unseen_range == pytest.approx(unseen_range(finite, found.distribution, apart))


def test_the_share_of_pairs_that_lead_to_several_states():
    """Pair (0, 0) led to 0 and 1, pair (0, 1) twice to 1; (1, 0) was seen once and does not count."""
    data = ov.LoggedDataset.from_arrays(
        [0, 0, 0, 0, 1], [0, 0, 1, 1, 0], np.arange(5.0), [0, 1, 1, 1, 0], truncated=np.ones(5, dtype=bool)
    )
    finite = finite_problem(Problem.pose(data, [[0.4, 0.4, 0.2]] * 2, ignore=QUIET))
    assert varying_share(finite.counts) == 0.5
    once = ov.LoggedDataset.from_arrays([0, 1], [0, 0], [0.0, 1], [1, 0], truncated=[True, True])
    assert varying_share(finite_problem(Problem.pose(once, [[0.5, 0.5]] * 2, ignore=QUIET)).counts) == 1
