"""Products of ratios have the mean 1; where theirs is lower, those who use them say so."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.baselines.importance_sampling import StepWise, TrajectoryWise, lost_weight
from ope_vpm.ope.problem import Problem


def test_the_mean_of_products_by_hand():
    """30 bandit steps, ten with the action of ratio 1.8 and twenty with that of 0.2: their mean is 22/30.

    Two standard errors, of 1.6·√2/3/√30 each, are more than is missing of 1.
    """
    actions = np.repeat([0, 1], [10, 20])
    log = ov.LoggedDataset.from_arrays(np.zeros(30, dtype=int), actions, actions * 1.0, terminated=np.ones(30, bool))
    found = TrajectoryWise(behaviour=[[0.5, 0.5]]).estimate(log, [[0.9, 0.1]], gamma=1.0, ignore=["constant-columns"])
    assert found.value == pytest.approx(20 * 0.2 / 22)
    error = 1.6 * np.sqrt(2) / 3 / np.sqrt(30)
    assert found.diagnostics["support"] == max(0.0, 1 - 22 / 30 - 2 * error) == 0


def test_what_is_missing_by_time_by_hand():
    """Ratios 0.4, then 0.5: products 0.4 and 0.2 in all episodes, of which 0.6 and 0.8 are missing, without noise."""
    log = ov.LoggedDataset.from_arrays(
        np.zeros(40, dtype=int), np.zeros(40, dtype=int), np.arange(40.0), terminated=np.arange(40) % 2 == 1
    )
    problem = Problem.pose(log, [[1.0]], gamma=0.5, ignore=["constant-columns"])
    assert lost_weight(problem, np.log(np.tile([0.4, 0.5], 20))) == pytest.approx((0.6 + 0.5 * 0.8) / 1.5)


@pytest.mark.parametrize("estimator", [TrajectoryWise, StepWise])
def test_short_episodes_that_stand_for_all_are_not_reliable(estimator):
    """Long episodes whose actions the target never takes again: products vanish but for those of one step."""
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(300) % 10 == 0, 1, 30)
    last = np.zeros(int(lengths.sum()), dtype=bool)
    last[np.cumsum(lengths) - 1] = True
    actions = rng.integers(2, size=len(last))
    rewards = np.repeat(np.where(lengths == 1, 1.0, 0.0), lengths)
    log = ov.LoggedDataset.from_arrays(np.zeros(len(last), dtype=int), actions, rewards, terminated=last)
    ignored = ["constant-columns", "duplicated-episodes"]
    found = estimator(behaviour=[[0.5, 0.5]]).estimate(log, [[0.999, 0.001]], gamma=0.9, ignore=ignored)
    assert found.diagnostics["support"] > 0.3  # of all steps for wiss, whose first ones are there
    assert found.verdict != "reliable"
