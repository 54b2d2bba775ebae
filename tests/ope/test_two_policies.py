"""When episodes are told apart as those of two policies, and the overlap of actions that is reported."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

import ope_vpm as ov
from ope_vpm.baselines.onestep import OneStep
from ope_vpm.ope import Problem
from ope_vpm.ope.behaviour.action_ratio import known_overlap
from ope_vpm.ope.behaviour.gaussian import CloneRows, tell_apart
from ope_vpm.ope.behaviour.rows import Design, Draws
from ope_vpm.ope.inference.doubts import SUPPORT
from ope_vpm.policy import CategoricalPolicy, DeterministicPolicy, GaussianPolicy

EPISODES, LENGTH = 60, 10
EPISODE = np.repeat(np.arange(EPISODES), LENGTH)
CONSTANT = CloneRows(Design.table(np.ones((len(EPISODE), 1)), 0), EPISODE < 0, EPISODE)
NOISE = np.random.default_rng(1).standard_normal(len(EPISODE))


def told_apart(z):
    return tell_apart(Draws.unclipped(z[:, None]), CONSTANT)


def gain(z):
    """The log-likelihood that the best two Gaussians and a share have more than the best one, by scipy."""
    by_episode = z.reshape(EPISODES, LENGTH)

    def surprise(x):
        logs = [norm.logpdf(by_episode, x[k], np.exp(x[k + 2])).sum(axis=1) for k in (0, 1)]
        return -np.logaddexp(logs[0] - np.logaddexp(0, x[4]), logs[1] - np.logaddexp(0, -x[4])).sum()

    found = minimize(surprise, [-0.5, 0.5, 0, 0, 0], method="BFGS")
    return -found.fun - norm.logpdf(z, z.mean(), z.std()).sum()


def test_two_policies_must_gain_what_the_information_criterion_asks_for():
    """A mean, a deviation and a share more: ½·3·ln 600 = 9.6, found by bisection of how far apart they are."""
    sign = np.where(EPISODE % 2, 1.0, -1.0)
    low, high = 0.0, 2.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if told_apart(middle * sign + NOISE) is None else (low, middle)
    assert gain(high * sign + NOISE) == pytest.approx(1.5 * np.log(len(EPISODE)), abs=0.3)


@pytest.mark.parametrize("others", [1, 3])
@pytest.mark.parametrize("near", [True, False])
def test_a_policy_of_less_than_a_fiftieth_is_none(others, near):
    """1 of 60 episodes is too few to be a policy, 3 are enough; whether they or the rest are near the target."""
    z = np.where((others > EPISODE) == near, 0.0, 3.0) + 0.5 * NOISE
    second = told_apart(z)
    assert (second is None) == (others == 1)
    if second is not None:
        assert second.mean() == pytest.approx(1 - others / EPISODES if near else others / EPISODES, abs=1e-6)


def rows(actions):
    states = np.random.default_rng(2).standard_normal((len(actions), 1))
    cut = np.arange(len(actions)) % 10 == 9
    return ov.LoggedDataset.from_arrays(states, actions, states[:, 0], truncated=cut)


def test_the_overlap_is_known_with_densities_and_without():
    """Actions by the target itself overlap entirely, and so does one in their middle; far from them nothing does."""
    data = rows(NOISE[:200, None])
    quiet = ("one-row-off", "flags-confused")
    for mean, expected in ((0.0, 1.0), (40.0, 0.0)):
        policy = GaussianPolicy(lambda s, mean=mean: (0 * s + mean, 1.0))
        assert known_overlap(Problem.pose(data, policy, gamma=0.9, ignore=quiet)) == pytest.approx(expected, abs=0.1)
        still = DeterministicPolicy(lambda s, mean=mean: 0 * s + mean)
        assert known_overlap(Problem.pose(data, still, gamma=0.9, ignore=quiet)) == expected


def test_the_overlap_of_one_step_is_at_most_one():
    """Logged with probability ½ each time, and certain under the target: every ratio is 2."""
    states = np.arange(40.0)[:, None] % 7
    data = ov.LoggedDataset.from_arrays(
        states,
        np.zeros(40, int),
        states[:, 0],
        truncated=np.arange(40) % 10 == 9,
        behaviour_log_prob=np.full(40, np.log(0.5)),
    )
    policy = CategoricalPolicy(lambda s: np.tile([1.0, 0.0], (len(s), 1)), 2)
    problem = Problem.pose(data, policy, gamma=1.0, ignore=("constant-columns", "duplicated-episodes"))
    found = OneStep(behaviour="logged").find(problem)
    assert found.value == pytest.approx(states.mean())
    assert found.size(SUPPORT) == 0
