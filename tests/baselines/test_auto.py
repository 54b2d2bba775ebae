"""The estimator that chooses, and how estimates are combined."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, GaussianController, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.auto.blend import blend, least_on_simplex
from ope_vpm.ope.auto.estimator import Auto
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.policy import DeterministicPolicy

FAST = {"training_steps": 200, "n_features": 60}


def test_least_on_simplex():
    """diag(1, 2): x ∝ (1, ½) = (⅔, ⅓). A correlated third that is worse in every way gets nothing."""
    np.testing.assert_allclose(least_on_simplex(np.diag([1.0, 2.0])), [2 / 3, 1 / 3], atol=1e-6)
    matrix = np.array([[1.0, 0.0, 1.5], [0.0, 2.0, 0.0], [1.5, 0.0, 4.0]])
    np.testing.assert_allclose(least_on_simplex(matrix), [2 / 3, 1 / 3, 0], atol=1e-6)


def independent(deviations, episodes=10_000):
    """Sums of independent estimates of value 0 with these standard errors."""
    drawn = np.random.default_rng(0).standard_normal((episodes, len(deviations)))
    orthogonal = np.linalg.qr(drawn - drawn.mean(axis=0))[0]
    share = np.full((episodes, 1), 1 / episodes)
    return [EpisodeSums(column[:, None], share) for column in (orthogonal * deviations).T]


def test_agreeing_estimates_are_weighed_by_their_variances():
    """Errors 1 and 2, values equal: shares 4/5 and 1/5, and the error √(16 + 4)/5."""
    mixed = blend([3.0, 3.0], independent([1.0, 2.0]))
    np.testing.assert_allclose(mixed.weights, [0.8, 0.2], atol=1e-6)
    assert mixed.value == pytest.approx(3)
    assert mixed.bias == 0
    assert np.sqrt(np.sum(mixed.sums.influence**2)) == pytest.approx(np.sqrt(20) / 5)


def test_an_estimate_far_from_the_anchor_hardly_counts():
    """Anchor with error 1, the other with none and 10 away: its squared bias is 100 - 1, so it gets 1/(1 + 99)."""
    mixed = blend([0.0, 10.0], independent([1.0, 0.0]))
    np.testing.assert_allclose(mixed.weights, [0.99, 0.01], atol=1e-6)
    assert mixed.bias == pytest.approx(0.1)


def test_trust_forgives_some_variances_of_the_distance():
    """10 away, the distance having variance 1: trusted with 100 of them it has no bias and all the weight."""
    np.testing.assert_allclose(blend([0.0, 10.0], independent([1.0, 0.0]), trust=100).weights, [0, 1], atol=1e-6)
    np.testing.assert_allclose(blend([0.0, 10.0], independent([1.0, 0.0]), trust=51).weights, [0.98, 0.02], atol=1e-6)


def test_sums_of_a_blend_have_its_value_and_influence():
    rng = np.random.default_rng(1)
    sums = [EpisodeSums(rng.random((20, 2)), rng.random((20, 2))) for _ in range(2)]
    mixed = blend([1.0, 1.0], sums)
    first, second = mixed.weights
    assert mixed.sums.ratios.sum() == pytest.approx(first * sums[0].ratios.sum() + second * sums[1].ratios.sum())
    np.testing.assert_allclose(mixed.sums.influence, first * sums[0].influence + second * sums[1].influence)


def test_influence_is_the_derivative_by_an_episode_s_weight():
    rng = np.random.default_rng(2)
    sums = EpisodeSums(rng.random((5, 3)), rng.random((5, 3)))
    more = np.ones((5, 1))
    more[2] += 1e-6
    moved = EpisodeSums(sums.numerator * more, sums.denominator * more)
    assert (moved.ratios.sum() - sums.ratios.sum()) / 1e-6 == pytest.approx(sums.influence[2], rel=1e-4)
    assert sums.influence.sum() == pytest.approx(0)


def test_choices_and_their_reasons():
    mdp = RandomMDP.draw(6, 2, seed=0)
    env = LinearGaussian()
    finite = ov.evaluate(mdp.dataset(30, 40, mdp.policy(1), seed=2), mdp.policy(3), "auto")
    assert finite.diagnostics["chosen"] == "vpm"
    assert finite.value == ov.evaluate(mdp.dataset(30, 40, mdp.policy(1), seed=2), mdp.policy(3), "vpm").value
    data = env.dataset(20, 30, BEHAVIOUR, seed=0)
    assert Auto().choose(Problem.pose(data, TARGET.policy()))[0].name == "vpm"
    greedy = DeterministicPolicy(lambda s: s @ np.array(TARGET.gain)[:, None] + TARGET.shift)
    first, reason = Auto().choose(Problem.pose(data, greedy))
    assert first.name == "lstd-q"
    assert "without densities" in reason
    far = env.dataset(20, 30, GaussianController((0.1, -0.1), -4.0, 0.2), seed=0)
    first, reason = Auto().choose(Problem.pose(far, TARGET.policy()))
    assert first.name == "fqe"
    assert "little overlap" in reason


def test_noisy_dynamics_are_left_to_vpm():
    """The linear system is noisy: no model explains it, and what is returned is vpm's value with vpm's verdict."""
    data = LinearGaussian().dataset(60, 50, BEHAVIOUR, seed=3)
    found = ov.evaluate(data, TARGET.policy(), "auto", **FAST)
    alone = ov.evaluate(data, TARGET.policy(), "vpm", n_features=FAST["n_features"])
    assert found.diagnostics["chosen"] == "vpm"
    assert (found.value, found.interval, found.verdict) == (alone.value, alone.interval, alone.verdict)


def test_no_overlap_is_unreliable_whatever_the_networks_say():
    env = LinearGaussian()
    far = GaussianController((0.0, 0.0), 100.0, 0.1).policy()
    found = ov.evaluate(env.dataset(20, 30, BEHAVIOUR, seed=0), far, "auto", training_steps=20, n_features=30)
    assert found.diagnostics["chosen"] == "fqe"
    assert found.verdict == "unreliable"
