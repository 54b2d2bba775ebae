"""The parts of a clone of the behaviour, each against numpy's own solution or numbers worked out by hand."""

import numpy as np
import pytest
from scipy.stats import norm

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.behaviour.clone import clone, counted_clone, logged_frequencies
from ope_vpm.ope.behaviour.gaussian import FEWEST_EPISODES, CloneRows, Regression, expectation, tell_apart
from ope_vpm.ope.behaviour.rows import Design, Draws, Gaussian
from ope_vpm.policy import GaussianPolicy
from tests.clones import fit_clone

RNG = np.random.default_rng(0)
S = RNG.standard_normal((600, 1))
PHI = np.hstack([np.ones_like(S), S, np.cos(2 * S), np.sin(2 * S)])
DESIGN = Design.table(PHI, 1)
EPISODE = np.repeat(np.arange(20), 30)
HELD = EPISODE % 5 == 4
ROWS = CloneRows(DESIGN, HELD, EPISODE)


def ridge(phi, weight, values, penalty):
    """argmin Σ w (v - φᵀc)² + Σw·Σ_k penalty_k c_k², by the normal equations."""
    gram = phi.T @ (weight[:, None] * phi) + weight.sum() * np.diag(penalty)
    return np.linalg.solve(gram, phi.T @ (weight[:, None] * values))


def test_ridges_weigh_rows_and_spare_linear_features():
    weight, values = RNG.random(600), RNG.standard_normal((600, 1))
    np.testing.assert_array_equal(DESIGN.penalty(0.3), [1e-8, 1e-8, 0.3, 0.3])
    np.testing.assert_allclose(DESIGN.gram(weight), PHI.T @ (weight[:, None] * PHI))
    expected = ridge(PHI, weight, values, [1e-8, 1e-8, 0.3, 0.3])
    found = Regression(DESIGN, 0.3, weight)
    fit = found.fit(Draws.unclipped(values), Gaussian.target(Draws.unclipped(values)), 20)
    np.testing.assert_allclose(fit.coefficients, expected)
    left = values - PHI @ expected
    np.testing.assert_allclose(fit.std, np.sqrt(np.sum(weight[:, None] * left**2) / weight.sum()))
    assert DESIGN.plain.size == 2
    np.testing.assert_array_equal(DESIGN.plain.features(slice(0, 5)), PHI[:5, :2])


def test_expected_draws_enter_the_sums_with_their_variance():
    """Where half of the draws were clipped at 0, N(0, 1) has the mean √(2/π) there and the variance 1 - 2/π."""
    z = RNG.standard_normal((600, 1))
    draws = Draws(np.maximum(z, 0), z <= 0, np.zeros_like(z, dtype=bool))
    now, weight = Gaussian.target(draws), RNG.random(600)
    centre = np.where(z <= 0, -np.sqrt(2 / np.pi), z)
    sums, variance = expectation(draws, now, DESIGN, weight), np.where(z <= 0, 1 - 2 / np.pi, 0)
    np.testing.assert_allclose(sums.products, PHI.T @ (weight[:, None] * centre), rtol=1e-9)
    np.testing.assert_allclose(sums.squares, weight @ (centre**2 + variance), rtol=1e-9)
    found = Regression(DESIGN, 0.3, weight).maximised(draws, now, sums)
    square = (centre - PHI @ found.coefficients) ** 2 + variance
    np.testing.assert_allclose(found.std, np.sqrt(weight @ square / weight.sum()))


def test_the_held_out_likelihood_is_that_of_rows_that_were_not_fitted():
    """A linear mean: Fourier features do not help, and the score is that of a line fitted to the other episodes."""
    noise = RNG.standard_normal((600, 1))
    z = 0.5 + 0.8 * S + 0.7 * noise
    found = fit_clone(Draws.unclipped(z), DESIGN.plain, HELD, EPISODE)
    line = np.linalg.lstsq(PHI[~HELD, :2], z[~HELD], rcond=None)[0]
    left = z - PHI[:, :2] @ line
    score = norm.logpdf(left[HELD], 0, left[~HELD].std()).mean()
    assert found.held_out_log_likelihood == pytest.approx(score, abs=1e-3)
    line = np.linalg.lstsq(PHI[:, :2], z, rcond=None)[0]
    left = z - PHI[:, :2] @ line
    np.testing.assert_allclose(found.log_prob, norm.logpdf(left, 0, left.std())[:, 0], atol=1e-5)
    whole = fit_clone(Draws.unclipped(z), DESIGN.plain, np.zeros(600, bool), EPISODE)
    assert whole.held_out_log_likelihood == pytest.approx(norm.logpdf(left, 0, left.std()).mean(), abs=1e-5)


def test_waves_are_taken_where_held_out_rows_ask_for_them():
    z = 2 * np.cos(2 * S) + 0.3 * RNG.standard_normal((600, 1))
    found = fit_clone(Draws.unclipped(z), DESIGN, HELD, EPISODE)
    assert found.held_out_log_likelihood == pytest.approx(
        norm.logpdf(0.3 * RNG.standard_normal(10_000), 0, 0.3).mean(), abs=0.15
    )
    assert np.abs(found.log_prob - norm.logpdf(z, 2 * np.cos(2 * S), 0.3)[:, 0]).mean() < 0.1
    straight = S + 0.3 * RNG.standard_normal((600, 1))
    with_waves = fit_clone(Draws.unclipped(straight), DESIGN, HELD, EPISODE)
    without = fit_clone(Draws.unclipped(straight), DESIGN.plain, HELD, EPISODE)
    assert with_waves.held_out_log_likelihood >= without.held_out_log_likelihood


