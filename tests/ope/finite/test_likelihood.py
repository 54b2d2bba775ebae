"""Likelihood intervals against a closed form and against brute force."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.likelihood import likelihood_interval, reweighted, tilted
from ope_vpm.ope.finite.treatments import Restart, Restrict, Smooth

MDP = RandomMDP.draw(5, 2, seed=0)


def pose(gamma, episodes=12, seed=1):
    return Problem.pose(MDP.dataset(episodes, 40, MDP.policy(1, 0.5), seed), MDP.policy(2), gamma=gamma)


def test_tilted_weights_of_two_values():
    """ψ = ±1: w = 1 ± t with mean of w log w equal to the radius, and t grows with it."""
    weight = tilted(np.array([1.0, -1.0]), 0.1)
    assert weight.mean() == pytest.approx(1)
    assert np.mean(weight * np.log(weight)) == pytest.approx(0.1)
    assert weight[0] > weight[1]


@pytest.mark.parametrize("treatment", [Restrict(), Restart(), Smooth()])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_influence_is_the_derivative(gamma, treatment):
    """All pairs are seen, so that no treatment has anything to do."""
    problem, base = pose(gamma), np.ones(12)
    at = reweighted(problem, treatment, base)
    for episode in (0, 5):
        more = base.copy()
        more[episode] += 1e-5
        assert (reweighted(problem, treatment, more).value - at.value) / 1e-5 == pytest.approx(
            at.influence[episode], rel=1e-3
        )


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_ends_are_the_extremes_within_the_ball(gamma):
    """A general optimiser over the weights finds nothing beyond the interval, and nearly reaches it."""
    problem = pose(gamma, episodes=4)
    low, high = likelihood_interval(problem, Restrict())
    radius = 3.1824**2 / 8  # Student's t with 3 degrees, squared, over twice the episodes

    def free(sign):
        def loss(logs):
            weight = np.exp(logs - logs.max())
            weight = weight / weight.mean()
            over = max(0.0, np.mean(weight * np.log(weight)) - radius)
            return -sign * reweighted(problem, Restrict(), weight).value + 100 * over

        return -sign * minimize(loss, np.zeros(4), method="Nelder-Mead", options={"maxiter": 250}).fun

    assert free(1.0) == pytest.approx(high, abs=0.01)
    assert free(-1.0) == pytest.approx(low, abs=0.01)


@pytest.mark.slow
def test_coverage():
    """Of 60 logs, nominal 95 %: at least 50 hold the truth, four standard errors of a binomial below 57."""
    target, truth, held = MDP.policy(2), MDP.value(MDP.policy(2), 0.95), 0
    for seed in range(60):
        data = MDP.dataset(30, 20, MDP.policy(1), seed)
        low, high = ov.evaluate(data, target, "fqe", gamma=0.95, interval="likelihood").interval
        held += low <= truth <= high
    assert held >= 50


def test_points_and_restarts_are_refused():
    ends = ov.LoggedDataset.from_arrays([0, 1], [0, 0], [0.0, 1.0], [1, 0], terminated=[False, True])
    with pytest.raises(ValueError, match="needs finite pairs without restarts"):
        ov.evaluate(ends, [[1.0], [1.0]], "fqe", interval="likelihood", ignore=("constant-columns", "flags-confused"))


def test_ends_that_absorb_are_taken():
    """State 0 pays 1 and half of the time leads to 1, which pays 2; else episodes end. V(0) = 1 + ½·½·2, and γ = ½."""
    states, rewards, following, ends = ([0, 0, 1], [1.0, 1.0, 2.0], [0, 1, 0], [True, False, True])
    data = ov.LoggedDataset.from_arrays(states * 20, [0] * 60, rewards * 20, following * 20, terminated=ends * 20)
    quiet = ("constant-columns", "flags-confused", "duplicated-episodes")
    found = ov.evaluate(data, [[1.0], [1.0]], "fqe", gamma=0.5, interval="likelihood", ignore=quiet)
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.value == pytest.approx(0.75)


def test_limits_of_rare_rewards_hold_for_every_kind_of_interval():
    """4 of 60 episodes pay once in 10 steps: all hold the exact limits of the binomial share 4/60, over 10."""
    rewards = np.zeros((60, 10))
    rewards[:4, 5] = 1
    here, last = np.zeros(600, dtype=np.int64), np.tile(np.arange(10) == 9, 60)
    data = ov.LoggedDataset.from_arrays(here, here, rewards.ravel(), here, truncated=last)
    low, high = stats.beta.ppf([0.025, 0.975], [4, 5], [57, 56]) / 10
    for found in (ov.evaluate(data, [[1.0]], "vpm"), ov.evaluate(data, [[1.0]], "fqe", interval="likelihood")):
        assert found.value == pytest.approx(4 / 600)
        assert found.verdict == "caution"
        assert found.interval[0] <= low
        assert found.interval[1] == pytest.approx(high)
