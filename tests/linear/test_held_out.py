"""The objective of a power step on held-out rows, by hand."""

import numpy as np
import pytest

from ope_vpm.linear.held_out import PowerStep
from ope_vpm.linear.nonnegative import FeatureRows
from tests.linear.batches import Given


def test_the_held_out_objective_by_hand():
    """φ = (1, x), β = (0, 1), τ_t = 2: ½E[τ²] - γE[τ_t τ(x')] - (1-γ)E₀[τ], τ(x') at most the largest τ(x) = 3."""
    rows = Given(np.array([[1.0, 1], [1, 3], [1, -5]]), np.array([[1.0, 2], [1, 9], [1, -1]]))
    start = np.array([[1.0, 2.0], [1.0, 100.0]])
    step = PowerStep(FeatureRows.of(rows), np.full(3, 2.0), 0.5, start.mean(axis=0), start, np.array([3.0, 1.0]))
    expected = (1 + 9 + 0) / 3 / 2 - 0.5 * 2 * (2 + 3 + 0) / 3 - 0.5 * (3 * 2 + 3) / 4
    assert step.objective(np.ones(3, dtype=bool), np.array([0.0, 1.0])) == pytest.approx(expected)


def test_held_out_objectives_fit_on_the_other_folds():
    """With one feature, τ is E[τ_t] over the other folds: ½τ² - τ_t τ on each fold (τ being at most itself)."""
    ones = np.ones((4, 1))
    step = PowerStep(FeatureRows.of(Given(ones, ones)), np.array([1.0, 1, 3, 3]), 1.0, np.zeros(1), None, np.ones(0))
    scores = step.held_out_objectives(np.array([0, 0, 1, 1]), (1e-3,))
    np.testing.assert_allclose(scores[:, 0], [9 / 2 - 1 * 3, 1 / 2 - 3 * 1], rtol=1e-6)


def test_below_one_the_initial_states_pull_the_fit_too():
    """With one feature τ is γE[τ_t] + (1-γ)E₀[1] over the other folds, E₀[1] being 1; the objective as it is."""
    ones, reference, gamma = np.ones((4, 1)), np.array([1.0, 1, 3, 3]), 0.75
    step = PowerStep(FeatureRows.of(Given(ones, ones)), reference, gamma, np.ones(1), ones[:2], np.ones(2))
    scores = step.held_out_objectives(np.array([0, 0, 1, 1]), (1e-3,))
    expected = []
    for own, other in ((1.0, 3.0), (3.0, 1.0)):
        tau = gamma * other + (1 - gamma)
        expected.append(tau**2 / 2 - gamma * own * tau - (1 - gamma) * tau)
    np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-6)
