"""The factored form: its equations on a few numbers, its parts against closed forms."""

import numpy as np
import pytest
from scipy.stats import norm

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.action_functions import centred_features
from ope_vpm.ope.adapter.ends import ending_rows, times
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.behaviour.action_ratio import ActionRatio, action_ratio
from ope_vpm.ope.behaviour.rows import Design, Draws
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.policy import CategoricalPolicy, GaussianPolicy
from ope_vpm.policy.continuous import clipped_moments
from tests.clones import categorical_clone, fit_clone

ENV = LinearGaussian()


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_ratio_keeps_mass_one_and_value_is_the_weighted_reward(gamma, power):
    problem = Problem.pose(ENV.dataset(20, 30, BEHAVIOUR, seed=0), TARGET.policy(), gamma=gamma)
    pairs = pair_features(problem, 20, draws=1).weighted(action_ratio(problem).ratio ** power)
    equations = PairEquations(problem, pairs)
    theta, beta = equations.system.solve(1e-3)
    tau, _ = equations.apply(beta, theta)
    assert tau.mean() == pytest.approx(1)
    assert np.mean(tau * problem.data.rewards) == pytest.approx(equations.system.source @ theta)


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
    clone = fit_clone(Draws.unclipped(z), Design.table(features, 1), episode % 5 == 4, episode)
    exact = norm.logpdf(z[:, 0], 0.5 + 2 * s[:, 0], 0.3)
    assert np.abs(clone.log_prob - exact).mean() < 0.02
    assert clone.held_out_log_likelihood == pytest.approx(exact.mean(), abs=0.05)


def test_categorical_clone_finds_a_tempered_target():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((5000, 3))
    chance, behaviour = (np.exp(power * logits) for power in (1.0, 0.5))
    chance, behaviour = (part / part.sum(axis=1, keepdims=True) for part in (chance, behaviour))
    actions = (rng.random((5000, 1)) > behaviour.cumsum(axis=1)).sum(axis=1)
    fitted = categorical_clone(chance, actions, np.ones((5000, 1)), np.arange(5000) % 5 == 4).log_prob
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
    found = ov.evaluate(data, policy, "vpm")
    assert found.diagnostics["solver"] == "factored"
    assert found.value == pytest.approx(0.8, abs=1e-3)
    assert found.verdict == "reliable"


def walks(lengths, seed=0, from_reset=None):
    """s' = s + a from 0 with a ~ N(0.3, 1) and r = s; every episode is cut, those from no reset begin later."""
    rng = np.random.default_rng(seed)
    whole = from_reset is None
    kept = np.ones(len(lengths), dtype=bool) if whole else np.array(from_reset)
    states, actions, following = [], [], []
    for length, begins in zip(lengths, kept, strict=True):
        drawn = rng.normal(0.3, 1.0, 20)
        path = np.concatenate([[0.0], drawn.cumsum()])
        part = slice(0, length) if begins else slice(20 - length, 20)
        states.append(path[:-1][part])
        actions.append(drawn[part])
        following.append(path[1:][part])
    data = ov.LoggedDataset.from_arrays(
        np.concatenate(states)[:, None],
        np.concatenate(actions)[:, None],
        np.concatenate(states),
        np.concatenate(following)[:, None],
        truncated=np.isin(np.arange(sum(lengths)), np.cumsum(lengths) - 1),
    )
    return data if whole else data.with_resets(kept)


FASTER = GaussianPolicy(lambda s: (np.full((len(s), 1), 0.5), 1.0))
"""Of 20 steps it is worth 0.5·(0 + … + 19)/20 = 4.75."""


@pytest.mark.parametrize("name", ["vpm", "fqe", "dr", "auto"])
def test_a_time_limit_is_a_clock(name):
    """The log never restarts at random, as a chain without a clock would: after 20 steps, wherever it is."""
    options = {"solver": "linear"} if name == "fqe" else {}
    found = ov.evaluate(walks([20] * 200), FASTER, name, time_limit="restart", **options)
    assert found.diagnostics["clock"] == 20
    assert found.standard_error < 0.3
    assert abs(found.value - 4.75) < 3 * found.standard_error


