"""Likelihood intervals against a closed form and against brute force."""

import numpy as np
import pytest
from scipy.optimize import minimize

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.likelihood import likelihood_interval, tilted, weighed
from ope_vpm.ope.finite.model import counted_model

MDP = RandomMDP.draw(5, 2, seed=0)


def pose(gamma, episodes=12, seed=1):
    return Problem.pose(MDP.dataset(episodes, 40, MDP.policy(1, 0.5), seed), MDP.policy(2), gamma=gamma)


def test_tilted_weights_of_two_values():
    """ψ = ±1: w = 1 ± t with mean of w log w equal to the radius, and t grows with it."""
    weight = tilted(np.array([1.0, -1.0]), 0.1)
    assert weight.mean() == pytest.approx(1)
    assert np.mean(weight * np.log(weight)) == pytest.approx(0.1)
    assert weight[0] > weight[1]


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_influence_is_the_derivative(gamma):
    problem = pose(gamma)
    model, base = counted_model(problem), np.ones(12)
    at = weighed(problem, model, base)
    for episode in (0, 5):
        more = base.copy()
        more[episode] += 1e-5
        assert (weighed(problem, model, more).value - at.value) / 1e-5 == pytest.approx(at.influence[episode], rel=1e-3)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_ends_are_the_extremes_within_the_ball(gamma):
    """A general optimiser over the weights finds nothing beyond the interval, and nearly reaches it."""
    problem = pose(gamma, episodes=4)
    model, (low, high) = counted_model(problem), likelihood_interval(problem)
    radius = 3.1824**2 / 8  # Student's t with 3 degrees, squared, over twice the episodes

    def free(sign):
        def loss(logs):
            weight = np.exp(logs - logs.max())
            weight = weight / weight.mean()
            over = max(0.0, np.mean(weight * np.log(weight)) - radius)
            return -sign * weighed(problem, model, weight).value + 100 * over

        return -sign * minimize(loss, np.zeros(4), method="Nelder-Mead", options={"maxiter": 250}).fun

    assert free(1.0) == pytest.approx(high, abs=0.01)
    assert free(-1.0) == pytest.approx(low, abs=0.01)


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