def test_few_episodes_are_not_told_apart():
    """Two policies as different as can be: eleven episodes are told apart, nine are not."""
    for count, expected in ((FEWEST_EPISODES + 1, True), (FEWEST_EPISODES - 1, False)):
        episode = np.repeat(np.arange(count), 30)
        z = np.where(episode % 2, 5.0, 0.0)[:, None] + 0.1 * RNG.standard_normal((len(episode), 1))
        rows = CloneRows(Design.table(np.ones((len(episode), 1)), 0), episode < 0, episode)
        assert (tell_apart(Draws.unclipped(z), rows) is not None) is expected


def test_two_policies_that_hardly_differ_are_one():
    """The information criterion asks for ½·3·ln n = 9.6 of log-likelihood; shifts of ±0.05 in 600 rows gain less."""
    shift = np.where(EPISODE % 2, 0.05, -0.05)[:, None]
    z = shift + np.random.default_rng(5).standard_normal((600, 1))
    assert tell_apart(Draws.unclipped(z), ROWS) is None
    clear = 10 * shift + np.random.default_rng(5).standard_normal((600, 1))
    second = tell_apart(Draws.unclipped(clear), ROWS)
    assert np.abs(np.round(second) - EPISODE.reshape(20, 30)[:, 0] % 2).sum() in (0, 20)


def test_a_mixed_clone_knows_where_each_policy_acts():
    """Episodes stay left or right, and the policies differ: near each state it is the density of the one that acts."""
    right = (EPISODE % 2)[:, None]
    s = np.where(right, 2.0, -2.0) + 0.3 * RNG.standard_normal((600, 1))
    mean = np.where(right, -4 * (s - 2), 4 * (s + 2))
    z = mean + 0.5 * RNG.standard_normal((600, 1))
    design = Design.table(np.hstack([np.ones_like(s), s]), 1)
    found = fit_clone(Draws.unclipped(z), design, HELD, EPISODE)
    own = norm.logpdf(z, mean, 0.5)[:, 0]
    assert np.mean(found.log_prob) == pytest.approx(own.mean(), abs=0.1)


def finite_log():
    states, actions = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    return Problem.pose(
        ov.LoggedDataset.from_arrays(states, actions, np.arange(6.0), episode=[0, 0, 0, 1, 1, 1]),
        [[0.5, 0.5]] * 2,
        ignore=("flags-confused", "duplicated-episodes", "constant-columns"),
    ).log


def test_counted_clones_by_hand():
    """(n(s, a) + ½)/(n(s) + 1), and with each row left out one less above and below."""
    found = clone(finite_log(), GaussianPolicy(lambda s: (s, 1.0)).clipping, 0)
    expected = np.log([2.5 / 4, 2.5 / 4, 1.5 / 4, 3.5 / 4, 3.5 / 4, 3.5 / 4])
    np.testing.assert_allclose(found.log_prob, expected)
    left_out = np.log([1.5 / 3, 1.5 / 3, 0.5 / 3, 2.5 / 3, 2.5 / 3, 2.5 / 3])
    assert found.held_out_log_likelihood == pytest.approx(left_out.mean())
    np.testing.assert_allclose(np.exp(logged_frequencies(finite_log())), [2 / 3, 2 / 3, 1 / 3, 1, 1, 1])
    plain = counted_clone(np.array([7, 7]), np.array([0, 2]), 3, smoothing=3.0)
    np.testing.assert_allclose(plain.log_prob, np.log([2 / 5, 2 / 5]))
    assert plain.held_out_log_likelihood == pytest.approx(np.log(1 / 4))


def test_networks_of_continuous_actions_count_in_the_units_of_the_actions():
    """N(100·s, 50²) clipped at 150: densities of the actions themselves, and tails at the bound."""
    rng = np.random.default_rng(4)
    states = rng.standard_normal((1500, 1))
    drawn = 100 * states + 50 * rng.standard_normal((1500, 1))
    actions = np.minimum(drawn, 150.0)
    data = ov.LoggedDataset.from_arrays(states, actions, np.zeros(1500), episode=np.arange(1500) // 50)
    policy = GaussianPolicy(lambda s: (s, 1.0), bounds=(-1e6, 150.0))
    posed = Problem.pose(data, policy, ignore=("one-row-off",))
    found = clone(posed.log, policy.clipping, 0)
    scale = norm(100 * states[:, 0], 50)
    exact = np.where(actions[:, 0] == 150, scale.logsf(150), scale.logpdf(actions[:, 0]))
    assert (actions == 150).mean() > 0.05
    assert np.abs(found.log_prob - exact).mean() < 0.12
    assert found.held_out_log_likelihood == pytest.approx(exact.mean(), abs=0.15)
