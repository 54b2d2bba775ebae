"""Constants where they are used: penalties, bounds and limits that a fit or a choice must keep."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import softmax

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.behaviour import clone as clones
from ope_vpm.ope.behaviour.categorical import fit_categorical
from ope_vpm.ope.behaviour.gaussian import RIDGES as CLONE_RIDGES
from ope_vpm.ope.behaviour.gaussian import Regression
from ope_vpm.ope.behaviour.rows import Design, Draws, Gaussian
from ope_vpm.ope.dynamics import state_shift as state_shifts
from ope_vpm.ope.dynamics.regression import RIDGES as WORLD_RIDGES
from ope_vpm.ope.dynamics.state_shift import Walks
from ope_vpm.ope.finite.behaviour import centred_log_probabilities
from ope_vpm.ope.inference.value import EpisodeReturn
from ope_vpm.ope.reporting import words
from ope_vpm.ope.vpm.estimator import PAPER
from ope_vpm.pages import svg
from ope_vpm.policy import GaussianPolicy
from ope_vpm.policy.target import Clipping

QUIET = ("flags-confused", "one-row-off", "constant-columns", "duplicated-episodes", "broken-chain")


def test_a_categorical_clone_is_pulled_to_the_target():
    """Σ φ(b̂ - 1[a]) / n + 2·10⁻³·θ = 0, but for the constant, which is free, and β, which is free as well."""
    rng = np.random.default_rng(0)
    states = rng.standard_normal((500, 1))
    target = rng.dirichlet(np.ones(3), size=500)
    score = np.log(target) + states * [1.0, 0.0, -1.0]
    actions = (rng.random((500, 1)) > np.cumsum(softmax(score, axis=1), axis=1)).sum(axis=1)
    features = np.hstack([np.ones((500, 1)), states])
    held = np.arange(500) % 5 == 4
    found = fit_categorical(target, actions, features, held)
    x, wanted = features[~held], np.eye(3)[actions[~held]]
    fitted = softmax(x @ found.theta + found.beta * np.log(target[~held]), axis=1)
    surplus = (fitted - wanted) / len(x)
    np.testing.assert_allclose(x.T @ surplus + 2e-3 * found.theta * [[0], [1]], 0, atol=2e-5)
    assert float((surplus * np.log(target[~held])).sum()) == pytest.approx(0, abs=2e-5)
    assert np.abs(found.theta[1]).max() > 0.3
    logs = found.log_prob(target, actions, features)
    assert found.held_out_log_likelihood == pytest.approx(logs[held].mean())


def test_deviations_of_a_cloned_network_are_bounded():
    """Between e⁻⁵ and e² of the logged actions' deviation, whatever the network says."""
    data = ov.LoggedDataset.from_arrays(
        np.zeros((4, 1)), np.array([[1.0], [3.0], [1.0], [3.0]]), np.zeros(4), truncated=[0, 1, 0, 1]
    )
    log = Problem.pose(data, GaussianPolicy(lambda s: (s, 1.0)), ignore=QUIET).log
    outputs, log_prob, units = clones._gaussian(log, Clipping())
    assert outputs == 2
    np.testing.assert_allclose(units, 0, atol=1e-12)  # a deviation of 1
    rows, root = torch.arange(2), 0.5 * np.log(2 * np.pi)
    narrow = log_prob(torch.tensor([[-1.0, -9.0], [1.0, -9.0]]), rows)
    np.testing.assert_allclose(narrow, 5 - root, rtol=1e-5)
    wide = log_prob(torch.tensor([[1.0, 9.0], [-1.0, 9.0]]), rows)
    np.testing.assert_allclose(wide, -0.5 * 4 * np.exp(-4.0) - 2 - root, rtol=1e-5)


def test_grids_of_ridges():
    np.testing.assert_allclose(np.log10(WORLD_RIDGES), np.arange(-9, -0.9, 0.5))
    np.testing.assert_allclose(np.log10(CLONE_RIDGES), [-3, -2, -1, 0], atol=1e-12)


