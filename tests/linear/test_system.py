"""Linear systems solved by hand, at γ < 1 and γ = 1, and what must hold between θ and β."""

import numpy as np
import pytest
from scipy.linalg import eigvals

from ope_vpm.linear.moments import accumulate
from ope_vpm.linear.passes import apply
from ope_vpm.linear.system import (
    FixedPoint,
    LinearSystem,
    gram_penalty,
    penalty_scale,
    power_steps,
    slowest_decay,
    solve_gram,
)
from tests.linear.batches import Given, by_hand, random_rows


def test_two_by_two_system():
    """M = [[2, 1], [0, 1 + 1]] with ridge 1: θ = M⁻¹(4, 2) = (1.5, 1), β = M⁻ᵀ(1, 0) = (0.5, -0.25)."""
    matrix = np.array([[2.0, 1.0], [0.0, 1.0]])
    system = LinearSystem(matrix, np.array([4.0, 2.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    theta, beta = system.solve(1.0)
    assert theta.tolist() == [1.5, 1.0]
    assert beta.tolist() == [0.5, -0.25]
    assert system.source @ theta == beta @ system.reward
    assert system.degrees_of_freedom(1.0) == pytest.approx(1 + 0.5)  # M⁻¹A = [[1, 0.25], [0, 0.5]]


def test_the_system_of_three_rows_by_hand():
    """The rows 1 → 3, 2 → 1, 3 → end, from 1, of `by_hand`."""
    means = accumulate(by_hand()).means()
    half = LinearSystem.of(means, 0.5)
    np.testing.assert_allclose(half.matrix, np.array([[2, 4], [4.5, 11.5]]) / 3)
    np.testing.assert_allclose(half.source, [0.5, 0.5])
    np.testing.assert_allclose(half.scale, [0, 14 / 3])
    one = LinearSystem.of(means, 1.0, restart=True)
    # Δ = (1, 1 - 3), (1, 2 - 1), (1, 3 - 1): the constant's column is E[X].
    np.testing.assert_allclose(one.matrix, np.array([[3, 1], [6, -2 + 2 + 6]]) / 3)
    assert one.source.tolist() == [1, 0]
    # 3β₁ + 6β₂ = 3 and β₁ + 6β₂ = 0 give β = (1.5, -0.25); 3θ₁ + θ₂ = 6 and 6θ₁ + 6θ₂ = 14 give θ = (11/6, 1/2).
    theta, beta = one.solve(0.0)
    np.testing.assert_allclose(beta, [1.5, -0.25])
    np.testing.assert_allclose(theta, [11 / 6, 0.5])


def test_the_chain_of_the_three_rows_has_the_value_of_its_cycle():
    """With one feature for each state, 1 → 3 → (restart at) 1 … visits 1 and 3 in turn: the average reward is 2."""
    states, following = np.eye(3), np.array([[0.0, 0, 1], [1, 0, 0], [0, 0, 0]])

    def with_constant(part, constant):
        return np.hstack([constant[:, None], part[:, :2]])  # the third state is what the others are not

    rows = Given(
        with_constant(states, np.ones(3)), with_constant(following, np.array([1.0, 1, 0])),
        reward=np.array([1.0, 2, 3]), first=with_constant(states[:1], np.ones(1)),
    )  # fmt: skip
    means = accumulate(rows).means()
    theta, beta = LinearSystem.of(means, 1.0, restart=True).solve(0.0)
    assert theta[0] == pytest.approx(2)
    tau, _ = apply(rows, beta, theta, 1.0, means.initial)
    np.testing.assert_allclose(tau, [1.5, 0, 1.5], atol=1e-12)
    # Discounted from 1: 1, then 3, then nothing: (1-γ)(1 + γ·3).
    half = LinearSystem.of(means, 0.5)
    assert half.source @ half.solve(0.0)[0] == pytest.approx(0.5 * 2.5)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_value_is_the_weighted_reward_and_the_residual_has_weighted_mean_zero(gamma):
    rows = random_rows(200, 6, 4)
    means = accumulate(rows).means()
    system = LinearSystem.of(means, gamma, restart=True)
    theta, beta = system.solve(1e-2)
    tau, residual = apply(rows, beta, theta, gamma, means.initial)
    assert np.mean(tau * rows.reward) == pytest.approx(system.source @ theta)
    # E[X(r - Δθ)] = λΛθ, so that the mean of τ·residual is what the ridge leaves: λβᵀΛθ.
    assert np.mean(tau * residual) == pytest.approx(1e-2 * beta @ (system.scale * theta))
    if gamma == 1:
        assert tau.mean() == pytest.approx(1)


def test_features_that_are_zero_still_have_a_pivot():
    assert penalty_scale(np.array([1.0, 0.0, 1e-7, 2.0])).tolist() == [0, 1, 1, 2]
    assert gram_penalty(np.diag([1.0, 0.0, 3.0]), 0.5).tolist() == [0, 0, 1.5]


def test_a_singular_system_has_no_finite_solution():
    system = LinearSystem(np.zeros((2, 2)), np.ones(2), np.ones(2), np.zeros(2))
    assert not np.isfinite(system.solve(1.0)[0]).all()


def test_solving_does_not_mind_features_of_very_different_size():
    rng = np.random.default_rng(0)
    size = np.array([1.0, 1e-6, 1e4])
    root = rng.standard_normal((50, 3))
    gram, source = root.T @ root, rng.standard_normal((3, 2))
    expected = np.linalg.solve(gram + 0.5 * np.eye(3), source) / size[:, None]
    found = solve_gram(gram * np.outer(size, size), 0.5 * size**2, source * size[:, None])
    np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_power_steps_go_to_the_solution_of_the_system(gamma):
    """Two states, 0 → 1 with probability 0.3 and back with 0.6: the stationary probabilities are ⅔ and ⅓."""
    here = np.repeat([0, 1], 10)
    there = np.array([1] * 3 + [0] * 7 + [0] * 6 + [1] * 4)
    phi, phi_next = (np.stack([np.ones(20), state], axis=1) for state in (here, there))
    means = accumulate(Given(phi, phi_next, first=np.array([[1.0, 0.0]]))).means()
    equation = FixedPoint(gamma, means.initial, np.zeros(2))
    *_, (beta, change) = power_steps(means, equation, [1.0] * 300)
    assert change < 1e-9
    np.testing.assert_allclose(beta, LinearSystem.of(means, gamma, scale=np.zeros(2)).solve(0.0)[1], atol=1e-8)
    probability = np.array([[0.7, 0.3], [0.6, 0.4]])
    if gamma == 1:
        np.testing.assert_allclose([beta[0] / 2, beta.sum() / 2], [2 / 3, 1 / 3], atol=1e-8)
        assert slowest_decay(means, equation) == pytest.approx(sorted(abs(eigvals(probability)))[0], abs=1e-8)
    else:
        assert slowest_decay(means, equation) == pytest.approx(0.9, abs=1e-8)


def test_halves_of_features_by_hand():
    """Features on their own axes: a half has the constant, worth 1, and its two of the four, worth 4 in all."""
    system = LinearSystem(np.eye(5), np.array([1.0, 0, 2, 0, 2]), np.ones(5), np.array([0.0, 1, 1, 1, 1]))
    found = [float(half.source @ half.solve(0.0)[0]) for half in system.halves()]
    assert [len(half.matrix) for half in system.halves()] == [3] * 4
    assert found[0] + found[1] == pytest.approx(2 + 4)
    assert found[2] + found[3] == pytest.approx(2 + 4)
