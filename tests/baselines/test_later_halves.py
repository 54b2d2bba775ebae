"""How far the later half of cut trajectories lies from the whole of them."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.baselines.importance_sampling import cut_short
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.ope.problem import Problem


@pytest.mark.parametrize(("paid", "apart"), [([0.0, 3.0, 6.0], 3.0), ([0.0, 1.0, 2.0, 7.0], 2.0)])
def test_the_later_half_of_cut_trajectories_by_hand(paid, apart):
    """Of three steps the last is later, of four the last two: 6 for a mean of 3, and 4.5 for one of 2.5."""
    length = len(paid)
    states, rewards = np.tile(np.arange(length), 6), np.tile(paid, 6)
    cut = np.arange(6 * length) % length == length - 1
    data = ov.LoggedDataset.from_arrays(states, np.zeros(6 * length, dtype=int), rewards, states, truncated=cut)
    problem = Problem.pose(
        data, np.ones((length, 1)), ignore=("broken-chain", "constant-columns", "duplicated-episodes")
    )
    ones = np.ones(len(problem.data))
    sums = EpisodeSums.of_rows(problem.data.episode, problem.data.n_episodes, ones * problem.data.rewards, ones)
    doubts = {each.code: each for each in cut_short(problem, sums, ones, 0.0)}
    assert doubts["disagreement"].size == pytest.approx(apart)
