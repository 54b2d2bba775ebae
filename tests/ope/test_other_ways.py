"""Paths that few logs take: policies without scores, simulated ends, logs whose initial states do not fit in memory."""

import numpy as np
import pytest
import torch

import ope_vpm as ov
from ope_vpm.ope import Problem
from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.behaviour.action_ratio import action_ratio
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
    monkeypatch.setattr("ope_vpm.ope.adapter.pair_features.KEPT_ROWS", 5)
    monkeypatch.setattr("ope_vpm.ope.adapter.pair_features.BATCH_ROWS", 7)
    parts = list(found.initial_batches())
    assert len(parts) == 3
    np.testing.assert_allclose(np.concatenate([part for _, part in parts]), whole)
    assert [part.stop - part.start for part, _ in parts] == [7, 7, 6]
