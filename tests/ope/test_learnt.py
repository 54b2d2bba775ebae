"""Targets that were learnt from the log are told from those that never saw it."""

import numpy as np
import pytest
from scipy.stats import norm

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope.finite.learnt import AGAINST, BARELY, CLEARLY, learnt_from_log, score
from ope_vpm.ope.problem import Problem

GAMMA = 0.9


def test_where_differences_are_often_barely_positive_others_are_negative():
    """P(0 < z < ½) ≤ P(z < 0) + P(z > 2)/20 + 1/100 for a normal z around any δ."""
    around = np.linspace(-5, 10, 3001)
    barely = norm.cdf(0.5 - around) - norm.cdf(-around)
    assert (barely <= norm.cdf(-around) + AGAINST * norm.sf(2 - around) + 0.01).all()
    assert pytest.approx([2 * norm.cdf(0.5) - 1, 2 * norm.cdf(2) - 1], abs=1e-3) == [BARELY, CLEARLY]


def counts(taken, other, equal=1e-9):
    return score(np.sort(taken), np.sort(other), equal, np.random.default_rng(0))


@pytest.mark.parametrize(("errors", "expected"), [(-3, -1), (-0.2, -1), (0, 0), (0.3, 1), (1, 0), (2.5, -AGAINST)])
def test_many_outcomes_by_hand(errors, expected):
    """Two dozens of -1 and 1 each, whose means have the error √(1/24 + 1/24)."""
    outcomes = np.tile([-1.0, 1.0], 12)
    assert counts(outcomes + errors * np.sqrt(1 / 12), outcomes) == expected


def test_few_outcomes_by_hand():
    """Four outcomes -1 and four 1, and one of the other action: dealt anew, that is 1 as often as -1, or nearly so."""
    even = np.tile([-1.0, 1.0], 4)
    for outcome in (-1.0, 1.0):  # dealt, 4 or 5 of 9 are 1
        found = counts([outcome], even)
        assert found == pytest.approx(-1 if outcome < 0 else 0, abs=0.25)
    assert counts([0.0], even) == 0


def test_where_a_rare_outcome_decides_nothing_is_counted():
    """Dealt anew, the one outcome of an action is 1 in one of eleven deals, and 0 in the others."""
    for taken, other in (([0.0], [0.0] * 9 + [1.0]), ([1.0], [0.0] * 10), ([0.0], [1.0] * 10), ([1.0], [1.0] * 10)):
        assert counts(taken, other) == 0


def learnt(data, states, actions):
    """The best policy of the counted model, in which pairs that were never seen are worth nothing."""
    pair = data.observations * actions + data.actions
    times = np.bincount(pair, minlength=states * actions).reshape(states, actions)
    reward = np.bincount(pair, data.rewards, states * actions).reshape(states, actions)
    moves = np.zeros((states * actions, states))
    np.add.at(moves, (pair, data.next_observations), 1)
    moves = moves.reshape(states, actions, states)
    value = np.zeros((states, actions))
    for _ in range(100):
        total = reward + GAMMA * moves @ value.max(axis=1)
        value = np.divide(total, times, out=np.full(times.shape, -1e3), where=times > 0)
    return np.eye(actions)[value.argmax(axis=1)]


@pytest.fixture(scope="module")
def logs():
    """Ten tasks with a log and another one of the same behaviour, and the best policies of both."""
    found = []
    for seed in range(10):
        task = RandomMDP.draw(200, 4, seed)
        pair = [task.dataset(200, 30, task.policy(seed, 0.5), seed + more) for more in (0, 5000)]
        found.append((task, pair[0], *(learnt(data, 200, 4) for data in pair)))
    return found


def test_targets_that_were_learnt_from_the_log_are_found_and_others_are_not(logs):
    own = [learnt_from_log(Problem.pose(data, policy, gamma=GAMMA)) for _, data, policy, _ in logs]
    fresh = [learnt_from_log(Problem.pose(data, policy, gamma=GAMMA)) for _, data, _, policy in logs]
    assert np.sum(np.array(own) > 2) >= 9
    assert max(fresh) < 0


def test_their_values_are_too_high_and_unreliable(logs):
    task, data, own, fresh = logs[1]
    found = [ov.evaluate(data, policy, gamma=GAMMA) for policy in (own, fresh)]
    assert [each.verdict for each in found] == ["unreliable", "reliable"]
    assert found[0].interval[0] > task.value(own, GAMMA)
    assert "learnt from this log" in found[0].reasons[0]
    assert "apart from learning" in found[0].advice[0]


def test_the_order_of_episodes_does_not_matter(logs):
    _, data, policy, _ = logs[1]
    turned = data.select(np.arange(data.n_episodes)[::-1])
    first, second = (learnt_from_log(Problem.pose(each, policy, gamma=GAMMA)) for each in (data, turned))
    assert first == pytest.approx(second)
