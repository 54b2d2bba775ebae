"""Shrinkage towards the one-step ratio: by hand, against `onestep`, and over many logs."""

from dataclasses import replace

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.baselines.onestep import OneStep
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.shrinkage import one_step, ratio_of_actions, share_of_other, shrunk
from ope_vpm.ope.inference.estimate import RawEstimate, RewardRange
from ope_vpm.ope.inference.uncertainty import Bootstrap, Derived, EpisodeSums
from ope_vpm.ope.vpm.estimator import VPMEstimator

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off", "broken-chain")
ANYTHING = RewardRange(-10.0, 10.0)


def estimate(value, error):
    """An estimate with two episodes and a given standard error."""
    influence = np.array([1.0, -1.0]) * error / np.sqrt(2)
    return RawEstimate(value=value, uncertainty=Bootstrap(episodes=EpisodeSums.of_influence(value, influence)))


@pytest.mark.parametrize(
    ("value", "errors", "share"),
    [
        (3.0, (2.0, 1.0, 5.0), 0.75),  # e = 4 - 1 = 3, (3 - 2)² = 1
        (5.0, (2.0, 1.0, 5.0), 0.25),  # (5 - 2)² = 9
        (2.0, (2.0, 1.0, 5.0), 1.0),  # nothing lies between
        (3.0, (1.0, 1.0, 5.0), 0.0),  # not the noisier one
        (3.0, (9.0, 1.0, 0.5), 0.75),  # at most 4 times the logged mean's 0.5: 2
        (3.0, (9.0, 3.0, 0.5), 0.0),
        (15.0, (9.0, 1.0, 5.0), 80 / 144),  # beyond 10 counts as 10: e = 80, 8² = 64
    ],
)
def test_how_far_to_go(value, errors, share):
    own, other, logged = errors
    found = share_of_other(estimate(value, own), estimate(2.0, other), estimate(0.0, logged), ANYTHING)
    assert found == pytest.approx(share)


def test_where_an_error_is_unknown_nothing_moves():
    known, unknown = estimate(3.0, 2.0), RawEstimate(value=2.0)
    assert share_of_other(unknown, known, known, ANYTHING) == 0
    assert share_of_other(known, unknown, known, ANYTHING) == 0
    assert share_of_other(known, known, unknown, ANYTHING) == 0
    assert share_of_other(known, estimate(float("nan"), 1.0), known, ANYTHING) == 0


def test_the_action_ratio_of_a_bandit():
    """Counts 4 and 1 of three actions, one smoothed: b̂ = (4 + ⅓)/6 and (1 + ⅓)/6."""
    data = ov.LoggedDataset.from_arrays(
        [0] * 5, [0, 0, 0, 0, 1], [0.0, 0, 0, 0, 6], [0] * 5, truncated=np.ones(5, dtype=bool)
    )
    found = ratio_of_actions(finite_problem(Problem.pose(data, [[0.5, 0.3, 0.2]], ignore=QUIET)))
    ratio = np.array([0.5 * 18 / 13, 0.3 * 18 / 4])
    np.testing.assert_allclose(found, ratio / (0.8 * ratio[0] + 0.2 * ratio[1]))


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_the_other_estimate_is_onestep(gamma):
    mdp = RandomMDP.draw(12, 3, seed=4)
    problem = Problem.pose(mdp.dataset(30, 20, mdp.policy(1), seed=5), mdp.policy(2), gamma=gamma)
    ours, theirs = one_step(problem), OneStep().find(problem)
    assert ours.value == pytest.approx(theirs.value, rel=1e-9)
    assert ours.sums.standard_error == pytest.approx(theirs.sums.standard_error, rel=1e-9)


def logged(seed):
    """A small task of which all pairs were seen."""
    mdp = RandomMDP.draw(6, 2, seed=seed)
    return mdp.dataset(30, 40, mdp.policy(1), seed=2), mdp.policy(3)


def test_the_value_moves_by_less_than_half_its_error_and_the_interval_stays():
    moved = []
    for seed in range(12):
        data, target = logged(seed)
        found = ov.evaluate(data, target, ["auto", "vpm"], ignore=QUIET)
        auto, vpm, diagnostics = found["auto"], found["vpm"], found["auto"].diagnostics
        share = diagnostics["share_of_one_step"]
        assert 0 <= share <= 1
        assert auto.value == pytest.approx((1 - share) * vpm.value + share * diagnostics["one_step"])
        assert abs(auto.value - vpm.value) <= vpm.standard_error / 2
        assert auto.interval == pytest.approx(vpm.interval)
        assert (auto.verdict, auto.standard_error) == (vpm.verdict, vpm.standard_error)
        moved.append(share > 0)
    assert sum(moved) >= 3


def test_an_impossible_value_is_left_for_the_verdict():
    data, target = logged(0)
    problem = Problem.pose(data, target, ignore=QUIET)
    beyond = replace(VPMEstimator().find(problem), value=100.0)
    assert shrunk(problem, beyond).value == 100


def test_the_interval_of_a_moved_value_holds_it():
    data, target = logged(0)
    problem = Problem.pose(data, target, ignore=QUIET)
    before = estimate(1.0, 0.5)
    of = Bootstrap(episodes=before.sums)
    error, (low, high) = of.interval(1.0, _TwoEpisodes(problem), 0)
    unmoved = Derived(of=of, at=1.0, limits=(1.0, 1.0))
    assert unmoved.interval(1.0, _TwoEpisodes(problem), 0) == (error, (low, high))
    moved = Derived(of=of, at=1.0, limits=(high + 1, high + 1))
    assert moved.interval(high + 1, _TwoEpisodes(problem), 0) == (error, (low, high + 1))
    assert unmoved.interval(1.0, _TwoEpisodes(problem), 0, 0.2) == of.interval(1.0, _TwoEpisodes(problem), 0, 0.2)


class _TwoEpisodes:
    """As much of a log as a bootstrap needs."""

    def __init__(self, problem):
        self.data, self.episodes = problem.data, np.arange(2)
