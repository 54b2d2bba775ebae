"""Several closed classes at γ = 1: how much of the log's mass ends in each of them is uncertain."""

from functools import cache

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.cross_fit import counted_fit, mixture_sums
from ope_vpm.ope.finite.likelihood import reweighted
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import Restart, Restrict

STEPS = 12
REWARD = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
TARGET = np.tile([0.8, 0.2], (6, 1))
KERNEL = np.zeros((6, 2, 6))
"""States 0 and 1 are transient; {2, 3} and {4, 5} are never left."""
KERNEL[0] = [[0.2, 0.5, 0.2, 0, 0.1, 0], [0.2, 0.3, 0, 0, 0.5, 0]]
KERNEL[1] = [[0.3, 0.1, 0.3, 0.1, 0.2, 0], [0.1, 0.3, 0.1, 0, 0.5, 0]]
for here, there in ((2, 3), (3, 2), (4, 5), (5, 4)):
    KERNEL[here, :, there], KERNEL[here, :, here] = 0.6, 0.4


@cache
def log(seed, episodes=40):
    """Episodes from state 0 with both actions equally likely, cut after `STEPS` steps."""
    rng = np.random.default_rng(seed)
    columns = []
    for _ in range(episodes):
        state = 0
        for time in range(STEPS):
            action = int(rng.integers(2))
            after = int(rng.choice(6, p=KERNEL[state, action]))
            columns.append((state, action, REWARD[state], after, time == STEPS - 1))
            state = after
    observations, actions, rewards, following, truncated = map(np.array, zip(*columns, strict=True))
    return ov.LoggedDataset.from_arrays(observations, actions, rewards, following, truncated=truncated)


def expected(begins_after):
    """The mean of the target's gain over the distribution of the states before, or after, the logged steps."""
    logged, target = KERNEL.mean(axis=1), np.einsum("sa,sat->st", TARGET, KERNEL)
    gain = np.linalg.matrix_power(target, 4096) @ REWARD
    at = [np.eye(6)[0] @ np.linalg.matrix_power(logged, time + begins_after) for time in range(STEPS)]
    return float(np.mean(at, axis=0) @ gain)


@pytest.mark.parametrize("name", ["fqe", "dr", "model", "mwl", "mql", "gendice", "wdr", "vpm"])
def test_intervals_hold_the_share_of_each_class(name):
    """40 logs: with 95 % intervals, fewer than 33 covered has a probability below 0.001."""
    truth = expected(begins_after=name == "vpm")
    found = [ov.evaluate(log(seed), TARGET, estimator=name) for seed in range(40)]
    assert sum(each.interval[0] <= truth <= each.interval[1] for each in found) >= 33
    spread = np.std([each.value for each in found], ddof=1)
    assert np.mean([each.standard_error for each in found]) == pytest.approx(spread, rel=0.25)
    assert all(each.verdict == "caution" for each in found)
    assert any("2 closed classes" in reason for reason in found[0].reasons)


@pytest.mark.parametrize("treatment", [Restrict(), Restart()])
def test_influence_is_the_derivative_by_each_episode_s_weight(treatment):
    problem, base = Problem.pose(log(0), TARGET), np.ones(40)
    at = reweighted(problem, treatment, base)
    for episode in range(5):
        more = base + 1e-6 * (np.arange(40) == episode)
        slope = (reweighted(problem, treatment, more).value - at.value) / 1e-6
        assert slope == pytest.approx(at.influence[episode], rel=1e-4, abs=1e-8)


def test_the_sums_over_episodes_are_the_derivative():
    """The same for the sums that estimators take: rewards within a class are equal, so that nothing else adds."""
    problem, treatment = Problem.pose(log(1), TARGET), Restrict()
    finite = finite_problem(problem)
    mixture, counts = treatment.complete(finite).solve().mixture, finite.counts
    gain = mixture.gain[counts.initial_states]
    sums = mixture_sums(problem, mixture.influence(counts), mixture.ratio[counts.pair], gain)
    np.testing.assert_allclose(sums.influence, reweighted(problem, treatment, np.ones(40)).influence, atol=1e-12)
    assert sums.ratios == pytest.approx([0.0, 0.0], abs=1e-12)


def test_gains_and_passes_by_hand():
    """From 0: ½ stays, ¼ to each of the classes {1} and {2}; so 2 passes, and half of the reward of each class."""
    data = ov.LoggedDataset.from_arrays(
        [0, 0, 0, 0, 1, 2], [0] * 6, [0.0, 0, 0, 0, 1, 3], [0, 0, 1, 2, 1, 2], truncated=[0, 0, 1, 1, 1, 1]
    )
    problem = Problem.pose(data, [[1.0]] * 3, ignore=("constant-columns", "flags-confused", "duplicated-episodes"))
    solution = Restrict().complete(finite_problem(problem)).solve()
    np.testing.assert_allclose(solution.mixture.gain, [2, 1, 3])
    np.testing.assert_allclose(solution.mixture.ratio, [(4 / 6 * 2) / (4 / 6), 0, 0])
    assert solution.value == pytest.approx(4 / 6 * 2 + 1 / 6 * 1 + 1 / 6 * 3)
    assert solution.mixture.value == pytest.approx(solution.value)


def test_one_closed_class_has_no_mixture():
    problem = Problem.pose(log(0), TARGET, gamma=0.9)
    assert Restrict().complete(finite_problem(problem)).solve().mixture is None
    assert counted_fit(problem).mixture is None
