"""The behaviour's clone: clipped draws and mixed logs, against scipy and against what made the draws."""

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, LinearGaussian
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.states import StateFeatures
from ope_vpm.ope.behaviour.action_ratio import action_ratio
from ope_vpm.ope.behaviour.gaussian import CloneRows, tell_apart
from ope_vpm.ope.behaviour.rows import Design, Draws
from ope_vpm.policy import GaussianPolicy
from tests.clones import fit_clone


def clipped(z, low, high):
    return Draws(np.clip(z, low, high), z <= low, z >= high)


def test_densities_and_tails_are_scipy_s():
    draws = clipped(np.array([[-3.0], [0.2], [5.0]]), -1.0, 1.5)
    logs = draws.log_density(np.array([[0.1], [0.1], [0.1]]), np.array([0.7]))
    law = norm(0.1, 0.7)
    np.testing.assert_allclose(logs, [law.logcdf(-1.0), law.logpdf(0.2), law.logsf(1.5)])


def test_expectations_beyond_a_bound_are_scipy_s():
    draws = clipped(np.array([[-3.0], [0.2], [5.0]]), -1.0, 1.5)
    centre, variance = draws.expected(np.full((3, 1), 0.1), np.array([0.7]))
    low = truncnorm(-np.inf, (-1.0 - 0.1) / 0.7, 0.1, 0.7)
    high = truncnorm((1.5 - 0.1) / 0.7, np.inf, 0.1, 0.7)
    np.testing.assert_allclose(centre[:, 0], [low.mean(), 0.2, high.mean()])
    np.testing.assert_allclose(variance[:, 0], [low.var(), 0.0, high.var()], rtol=1e-6)


def test_expectations_far_beyond_a_bound_stay_finite():
    draws = Draws(np.array([[50.0]]), np.array([[False]]), np.array([[True]]))
    centre, variance = draws.expected(np.zeros((1, 1)), np.ones(1))
    assert centre[0, 0] == pytest.approx(50.02, abs=0.01)
    assert 0 <= variance[0, 0] < 1


def test_a_clipped_gaussian_is_found_although_most_of_it_is_not_seen():
    rng = np.random.default_rng(0)
    s = rng.standard_normal((8000, 1))
    z = 0.8 + 0.5 * s + 1.4 * rng.standard_normal((8000, 1))
    draws = clipped(z, -0.5, 0.9)
    assert draws.clipped.mean() > 0.6
    episode = np.arange(8000) // 100
    fitted = fit_clone(draws, Design.table(np.hstack([np.ones_like(s), s]), 1), episode % 5 == 4, episode).log_prob
    exact = draws.log_density(0.8 + 0.5 * s, np.array([1.4]))
    assert np.abs(fitted - exact).mean() < 0.03


def test_episodes_of_two_policies_are_told_apart_and_those_of_one_are_not():
    rng = np.random.default_rng(0)
    episode, s = np.repeat(np.arange(40), 50), rng.standard_normal((2000, 1))
    rows = CloneRows(Design.table(np.hstack([np.ones_like(s), s]), 1), episode % 5 == 4, episode)
    second = (episode % 2 == 1)[:, None]
    noise = rng.standard_normal((2000, 1))
    two = np.where(second, 1.5 - s + 0.5 * noise, 1.2 * noise)
    share = tell_apart(Draws.unclipped(two), rows)
    assert (np.abs(share - np.arange(40) % 2) < 0.05).all() or (np.abs(share - 1 + np.arange(40) % 2) < 0.05).all()
    assert tell_apart(Draws.unclipped(1.2 * noise), rows) is None
    fitted = fit_clone(Draws.unclipped(two), rows.design, rows.held_out, episode).log_prob
    exact = np.log(0.5 * norm.pdf(two, 1.5 - s, 0.5) + 0.5 * norm.pdf(two, 0, 1.2))[:, 0]
    assert np.abs(fitted - exact).mean() < 0.1


def wide(factor):
    return GaussianPolicy(lambda s: (1.5 * np.tanh(s[:, :1]), 0.6 * factor), bounds=(-1.0, 1.0))


def test_the_ratio_of_clipped_policies():
    """Against the exact ratio: densities inside, tails at the bounds; a third of the actions are clipped."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((20_000, 2))
    data = ov.LoggedDataset.from_arrays(
        states, wide(1.5).sample(states, rng), np.zeros(20_000), states, episode=np.arange(20_000) // 100
    )
    problem = Problem.pose(data, wide(1.0), ignore=("one-row-off", "broken-chain"))
    found = action_ratio(problem)
    here = problem.data.observations, problem.data.actions
    exact = np.exp(wide(1.0).log_likelihood(*here) - wide(1.5).log_likelihood(*here))
    assert (np.abs(data.actions) == 1).mean() > 0.3
    assert np.abs(found.ratio - exact / exact.mean()).mean() < 0.03
    assert found.overlap == pytest.approx(1, abs=0.03)


def test_log_likelihood_sums_to_one():
    policy = wide(1.0)
    inside = np.linspace(-1, 1, 4001)[1:-1, None]
    state = np.full((1, 2), 0.4)
    density = np.exp(policy.log_likelihood(np.repeat(state, len(inside), axis=0), inside)).sum() * (2 / 4000)
    tails = np.exp(policy.log_likelihood(np.repeat(state, 2, axis=0), np.array([[-1.0], [1.0]]))).sum()
    assert density + tails == pytest.approx(1, abs=1e-3)
    beyond = policy.log_likelihood(state, np.array([[1.2]]))  # was not clipped: a density, as `log_prob` has it
    np.testing.assert_allclose(beyond, policy.log_prob(state, np.array([[1.2]])))


@pytest.mark.parametrize("bounds", [False, True])
def test_features_that_are_computed_in_batches_give_the_clone_of_those_in_memory(monkeypatch, bounds):
    """In double precision to rounding errors, and in single precision to its own."""
    data = LinearGaussian().dataset(20, 30, BEHAVIOUR, seed=0)
    features = StateFeatures.draw(data, 20, 0)
    draws = clipped(np.array(data.actions), -0.5, 0.7) if bounds else Draws.unclipped(np.array(data.actions))
    held, logs = data.episode % 5 == 4, []
    for settings, precision in (({}, None), ({"KEPT_ROWS": 0, "BATCH_ROWS": 100}, None), ({}, np.float32)):
        for name, value in settings.items():
            monkeypatch.setattr(f"ope_vpm.ope.behaviour.rows.{name}", value)
        design = Design.of_states(features, data.observations, precision)
        logs.append(fit_clone(draws, design, held, data.episode).log_prob)
    table, computed, in_single = logs
    np.testing.assert_allclose(computed, table, atol=1e-10)
    np.testing.assert_allclose(in_single, table, atol=1e-5)
