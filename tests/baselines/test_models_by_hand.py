"""The model-based baselines in worlds of one or two states, and one step of networks whose answers are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.baselines.model import fit, liu_rollout
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope import Problem
from ope_vpm.policy import GaussianPolicy

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")


def test_a_pair_that_nobody_saw_pays_the_mean_of_the_others():
    """Half of the target was never seen. The seen halves pay 2 in state 0, where all begins, and 6 in state 1."""
    data = ov.LoggedDataset.from_arrays([0, 1] * 4, [0, 0] * 4, [2.0, 6.0] * 4, [1, 0] * 4, truncated=[False, True] * 4)
    problem = Problem.pose(data, [[0.5, 0.5]] * 2, gamma=1.0, ignore=QUIET)
    assert liu_rollout(problem, 1, "smooth") == pytest.approx(0.5 * 2 + 0.5 * 4)
    # Unseen pairs lead to either state: 3 then (1/4)·3 + (3/4)·5.
    assert liu_rollout(problem, 2, "smooth") == pytest.approx((3 + 4.5) / 2)


def test_a_rollout_needs_to_know_where_unseen_pairs_lead():
    data = ov.LoggedDataset.from_arrays([0, 1] * 4, [0, 0] * 4, [2.0, 6.0] * 4, [1, 0] * 4, truncated=[False, True] * 4)
    problem = Problem.pose(data, [[0.5, 0.5]] * 2, gamma=1.0, ignore=QUIET)
    with pytest.raises(ValueError, match="must know where unseen pairs lead, and 'auto' does not say"):
        liu_rollout(problem, 1, "auto")


def test_a_rollout_is_as_long_as_an_episode_and_a_simulation_200_steps():
    """States 0 and 1 by turns, which pay 1 and 3, in episodes of three steps: (1 + 3 + 1)/3, or 2 in the long run."""
    data = ov.LoggedDataset.from_arrays(
        [0, 1, 0] * 4, [0] * 12, [1.0, 3.0, 1.0] * 4, [1, 0, 1] * 4, truncated=[False, False, True] * 4
    )
    for method, expected in (("rollout", 5 / 3), ("simulate", 2.0)):
        found = ov.evaluate(data, [[1.0]] * 2, "model", method=method, ignore=QUIET)
        assert found.value == pytest.approx(expected)
        assert found.diagnostics["exact_value"] == pytest.approx(2.0)


class Answers(torch.nn.Module):
    """The same scaled change, reward and log-odds of an end everywhere."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.5, -1.0, -1e9]).expand(*x.shape[:-1], 3)


def test_changes_and_rewards_are_in_units_of_the_log():
    """A change of ½ at a mean of 0.1 and a deviation of 4 is 2.1; a reward of -1 at a mean of 3 and 2 is 1."""
    states = np.random.default_rng(0).standard_normal((40, 1))
    data = ov.LoggedDataset.from_arrays(states, states, 100 * states[:, 0], truncated=np.arange(40) % 10 == 9)
    problem = Problem.pose(data, GaussianPolicy(lambda s: (0 * s, 1.0)), gamma=1.0, ignore=QUIET)
    wide = (np.array([-50.0]), np.array([50.0]))

    def scale(mean: float, std: float) -> Standardiser:
        return replace(Standardiser.unit(1), mean=np.array([mean]), std=np.array([std]))

    model = replace(
        fit(problem.log, members=2, steps=1, seed=0),
        network=Answers(),
        noise=np.zeros((2, 1)),
        change_scale=scale(0.1, 4.0),
        reward_scale=scale(3.0, 2.0),
        bounds=wide,
    )
    here = np.array([[[0.0], [1.0], [2.0]]] * 2)
    after, reward, ended = model.step(here, np.zeros((2, 3, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(after, here + 2.1)
    np.testing.assert_allclose(reward, 1.0)
    assert not ended.any()
