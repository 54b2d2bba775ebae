"""The estimator that chooses, and the weights of the least variance."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.baselines.wdr import least_on_simplex
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, GaussianController, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.auto.estimator import Auto
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.policy import DeterministicPolicy

FAST = {"training_steps": 200, "n_features": 60}


def test_least_on_simplex():
    """diag(1, 2): x ∝ (1, ½) = (⅔, ⅓). A correlated third that is worse in every way gets nothing."""
    np.testing.assert_allclose(least_on_simplex(np.diag([1.0, 2.0])), [2 / 3, 1 / 3], atol=1e-6)
    matrix = np.array([[1.0, 0.0, 1.5], [0.0, 2.0, 0.0], [1.5, 0.0, 4.0]])
    np.testing.assert_allclose(least_on_simplex(matrix), [2 / 3, 1 / 3, 0], atol=1e-6)


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
    alone = ov.evaluate(mdp.dataset(30, 40, mdp.policy(1), seed=2), mdp.policy(3), "vpm")
    share = finite.diagnostics["share_of_one_step"]  # vpm's value is shrunk, and its interval stays
    assert finite.value == pytest.approx((1 - share) * alone.value + share * finite.diagnostics["one_step"])
    assert finite.interval == pytest.approx(alone.interval)
    data = env.dataset(20, 30, BEHAVIOUR, seed=0)
    assert Auto().choose(Problem.pose(data, TARGET.policy()))[0].name == "mixture"
    greedy = DeterministicPolicy(lambda s: s @ np.array(TARGET.gain)[:, None] + TARGET.shift)
    first, reason = Auto().choose(Problem.pose(data, greedy))
    assert first.name == "lstd-q"
    assert "without densities" in reason
    far = env.dataset(20, 30, GaussianController((0.1, -0.1), -4.0, 0.2), seed=0)
    first, reason = Auto().choose(Problem.pose(far, TARGET.policy()))
    assert first.name == "fqe"
    assert "little overlap" in reason


def test_noisy_dynamics_are_left_to_the_mixture():
    """The linear system is noisy: no model explains it, and what is returned lies between vpm and LSTD-Q."""
    data = LinearGaussian().dataset(60, 50, BEHAVIOUR, seed=3)
    found = ov.evaluate(data, TARGET.policy(), "auto", **FAST)
    alone = ov.evaluate(data, TARGET.policy(), "vpm", n_features=FAST["n_features"])
    other = ov.evaluate(data, TARGET.policy(), "fqe", solver="linear", n_features=FAST["n_features"])
    assert found.diagnostics["chosen"] == "mixture"
    share = found.diagnostics["shares"][0]
    assert found.value == pytest.approx(share * alone.value + (1 - share) * other.value)


def test_no_overlap_is_unreliable_whatever_the_networks_say():
    env = LinearGaussian()
    far = GaussianController((0.0, 0.0), 100.0, 0.1).policy()
    found = ov.evaluate(env.dataset(20, 30, BEHAVIOUR, seed=0), far, "auto", training_steps=20, n_features=30)
    assert found.diagnostics["chosen"] == "fqe"
    assert found.verdict == "unreliable"
