"""The factored form: its equations on a few numbers, its parts against closed forms."""

import numpy as np
import pytest
from scipy.stats import norm

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.action_features import centred_features, clipped_moments
from ope_vpm.ope.action_ratio import ActionRatio, action_ratio, categorical_clone
from ope_vpm.ope.clone import Draws, fit_clone
from ope_vpm.ope.factored import Equations, choose_ridge, factored_rows, suspected_bias
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy

ENV = LinearGaussian()


def test_two_by_two_equations():
    """M = [[2, 1], [0, 1 + 1]] with ridge 1: θ = M⁻¹(4, 2) = (1.5, 1), β = M⁻ᵀ(1, 0) = (0.5, -0.25)."""
    equations = Equations(
        np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([4.0, 2.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    )
    theta, beta = equations.solve(1.0)
    assert theta.tolist() == [1.5, 1.0]
    assert beta.tolist() == [0.5, -0.25]
    assert equations.source @ theta == beta @ equations.reward


def test_the_smallest_ridge_within_the_tolerance_is_taken():
    assert choose_ridge(np.array([9.0, 3.1, 2.9, 2.0, 2.5])) == 2
    assert choose_ridge(np.array([np.nan, np.inf, 1.0])) == 2
    assert choose_ridge(np.array([1.0, 1.0])) == 0
    with pytest.raises(ArithmeticError, match="no ridge"):
        choose_ridge(np.array([np.nan, np.nan]))


def test_suspected_bias_looks_one_decade_up():
    assert suspected_bias(np.array([1.0, 1.5, 3.0, 9.0]), 0) == 2.0
    assert suspected_bias(np.array([1.0, 1.5, 3.0, 9.0]), 3) == 0.0


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_ratio_keeps_mass_one_and_value_is_the_weighted_reward(gamma, power):
    problem = Problem.pose(ENV.dataset(20, 30, BEHAVIOUR, seed=0), TARGET.policy(), gamma=gamma)
    rows = factored_rows(problem, 20, power, draws=1)
    equations = rows.equations()
    theta, beta = equations.solve(1e-3)
    tau, _ = rows.ratios_and_residuals(theta[:, None], beta[:, None])
    assert tau.mean() == pytest.approx(1)
    assert np.mean(tau[:, 0] * problem.data.rewards) == pytest.approx(equations.source @ theta)


def test_on_policy_the_action_ratio_is_one():
    """The clone is fitted around the target: where the two are equal only sampling noise is left."""
    ratio = action_ratio(Problem.pose(ENV.dataset(100, 50, TARGET, seed=0), TARGET.policy())).ratio
    assert np.abs(ratio - 1).mean() < 0.06


def test_action_ratio_against_the_known_behaviour():
    data = ENV.dataset(200, 50, BEHAVIOUR, seed=0)
    problem = Problem.pose(data, TARGET.policy())
    exact = np.exp(
        problem.target_log_prob - BEHAVIOUR.policy().log_prob(problem.data.observations, problem.data.actions)
    )
    found = action_ratio(problem)
    assert np.abs(found.ratio - exact / exact.mean()).mean() < 0.03
    assert found.overlap == pytest.approx(1, abs=0.03)


def test_scaling_comes_before_the_cap():
    found = ActionRatio.of_logs(np.log([1.0, 1.0, 10.0]), likelihood=0.0, cap=2.0)
    assert found.ratio.tolist() == pytest.approx([0.25, 0.25, 2.0])
    assert found.overlap == pytest.approx(4.0)


def test_gaussian_clone_finds_a_linear_mean():
    rng = np.random.default_rng(0)
    s = rng.standard_normal((4000, 1))
    z = 0.5 + 2 * s + 0.3 * rng.standard_normal((4000, 1))
    episode = np.arange(4000) // 100
    features = np.hstack([np.ones_like(s), s])
    fitted, held_out = fit_clone(Draws.unclipped(z), features, 1, episode % 5 == 4, episode)
    exact = norm.logpdf(z[:, 0], 0.5 + 2 * s[:, 0], 0.3)
    assert np.abs(fitted - exact).mean() < 0.02
    assert held_out == pytest.approx(exact.mean(), abs=0.05)


def test_categorical_clone_finds_a_tempered_target():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((5000, 3))
    chance, behaviour = (np.exp(power * logits) for power in (1.0, 0.5))
    chance, behaviour = (part / part.sum(axis=1, keepdims=True) for part in (chance, behaviour))
    actions = (rng.random((5000, 1)) > behaviour.cumsum(axis=1)).sum(axis=1)
    fitted, _ = categorical_clone(chance, actions, np.ones((5000, 1)), np.arange(5000) % 5 == 4)
    exact = np.log(behaviour[np.arange(5000), actions])
    assert np.abs(fitted - exact).mean() < 0.05


@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (-0.5, 1.5), (0.2, np.inf)])
def test_clipped_moments_against_draws(low, high):
    draws = np.clip(norm.ppf((np.arange(200_000) + 0.5) / 200_000), low, high)
    first, second = clipped_moments(np.array(low), np.array(high))
    assert first == pytest.approx(draws.mean(), abs=1e-4)
    assert second == pytest.approx((draws**2).mean(), abs=1e-4)


