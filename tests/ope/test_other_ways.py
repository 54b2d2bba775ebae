"""Paths that few logs take: policies without scores, simulated ends, logs whose initial states do not fit in memory."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.ends import Clock
from ope_vpm.ope.adapter.given import Encoder
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.behaviour.action_ratio import action_ratio
from ope_vpm.ope.dynamics.world import _explained as explained_by_model
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import Restrict

QUIET = ("constant-columns", "flags-confused", "duplicated-episodes", "one-row-off")


def test_ratios_of_a_policy_that_has_no_scores():
    """Logistic actions have a density and no Gaussian score; the log has N(0, 2²)."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((3000, 1)), 2 * rng.standard_normal((3000, 1))
    data = ov.LoggedDataset.from_arrays(states, actions, np.zeros(3000), episode=np.arange(3000) // 50)
    one = torch.distributions.TransformedDistribution(
        torch.distributions.Uniform(0, 1), [torch.distributions.SigmoidTransform().inv]
    )

    def logistic(seen):
        shape = (len(seen), 1)
        return torch.distributions.Independent(one.expand(shape), 1)

    problem = Problem.pose(data, ov.as_policy(logistic), ignore=QUIET)
    assert problem.policy.score(states[:2], actions[:2]) is None
    found = action_ratio(problem)
    a = problem.data.actions[:, 0]
    exact = np.exp(-a) / (1 + np.exp(-a)) ** 2 / (np.exp(-(a**2) / 8) / np.sqrt(8 * np.pi))
    assert np.abs(found.ratio - exact / exact.mean()).mean() < 0.05


def test_a_simulated_trajectory_that_ends_pays_nothing_after_it():
    """0 → 1 → end at γ = ½, paying 4 and 8: (4 + ½·8) of the 2 that all of time weighs."""
    data = ov.LoggedDataset.from_arrays(
        [0, 1, 0, 1], [0] * 4, [4.0, 8.0] * 2, [1, 2, 1, 2], terminated=[False, True] * 2
    )
    problem = Problem.pose(data, [[1.0]] * 3, gamma=0.5, ignore=QUIET)
    model = Restrict().complete(finite_problem(problem))
    assert model.rollout(50, seed=0) == pytest.approx(8 / 2)
    assert model.rollout(1, seed=0) == pytest.approx(4)


def test_initial_states_in_batches_are_those_in_memory(monkeypatch):
    rng = np.random.default_rng(0)
    states = rng.standard_normal((60, 2))
    data = ov.LoggedDataset.from_arrays(
        states[:-1], rng.standard_normal((59, 1)), np.zeros(59), states[1:], truncated=np.arange(59) % 3 == 2
    )
    policy = ov.policy.GaussianPolicy(lambda s: (s[:, :1], 1.0))
    problem = Problem.pose(data, policy, gamma=0.9, ignore=(*QUIET, "broken-chain"))
    found = pair_features(problem, 10, 4).states
    whole = found.initial
    monkeypatch.setattr("ope_vpm.ope.adapter.states.KEPT_ROWS", 5)
    monkeypatch.setattr("ope_vpm.ope.adapter.states.BATCH_ROWS", 7)
    parts = list(found.initial_batches())
    assert len(parts) == 3
    np.testing.assert_allclose(np.concatenate([part for _, part in parts]), whole)
    assert [part.stop - part.start for part, _ in parts] == [7, 7, 6]


def test_shares_of_variance_by_hand():
    actual = np.array([0.0, 2.0, 4.0])
    assert explained_by_model(np.array([0.0, 2.0, 4.0]), actual) == 1
    assert explained_by_model(np.full(3, 2.0), actual) == pytest.approx(0)
    assert explained_by_model(np.array([1.0, 2.0, 3.0]), actual) == pytest.approx(1 - (2 / 3) / (8 / 3))
    assert explained_by_model(np.zeros(3), np.full(3, 5.0)) == 1


def discrete_log(columns, space):
    size = len(columns)
    return ov.LoggedDataset.from_arrays(columns, np.arange(size) % 3, np.zeros(size), observation_space=space)


def test_finite_states_are_numbered_in_mixed_radix():
    """(i, j) of 2 × 3 states is 3i + j, times three actions; the absorbing state comes after all pairs."""
    columns = np.array([[0, 0], [0, 2], [1, 1], [1, 2]])
    encoder = Encoder.fit(discrete_log(columns, spaces.MultiDiscrete([2, 3])), 3, absorbs=True)
    assert encoder.states(columns).tolist() == [0, 2, 4, 5]
    assert encoder(columns, np.array([0, 1, 2, 0])).tolist() == [0, 7, 14, 15]
    assert encoder.absorbing().tolist() == [18]
    single = Encoder.fit(discrete_log(np.array([0, 3, 1, 2]), spaces.Discrete(4)), 3, absorbs=False)
    assert single.states(np.array([3, 0])).tolist() == [3, 0]
    with pytest.raises(ValueError, match="invalid"):
        single.states(np.array([4]))


def test_the_absorbing_state_of_vectors_is_far_from_all_others():
    """Two coordinates of the state and one of the action, then 0; the absorbing state is 4√3 along the last axis."""
    rng = np.random.default_rng(0)
    data = ov.LoggedDataset.from_arrays(rng.standard_normal((9, 2)), rng.standard_normal((9, 1)), np.zeros(9))
    encoder = Encoder.fit(data, None, absorbs=True)
    x = encoder(data.observations, data.actions)
    assert x.shape == (9, 4)
    np.testing.assert_array_equal(x[:, 3], 0)
    np.testing.assert_allclose(x[:, :3].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(x[:, :3].std(axis=0), 1)
    np.testing.assert_allclose(encoder.absorbing(), [[0, 0, 0, 4 * np.sqrt(3)]])
    numbered = Encoder.fit(discrete_log(np.array([[0.0], [1.0], [5.0]]), None), 3, absorbs=True)
    found = numbered(np.array([[2.0]]), np.array([1]))
    np.testing.assert_allclose(found, [[0, 0, 1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(numbered.absorbing(), [[0, 0, 0, 0, 8]])


def test_time_within_an_episode_has_deviation_one():
    """Uniform times of a long episode: mean 0 and deviation 1; from -√3 to √3."""
    clock = Clock(1000)
    np.testing.assert_allclose(clock(np.array([0, 500, 1000])), [-np.sqrt(3), 0, np.sqrt(3)])
    assert clock(np.arange(1000)).std() == pytest.approx(1, abs=1e-3)
