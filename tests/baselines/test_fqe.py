"""Fitted Q evaluation against closed forms."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, GaussianController, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.action_functions import centred_features
from ope_vpm.ope.finite.cross_fit import counted_fit
from ope_vpm.ope.q.linear import LinearQ
from ope_vpm.ope.q.networks import fit_networks
from ope_vpm.policy import CategoricalPolicy, DeterministicPolicy, GaussianPolicy, TargetPolicy


class Foreign(TargetPolicy):
    """A policy that can only be drawn from."""

    action_dimension = 1

    def sample(self, observations, rng):
        return TARGET.sample(observations, rng)


def means(policy, rng_seed=0):
    """Means over 20,000 actions of the target itself, in units of their standard errors."""
    rng = np.random.default_rng(rng_seed)
    states = rng.standard_normal((20_000, 2))
    data = ov.LoggedDataset.from_arrays(states, policy.sample(states, rng), np.zeros(20_000), states)
    centred = centred_features(Problem.pose(data, policy, ignore=("one-row-off", "broken-chain")))
    return centred.mean(axis=0) / (centred.std(axis=0) / np.sqrt(20_000))


@pytest.mark.parametrize("squash", [False, True])
@pytest.mark.parametrize("bounds", [None, (-0.2, 0.5)])
def test_features_of_gaussian_actions_have_mean_zero(squash, bounds):
    policy = GaussianPolicy(lambda s: (0.3 * s[:, :1], 0.3), bounds=bounds, squash=squash)
    assert np.abs(means(policy)).max() < 4


def test_features_of_a_foreign_policy_have_mean_zero():
    assert np.abs(means(Foreign())).max() < 4


def test_features_of_the_one_action_are_zero():
    policy = DeterministicPolicy(lambda s: 0.3 * s[:, :1])
    states = np.random.default_rng(0).standard_normal((50, 2))
    data = ov.LoggedDataset.from_arrays(states, policy.action(states), np.zeros(50), states)
    centred = centred_features(Problem.pose(data, policy, ignore=("one-row-off", "broken-chain")))
    np.testing.assert_allclose(centred, 0, atol=1e-12)


def test_counted_q_of_two_states():
    """Action 0 stays, 1 switches, reward is the state; π(switch) = 0.2 in 0 and 0.6 in 1, γ = ½.

    V₁ = 4/3 and V₀ = V₁/6 = 2/9 (see test_by_hand); so Q(0, stay) = 1/9, Q(0, switch) = 2/3,
    Q(1, stay) = 1 + 2/3, Q(1, switch) = 1 + 1/9.
    """
    data = ov.LoggedDataset.from_arrays([0, 0, 1, 1], [0, 1, 0, 1], [0.0, 0.0, 1.0, 1.0], [0, 1, 1, 0])
    problem = Problem.pose(data, [[0.8, 0.2], [0.4, 0.6]], gamma=0.5)
    found = counted_fit(problem).q
    np.testing.assert_allclose(found.q, [1 / 9, 2 / 3, 5 / 3, 10 / 9])
    np.testing.assert_allclose(found.after, [2 / 9, 4 / 3, 4 / 3, 2 / 9])


@pytest.mark.parametrize("gamma", [1.0, 0.95])
def test_linear_fqe_finds_the_closed_form(gamma):
    """Ten datasets, a noisy target: the mean error is within 4 standard errors, each interval of its size."""
    env, policy = LinearGaussian(), TARGET.policy()
    found = [
        ov.evaluate(env.dataset(40, 50, BEHAVIOUR, seed), policy, "fqe", gamma=gamma, solver="linear", n_features=100)
        for seed in range(10)
    ]
    errors = np.array([each.value for each in found]) - env.value(TARGET, gamma)
    assert abs(errors.mean()) < 4 * errors.std(ddof=1) / np.sqrt(10)
    assert 0.5 < np.sqrt(np.mean(errors**2)) / np.mean([each.standard_error for each in found]) < 1.6


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_linear_fqe_of_a_policy_without_noise_or_densities(gamma):
    """The greedy controller has no density; its value is known all the same."""
    env = LinearGaussian()
    still = GaussianController(TARGET.gain, TARGET.shift, 0.0)
    greedy = DeterministicPolicy(lambda s: s @ np.array(TARGET.gain)[:, None] + TARGET.shift)
    for policy, truth in ((greedy, env.value(still, gamma)), (Foreign(), env.value(TARGET, gamma))):
        errors = [
            ov.evaluate(env.dataset(60, 50, BEHAVIOUR, seed), policy, "fqe", gamma=gamma, solver="linear").value - truth
            for seed in range(3)
        ]
        assert np.abs(errors).max() < 0.03


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_networks_find_the_closed_form(gamma, weighted):
    """After 600 steps within 0.06 of the truth; the logged mean is off by 0.3."""
    env, policy = LinearGaussian(), TARGET.policy()
    data = env.dataset(40, 50, BEHAVIOUR, 0)
    options = {"training_steps": 600, "members": 1, "n_features": 40, "weighted": weighted}
    found = ov.evaluate(data, policy, "fqe", gamma=gamma, solver="neural", **options)
    assert abs(found.value - env.value(TARGET, gamma)) < 0.06
    assert found.interval[0] < env.value(TARGET, gamma) < found.interval[1]


def test_networks_know_the_time_where_a_limit_ends_episodes():
    """Reward 1 in the first half of 10 steps and 0 after, and states that do not tell the time: on average ½.

    Five steps of 1 - ½ lie between t = 0 and t = 5, so V falls by 2½ there, which only the clock can tell.
    """
    rng, episodes = np.random.default_rng(0), 60
    states = rng.standard_normal((episodes, 11, 1))
    rewards = np.tile(np.arange(10) < 5, episodes).astype(float)
    data = ov.LoggedDataset.from_arrays(
        states[:, :-1].reshape(-1, 1),
        rng.integers(2, size=10 * episodes),
        rewards,
        states[:, 1:].reshape(-1, 1),
        truncated=np.tile(np.arange(10) == 9, episodes),
    )
    policy = CategoricalPolicy(lambda s: np.full((len(s), 2), 0.5), 2)
    problem = Problem.pose(data, policy, time_limit="restart", ignore=("one-row-off",))
    rewards = problem.data.rewards[problem.steps.rows]
    zero = LinearQ(rewards[None], np.zeros((1, episodes)), np.zeros(1))  # Q = 0, which leaves the rewards
    values = fit_networks(problem, np.zeros(episodes, dtype=int), 1, 600, 8, zero)
    assert values.value(problem) == pytest.approx(0.5, abs=0.03)
    time = problem.data.time[problem.steps.rows]
    assert values.q[time == 0].mean() - values.q[time == 5].mean() == pytest.approx(2.5, abs=0.5)
