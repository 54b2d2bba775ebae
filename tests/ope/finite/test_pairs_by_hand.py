"""What pooling gives away and what rarely seen pairs speak for, in logs small enough to be worked out on paper."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.pooling import (
    behaviour_shares,
    components,
    given_up,
    kept_shares,
    share_of_state,
    staying_share,
)
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.rare_pairs import missed_odds

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")


def counted(states, actions, rewards, target, after=None):
    """Steps that are episodes of their own and stay where they are, or lead to other states."""
    cut = np.ones(len(states), dtype=bool)
    data = ov.LoggedDataset.from_arrays(states, actions, rewards, states if after is None else after, truncated=cut)
    return finite_problem(Problem.pose(data, target, gamma=1.0, ignore=QUIET))


def test_rarely_seen_pairs_give_a_share_to_their_state():
    """Action 0 was seen once and stayed, action 1 three times and left once; action 2, half of the target, never.

    So κ is 0.3 + 1 for action 0, and 0.3 + 2/3 for action 1.
    """
    target = [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]]
    problem = counted([0] * 4, [0, 1, 1, 1], np.arange(4.0), target, after=[0, 0, 0, 1])
    np.testing.assert_allclose(behaviour_shares(problem.counts), [0.25, 0.75])
    kept = np.array([1 / (1 + 1.3), 3 / (3 + 0.3 + 2 / 3)])
    np.testing.assert_allclose(share_of_state(problem.counts), [2 / 2.03, 0])
    np.testing.assert_allclose(kept_shares(problem), kept)
    np.testing.assert_allclose(given_up(problem), [0.2, 0.3] * (1 - kept))


def test_pairs_that_leave_their_state_keep_more_of_what_was_seen_of_them():
    """Both actions left: κ = 0.3·½, half of the pairs seen twice having led to two states."""
    target = [[0.2, 0.3, 0.5]] * 3
    problem = counted([0] * 4, [0, 0, 1, 1], np.arange(4.0), target, after=[1, 2, 1, 1])
    np.testing.assert_allclose(staying_share(problem.counts), [0, 0])
    np.testing.assert_allclose(kept_shares(problem), [2 / 2.15, 2 / 2.15])


def test_pairs_that_always_lead_to_one_state_keep_what_was_seen_of_them():
    problem = counted([0] * 4, [0, 1, 1, 1], np.arange(4.0), [[0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(kept_shares(problem), [1, 1])


def test_nothing_is_given_away_where_all_was_seen():
    problem = counted([0] * 4, [0, 1, 1, 1], np.arange(4.0), [[0.2, 0.8]])
    np.testing.assert_array_equal(kept_shares(problem), [1, 1])
    np.testing.assert_array_equal(given_up(problem), [0, 0])


def test_variance_components_of_one_state():
    """Action 0 pays 1 and 3, action 1 pays 6: σ² = 2/1; (32/3 - σ²)/(3 - 5/3) between the pairs."""
    found = components(counted([0] * 3, [0, 0, 1], [1.0, 3.0, 6.0], [[0.5, 0.5]]), np.zeros(1))
    assert found.within == pytest.approx(2)
    assert found.between == pytest.approx(6.5)
    assert found.of_any_pair == pytest.approx(6.5)  # 40/9 - σ²·5/12 is less


def test_what_is_seen_rarely_may_differ_more():
    """State 0: both actions pay 1 and -1 ten times in turn. State 1: one pays 0 and the other 2, once each.

    σ² = 20/18. Between pairs 2 - 2σ² < 0 is left, so 0; with every pair counting once ½ - σ²·(0.05 + 0.5)/2 = 7/36.
    """
    states, actions = [0] * 20 + [1, 1], [0] * 10 + [1] * 10 + [0, 1]
    rewards = [1.0, -1.0] * 10 + [0.0, 2.0]
    found = components(counted(states, actions, rewards, [[0.5, 0.5]] * 2), np.zeros(2))
    assert found.within == pytest.approx(10 / 9)
    assert found.between == 0
    assert found.of_any_pair == pytest.approx(7 / 36)


def test_pairs_that_cannot_be_compared():
    """One action in each state, seen once: nothing is known within or between, and all pairs are compared."""
    found = components(counted([0, 1], [0, 0], [1.0, 5.0], [[1.0]] * 2), np.zeros(2))
    assert (found.within, found.between, found.of_any_pair) == (0, 0, pytest.approx(4))


def test_odds_of_having_been_missed_in_an_urn():
    """Pólya's urn with 1 and 2 balls, each drawn one put back with another of its kind.

    Never in 2, 3, 4 draws: 1/2, 2/5, 1/3. Once to three times: 1/2, 3/5, and 1 - 1/3 - 1/15 without all four.
    """
    odds = missed_odds(np.array([2.0, 3.0, 4.0]), np.full(3, 1 / 3), 3.0)
    np.testing.assert_allclose(odds, [1, 2 / 3, 5 / 9])