@pytest.mark.parametrize(("lengths", "from_reset"), [([20] * 60 + [7], None), ([20] * 60 + [8], [True] * 60 + [False])])
def test_an_unfinished_or_a_headless_episode_does_not_stop_the_clock(lengths, from_reset):
    """Both leave an episode shorter than the limit: the task went on after the one, and before the other."""
    data = walks(lengths, from_reset=from_reset)
    assert data.limit == 20
    assert ending_rows(data, "restart").sum() == 60 + (from_reset is not None)
    found = ov.evaluate(data, FASTER, "vpm", time_limit="restart")
    assert found.diagnostics["clock"] == 20
    assert abs(found.value - 4.75) < 3 * found.standard_error


def test_rows_of_a_headless_episode_are_counted_back_from_the_limit():
    data = walks([20] * 3 + [8], from_reset=[True] * 3 + [False])
    problem = Problem.pose(data, FASTER, time_limit="restart")
    late = times(problem.data, problem.time_limit)[problem.data.episode == np.flatnonzero(~problem.data.from_reset)[0]]
    assert late.tolist() == list(range(12, 20))


def test_cut_at_several_lengths_there_is_no_clock_and_a_word_about_it():
    found = ov.evaluate(walks([20, 15, 12, 9, 17, 20]), FASTER, "vpm", time_limit="restart")
    assert found.diagnostics["clock"] is None
    assert any("several lengths" in reason for reason in found.reasons)


def test_states_without_the_time_ask_for_caution():
    """Finite states: where the chain restarts wherever it was seen to, that is not what a time limit does.

    Followed by the clock, the mean state before 20 steps of 0.6 on average is 0.6·9.5.
    """
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=(60, 20))
    states = np.hstack([np.zeros((60, 1), dtype=int), actions.cumsum(axis=1)])
    cut = np.arange(1200) % 20 == 19
    data = ov.LoggedDataset.from_arrays(
        states[:, :-1].ravel(), actions.ravel(), states[:, :-1].ravel() * 1.0, states[:, 1:].ravel(), truncated=cut
    )
    target = np.tile([0.4, 0.6], (21, 1))
    for name, settings in (("vpm", {"unseen": "restart"}), ("model", {"unseen": "pooled"})):
        found = ov.evaluate(data, target, name, time_limit="restart", **settings)
        assert found.verdict != "reliable"
        assert any("do not hold the time" in reason for reason in found.reasons)
    for name in ("vpm", "model", "dr"):
        found = ov.evaluate(data, target, name, time_limit="restart")
        assert found.value == pytest.approx(0.6 * 9.5, abs=0.02)
        assert not any("do not hold the time" in reason for reason in found.reasons)


@pytest.mark.parametrize("name", ["vpm", "dr"])
def test_nothing_in_common_has_no_value(name):
    """Actions 0 and 1 were logged, the target takes 2."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((301, 1)), rng.integers(2, size=300)
    data = ov.LoggedDataset.from_arrays(
        states[:-1], actions, actions * 1.0, states[1:], truncated=np.arange(300) % 30 == 29
    )
    found = ov.evaluate(data, CategoricalPolicy(lambda s: np.tile([0.0, 0.0, 1.0], (len(s), 1)), 3), name)
    assert np.isnan(found.value)
    assert found.verdict == "unreliable"


@pytest.mark.parametrize("options", [{"power": -1}, {"power": 2}, {"ridge": 0.0}, {"ridge": -1.0}, {"n_features": 0}])
def test_settings_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must be"):
        ov.evaluate(walks([20] * 4), FASTER, "vpm", **options)


def test_infinite_bounds_clip_nothing():
    policy = GaussianPolicy(lambda s: (0 * s[:, :1], 1.0), bounds=(-np.inf, np.inf))
    below, above = policy.clipping.at_bounds(np.array([[-1e9], [0.0], [1e9]]))
    assert not below.any()
    assert not above.any()


def test_moments_of_a_squashed_gaussian():
    """tanh of a Gaussian of deviation 7: draws at a million quantiles."""
    policy = GaussianPolicy(lambda s: (0 * s[:, :1] + 1.0, 7.0), squash=True)
    first, second = policy.action_moments(np.zeros((1, 1)), np.random.default_rng(0))
    exact = np.tanh(1 + 7 * norm.ppf((np.arange(1_000_000) + 0.5) / 1_000_000))
    assert first[0, 0] == pytest.approx(exact.mean(), abs=2e-3)
    assert second[0, 0] == pytest.approx((exact**2).mean(), abs=2e-3)
