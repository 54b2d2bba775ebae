"""Predicted pairs below γ = 1, and the mixture of closed classes: facts about the solutions themselves."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.ope import Problem
from ope_vpm.ope.finite.influence import finite_influence
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.regression import predicted_pairs
from ope_vpm.ope.finite.solve import solve
from ope_vpm.ope.finite.treatments import treatment

MDP = RandomMDP.draw(60, 4, seed=1)


@pytest.mark.parametrize("gamma", [0.3, 0.6])
def test_the_coefficient_is_that_of_the_solution_it_leads_to(gamma):
    """β is regressed on y = r + γPV of value sweeps; at their fixed point y is the Q of the solution."""
    data = MDP.dataset(30, 20, MDP.policy(2), seed=0)
    model = predicted_pairs(finite_problem(Problem.pose(data, MDP.policy(1), gamma=gamma)))
    found = model.solve()
    assert 0.01 < found.coefficient < 0.99
    assert model.coefficient(found.q) == pytest.approx(found.coefficient, abs=1e-8)
    assert found.value == pytest.approx((1 - gamma) * model.problem.counts.initial @ found.values)


def test_a_mixture_s_residuals_are_honest_about_how_often_a_pair_was_seen():
    """Episodes 0 → 0 → class 1 or class 2, one step in it: p of those that leave 0 reach the class that pays 1.

    Of 12 steps from state 0, 6 stay, 2 reach class 1 and 4 class 2, so g₁ = 1, g₂ = 0, g₀ = ⅓ and v = ½·⅓ + ½·⅓ (half
    of the log's 24 steps are in 0). ψ is g(s) - v, plus for steps from 0, each of two passes, the honest residual
    √(12/11)·(g(s') - ⅓).
    """
    to = [1] * 2 + [2] * 4
    states = np.array([[0, 0, end, end] for end in to]).ravel()
    following = np.array([[0, end, end, end] for end in to]).ravel()
    data = ov.LoggedDataset.from_arrays(
        states, 0 * states, (states == 1).astype(float), following, truncated=np.arange(24) % 4 == 3
    )
    problem = Problem.pose(data, [[1.0]] * 3, ignore=("constant-columns", "flags-confused", "duplicated-episodes"))
    solution = solve(finite_problem(problem), treatment("restrict"))
    assert solution.value == pytest.approx(1 / 3)
    gain = np.array([1 / 3, 1.0, 0.0])
    psi = gain[states] - 1 / 3 + (states == 0) * 2 * np.sqrt(12 / 11) * (gain[following] - 1 / 3)
    expected = psi.reshape(6, 4).sum(axis=1) / 24
    np.testing.assert_allclose(finite_influence(problem, solution).influence, expected, atol=1e-12)


@pytest.fixture(scope="module")
def predicted():
    data = MDP.dataset(30, 20, MDP.policy(2), seed=0)
    return predicted_pairs(finite_problem(Problem.pose(data, MDP.policy(1), gamma=0.6)))


def test_predictions_are_a_weighted_ridge_regression(predicted):
    """Residuals e of y have weighted mean 0 and Σ w φe = 10·Σw²·c, c the coefficients and φ the centred features."""
    y = np.random.default_rng(0).standard_normal(predicted.problem.counts.pairs)
    left = predicted.residuals(y, 0.0)
    weight, coefficients = predicted.weight, predicted.regress[:-1] @ y[predicted.rare]
    assert weight.sum() == pytest.approx(1)
    assert weight @ left == pytest.approx(0, abs=1e-12)
    pull = predicted.centred.T @ (weight * left)
    np.testing.assert_allclose(pull, 10 * (weight @ weight) * coefficients, atol=1e-12)
    np.testing.assert_allclose(weight @ predicted.centred, 0, atol=1e-12)
    assert weight @ left**2 < weight @ (y[predicted.rare] - weight @ y[predicted.rare]) ** 2


def test_the_mean_of_the_other_actions_by_hand(predicted):
    y = np.random.default_rng(1).standard_normal(predicted.problem.counts.pairs)
    state = predicted.problem.counts.state_of_pair
    for place, pair in enumerate(predicted.rare[:10]):
        others = [other for other in np.flatnonzero(state == state[pair]) if other != pair]
        assert predicted.others[place] == len(others) > 0
        assert predicted.mean_of_others(y)[place] == pytest.approx(y[others].mean())


def test_the_error_of_predictions_by_hand(predicted):
    """√(Σ(c·e)² + σ²·(Σm² + (0.05·Σm)²)), from the solution's own distribution, residuals and missing mass."""
    found = predicted.solve()
    left = predicted.residuals(found.q, found.coefficient)
    counts = predicted.mass_by_coefficients(found.distribution)
    missing = predicted.problem.missing * predicted.represented(found.distribution)[:, None]
    unseen = np.sum(missing**2) + (0.05 * np.sum(missing)) ** 2
    expected = np.sum((counts * left) ** 2) + (predicted.weight @ left**2) * unseen
    assert found.error == pytest.approx(np.sqrt(expected))
    assert found.effective_rare_pairs == pytest.approx(1 / np.sum(predicted.weight**2))
    assert found.rare_pairs == len(predicted.rare)


def test_what_is_explained_is_by_pairs_left_out(predicted):
    """Without a rare pair it would be predicted with the residual e/(1 - leverage)."""
    found = predicted.solve()
    y, times = found.q, predicted.problem.counts.times
    leverage = np.einsum("ij,ji->i", predicted.centred, predicted.regress[:-1]) + predicted.weight
    left = predicted.residuals(y, found.coefficient) / np.maximum(1 - leverage, 0.1)
    around = y[predicted.rare] - np.average(y, weights=times)
    expected = 1 - (predicted.weight @ left**2) / (predicted.weight @ around**2)
    assert found.explained == pytest.approx(expected)
    assert 0 < leverage.min() < leverage.max() < 1
