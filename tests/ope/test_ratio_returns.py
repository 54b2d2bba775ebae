"""Ratios that are given: their value, and the return of an episode where they reach an end."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.q.linear import find_lstd
from ope_vpm.ope.ratio.estimator import ratio_estimate
from ope_vpm.policy import CategoricalPolicy


def posed():
    """20 episodes of 5 or 10 steps, each of which ends."""
    rng = np.random.default_rng(0)
    last = np.zeros(150, dtype=bool)
    last[np.cumsum([5, 10] * 10) - 1] = True
    states = rng.standard_normal((150, 1))
    data = ov.LoggedDataset.from_arrays(states, rng.integers(2, size=150), states[:, 0] + 1, terminated=last)
    policy = CategoricalPolicy(lambda s: np.full((len(s), 2), 0.5), 2)
    return Problem.pose(data, policy, gamma=1.0, ignore=("flags-confused", "one-row-off"))


def estimate(problem, zeta):
    return ratio_estimate(find_lstd(problem, 4, None, 1, fourier=0), zeta)


def test_a_ratio_of_one_is_the_logged_mean():
    """150 rows, 20 ends: the return is the mean of the logged ones. A ratio of 2 is the same."""
    problem = posed()
    rewards = problem.data.rewards
    for level in (1.0, 2.0):
        found = estimate(problem, np.full(150, level))
        assert found.value == pytest.approx(rewards.mean())
        assert found.per_episode.value == pytest.approx(rewards.sum() / 20)


def test_a_ratio_that_reaches_no_end_has_no_return():
    problem = posed()
    zeta = 1.0 - problem.data.terminated
    found = estimate(problem, zeta)
    assert found.value == pytest.approx(problem.data.rewards[zeta > 0].mean())
    assert np.isnan(found.per_episode.value)
