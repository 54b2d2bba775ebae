"""Logs whose policy knew more than they hold, and logs that look alike: the same without, and two policies in turn."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs import bullet
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.logged.step_number import step_effect
from ope_vpm.ope.behaviour.hidden_causes import cell_means, earlier_sums, hidden_causes
from ope_vpm.ope.log import Log

EPISODES, LENGTH = 200, 15


def finite_log(seed, acts, pays):
    """Five states and two actions; a hidden sign of the episode moves the logit of the action and the reward."""
    rng = np.random.default_rng(seed)
    hidden, state, steps = rng.choice([-1, 1], EPISODES), rng.integers(0, 5, EPISODES), []
    for _ in range(LENGTH):
        action = (rng.random(EPISODES) < 1 / (1 + np.exp(-(state - 2) / 4 - acts * hidden))).astype(int)
        reward = action * (state - 2) / 2 + pays * hidden + 0.5 * rng.standard_normal(EPISODES)
        drifts = rng.random(EPISODES) < 0.7
        following = np.where(drifts, np.clip(state + 2 * action - 1, 0, 4), rng.integers(0, 5, EPISODES))
        steps.append((state, action, reward, following))
        state = following
    return columns_of(steps)


def continuous_log(seed, acts, pays):
    """The same with one continuous coordinate of state and action."""
    rng = np.random.default_rng(seed)
    hidden, state, steps = rng.choice([-1, 1], EPISODES), rng.standard_normal(EPISODES), []
    for _ in range(LENGTH):
        action = 0.3 * state + acts / 2 * hidden + rng.standard_normal(EPISODES)
        reward = -0.2 * (state - action) ** 2 + pays * hidden + 0.5 * rng.standard_normal(EPISODES)
        following = 0.6 * state + 0.3 * action + 0.5 * rng.standard_normal(EPISODES)
        steps.append((state[:, None], action[:, None], reward, following[:, None]))
        state = following
    return columns_of(steps)


def columns_of(steps):
    columns = [np.concatenate(list(np.stack(part, axis=1))) for part in zip(*steps, strict=True)]
    return ov.LoggedDataset.from_arrays(*columns, truncated=np.tile(np.arange(LENGTH) == LENGTH - 1, EPISODES))


@pytest.mark.parametrize("make", [finite_log, continuous_log])
def test_a_cause_of_actions_and_rewards_is_found_and_a_mixture_of_policies_is_not(make):
    found = [hidden_causes(Log.check(make(seed, acts=1, pays=0.7))) for seed in range(10)]
    assert min(found) > 0.02
    mixed = [hidden_causes(Log.check(make(seed, acts=1, pays=0))) for seed in range(10)]
    paid = [hidden_causes(Log.check(make(seed, acts=0, pays=0.7))) for seed in range(10)]
    nothing = [hidden_causes(Log.check(make(seed, acts=0, pays=0))) for seed in range(10)]
    assert max(mixed) == max(paid) == max(nothing) == 0


@pytest.mark.parametrize("make", [finite_log, continuous_log])
def test_the_verdict_is_never_reliable(make):
    policy = (
        np.full((5, 2), 0.5)
        if make is finite_log
        else ov.policy.GaussianPolicy(lambda s: (0.3 * s, 1.1), action_dimension=1, observation_size=1)
    )
    for estimator in ("auto", "vpm"):
        value = ov.evaluate(make(0, acts=1, pays=0.7), policy, estimator, gamma=0.9)
        assert value.verdict == "unreliable"
        assert any("not logged" in reason for reason in value.reasons)
        assert any("sensitivity" in each for each in value.advice)
        same = ov.evaluate(make(0, acts=1, pays=0), policy, estimator, gamma=0.9)
        assert not any("not logged" in reason for reason in same.reasons)


def test_ordinary_logs_are_not_doubted():
    logs = [LinearGaussian().dataset(50, 30, BEHAVIOUR, seed) for seed in range(10)]
    for seed in range(10):
        mdp = RandomMDP.draw(20, 4, seed)
        logs.append(mdp.dataset(60, 30, mdp.policy(seed + 1, spread=2.0), seed))
    assert [hidden_causes(Log.check(each)) for each in logs] == [0.0] * 20


def test_earlier_rows_of_other_states_by_hand():
    values, episode, state = np.array([[1.0], [2.0], [4.0], [8.0], [3.0]]), np.array([0, 0, 0, 0, 1]), [0, 1, 0, 2, 0]
    sums, number = earlier_sums(values, episode)
    assert number.tolist() == [0, 1, 2, 3, 0]
    assert np.allclose(sums[:, 0], [0, 1, 3 / np.sqrt(2), 7 / np.sqrt(3), 0])
    sums, number = earlier_sums(values, episode, np.array(state))
    assert number.tolist() == [0, 1, 1, 3, 0]  # the third row does not count the first, which is in its state
    assert np.allclose(sums[:, 0], [0, 1, 2, 7 / np.sqrt(3), 0])


def test_means_of_the_other_half_by_hand():
    fold = np.array([0, 0, 1, 1])
    means = cell_means(np.array([0, 1, 0, 0]), fold, np.array([[1.0], [3.0], [5.0], [7.0]]))
    # of fold 1 cell 0 has 5 and 7, cell 1 nothing, the mean 6; of fold 0 cell 0 has 1, the mean is 2
    assert means[:, 0].tolist() == [(5 + 7 + 6) / 3, 6.0, (1 + 2) / 2, (1 + 2) / 2]


def test_what_features_miss_of_a_network_is_no_cause_and_no_effect_of_the_step_number():
    """Reacher's state is all that its policy, its rewards and what follows depend on; with 20 000 rows misfits show."""
    data = bullet.dataset("reacher", 1.0, 200, 100, 0)
    assert hidden_causes(Log.check(data, ignore=["step-number"])) == 0
    assert step_effect(data) == 0