@pytest.mark.parametrize("bounds", [None, (-0.2, 0.5)])
def test_centred_actions_have_mean_zero_under_the_target(bounds):
    policy = GaussianPolicy(lambda s: (0.3 * s[:, :1], 0.3), bounds=bounds)
    rng = np.random.default_rng(0)
    states = rng.standard_normal((20_000, 2))
    data = ov.LoggedDataset.from_arrays(states, policy.sample(states, rng), np.zeros(20_000), states)
    centred = centred_features(Problem.pose(data, policy, ignore=("one-row-off", "broken-chain")))
    assert np.abs(centred.mean(axis=0)).max() < 4 * centred.std() / np.sqrt(20_000)


def test_discrete_actions_on_points_take_the_factored_form():
    """One state that does not matter and a bandit's reward: the value is Σ π(a) r(a) = 0.8."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((3001, 1)), rng.integers(2, size=3000)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions.astype(float), states[1:], truncated=np.arange(3000) % 30 == 29
    )
    policy = CategoricalPolicy(lambda s: np.tile([0.2, 0.8], (len(s), 1)), 2)
    found = ov.evaluate(data, policy)
    assert found.diagnostics["solver"] == "factored"
    assert found.value == pytest.approx(0.8, abs=1e-3)
    assert found.verdict == "reliable"


@pytest.mark.parametrize("name", ["vpm", "fqe", "dr", "auto"])
def test_a_time_limit_is_a_clock(name):
    """s' = s + a from 0, r = s, 20 steps, actions of mean 0.5 rather than the log's 0.3: 0.5·(0 + … + 19)/20 = 4.75.

    The log never restarts at random, as a chain without a clock would: it restarts after 20 steps, wherever it is.
    """
    rng = np.random.default_rng(0)
    actions = rng.normal(0.3, 1.0, (200, 20))
    states = np.hstack([np.zeros((200, 1)), actions.cumsum(axis=1)])
    data = ov.LoggedDataset.from_arrays(
        states[:, :-1].reshape(-1, 1),
        actions.reshape(-1, 1),
        states[:, :-1].ravel(),
        states[:, 1:].reshape(-1, 1),
        truncated=np.arange(4000) % 20 == 19,
    )
    policy = GaussianPolicy(lambda s: (np.full((len(s), 1), 0.5), 1.0))
    options = {"solver": "linear"} if name == "fqe" else {}
    found = ov.evaluate(data, policy, name, time_limit="restart", **options)
    assert found.standard_error < 0.3
    assert abs(found.value - 4.75) < 3 * found.standard_error