def test_a_ridge_per_row_on_waves_alone():
    """Two rows of weight 3 and 1, a constant and a Fourier feature: (Σ w φφᵀ + ridge·Σw there) c = Σ w φ y."""
    features = np.array([[1.0, 2.0], [1.0, -1.0]])
    weight, values = np.array([3.0, 1.0]), np.array([5.0, 1.0])
    found = Regression(Design.table(features, 0), 0.25, weight).coefficients(values)
    gram = features.T @ (weight[:, None] * features) + np.diag([4e-8, 1.0])
    np.testing.assert_allclose(found, np.linalg.solve(gram, features.T @ (weight * values)), rtol=1e-9)
    start = Gaussian.target(Draws.unclipped(values[:, None]))
    assert (start.coefficients.tolist(), start.std.tolist()) == ([[0]], [1])


def test_the_paper_s_taxi():
    """Closed-form steps, T = 100, α = 1/√t, λ = 1, lost mass restarted."""
    expected = {"solver": "tabular", "steps": 100, "damping": "sqrt", "unseen": "restart", "lam": 1.0}
    assert PAPER["tabular"] == expected


def test_far_is_what_one_step_in_a_hundred_of_the_behaviour_is(monkeypatch):
    """Distances 1 to 200 in equal steps: 198 is what 99 % lie within."""
    walks = Walks(np.arange(1.0, 201.0)[:, None], np.ones((200, 1)), np.zeros((200, 1)))
    monkeypatch.setattr(state_shifts, "_walks", lambda *_: walks)
    data = ov.LoggedDataset.from_arrays(
        np.zeros((4, 1)), np.zeros((4, 1)), np.zeros(4), np.zeros((4, 1)), truncated=[0, 1, 0, 1]
    )
    log = Problem.pose(data, GaussianPolicy(lambda s: (s, 1.0)), ignore=QUIET).log
    line = SimpleNamespace(
        states=np.asarray, to_actions=np.asarray, n_actions=None, step=lambda z, actions: (z, 0.0, 0.0)
    )
    assert state_shifts._of_behaviour.__wrapped__(log, line, 0)[2] == 198


def test_logarithms_of_small_probabilities_end_at_a_millionth():
    found = centred_log_probabilities(np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(found, [[3 * np.log(10), -3 * np.log(10)]])


@pytest.mark.parametrize(
    ("value", "spread", "expected"),
    [(1.5e-4, 1e-5, "0.000150"), (0.9e-4, 0.9e-5, "9e-05"), (5e-5, 1.5e-4, "0.00005"), (9.9e6, 10.0, "9900000")],
)
def test_numbers_that_are_written_without_an_exponent(value, spread, expected):
    assert words.number(value, spread) == expected


def test_dots_are_small():
    (dot,) = svg.dots([(1, 1)], svg.across(0, 2), svg.upward(0, 2), "log")
    assert 'r="2.2"' in dot


def test_infinite_ends_of_intervals():
    assert (words.number(float("inf"), 1.0), words.number(float("-inf"))) == ("∞", "-∞")


@pytest.mark.parametrize(("reasons", "said"), [(("few ends",), "few ends"), ((), "its evidence is weak")])
def test_the_sentence_about_a_return_gives_its_own_reasons(reasons, said):
    found = EpisodeReturn(4.0, 1.0, (2.0, 6.0), "caution", reasons)
    value = ov.PolicyValue(
        estimator="auto", value=1.0, gamma=1.0, standard_error=0.0, interval=(1.0, 1.0), effective_sample_size=9.0,
        verdict="caution", reasons=("the same pay",), episode_return=found,
    )  # fmt: skip
    assert words.headline("auto", value) == (
        f"auto puts the return of an episode at 4.0, between 2.0 and 6.0; take it with caution: {said}."
    )
