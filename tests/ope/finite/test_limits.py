"""Limits of rare rewards: what few events say."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope.finite import doubts
from ope_vpm.ope.finite.doubts import binomial_limits, limits_of_rewards
from ope_vpm.ope.finite.influence import evidence_of_rows
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import Mixed
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.problem import Problem

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes")


def pose(data, target, gamma=1.0, **settings):
    return Problem.pose(data, target, gamma=gamma, ignore=QUIET, **settings)


def test_limits_of_rare_rewards_are_clopper_and_pearsons():
    """3 of 10 have exact limits 0.0667 and 0.6525 (tables), 24 of 60 have 0.2756 and 0.5346; amounts scale along."""
    below, above = binomial_limits(np.repeat([2.0, 0.0], [3, 7]))
    assert (6 - below, 6 + above) == pytest.approx((20 * 0.0667, 20 * 0.6525), abs=0.01)
    below, above = binomial_limits(np.repeat([1.0, 0.0], [24, 36]))
    assert (24 - below, 24 + above) == pytest.approx((60 * 0.2756, 60 * 0.5346), abs=0.05)
    assert binomial_limits(np.zeros(5)) == (0.0, 0.0)


def test_few_events_in_many_episodes_have_garwoods_limits():
    """3 Poisson events: between 0.6187 and 8.7673."""
    below, above = binomial_limits(np.repeat([1.0, 0.0], [3, 99_997]))
    assert (3 - below, 3 + above) == pytest.approx((0.6187, 8.7673), abs=1e-3)


def rare_log(penalised, episodes=40):
    """One state, one action, five steps per episode that pay -1; a penalty of -100 in some episodes."""
    rewards = np.full((episodes, 5), -1.0)
    rewards[:penalised, 2] = -100
    steps = np.zeros(rewards.size, dtype=int)
    return ov.LoggedDataset.from_arrays(
        steps, steps, rewards.ravel(), steps, truncated=np.tile(np.arange(5) == 4, episodes)
    )


def rare_rewards(problem):
    return limits_of_rewards(*evidence_of_rows(problem, Mixed().solved(finite_problem(problem))).paid)


def test_intervals_reach_as_far_as_rare_penalties_may():
    """4 of 40 episodes have -99 more than usual, in 200 steps: the exact limits of 4 in 40 are 1.117 and 9.465."""
    data = rare_log(4)
    problem = pose(data, [[1.0]])
    found = rare_rewards(problem)
    assert found is not None
    assert found.episodes == pytest.approx(4)
    assert found.below == pytest.approx(99 * (9.465 - 4) / 200, rel=1e-3)
    assert found.above == pytest.approx(99 * (4 - 1.117) / 200, rel=1e-3)
    value = ov.evaluate(data, [[1.0]], "vpm", ignore=QUIET)
    assert value.interval[0] == pytest.approx(value.value - found.below)
    assert value.verdict == "caution"
    assert ov.evaluate(rare_log(2), [[1.0]], "vpm", ignore=QUIET).verdict == "unreliable"
    assert rare_rewards(pose(rare_log(30), [[1.0]])) is None


def test_estimates_reach_as_far_as_their_rare_rewards():
    """Whatever its own interval is: below by what more penalties would cost, above by what fewer would."""
    problem = pose(rare_log(4), [[1.0]])
    share, mean = np.full(200, 1 / 200), logged_mean(problem)
    rare = doubts.rare_rewards(problem.data, share)
    found = doubts.with_rare_rewards(problem.data, mean, share).uncertainty.limits
    assert found == pytest.approx((mean.value - rare.below, mean.value + rare.above))
