"""The paper's equations against numbers worked out by hand, autograd, and its two theorems."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ope_vpm.chain import objective
from ope_vpm.chain.divergence import DIVERGENCES, divergence
from ope_vpm.chain.monitor import inverse_square_root, schedule

TAU, TAU_NEXT, TAU_REF = np.array([1.0, 2.0]), np.array([3.0, 0.5]), np.array([0.5, 1.5])


def random_chain(states: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A kernel with all entries positive, and its stationary distribution by the eigenvector."""
    kernel = rng.dirichlet(np.ones(states), size=states)
    value, vector = np.linalg.eig(kernel.T)
    stationary = np.real(vector[:, np.argmax(np.real(value))])
    return kernel, stationary / stationary.sum()


def test_equations_by_hand():
    # ½·mean(1, 4) = 1.25; mean(0.5·3, 1.5·0.5) = 1.125; mean τ = 1.5, so the penalty is 2·0.5² = 0.5
    assert objective.variational_ratio_power(TAU, TAU_NEXT, TAU_REF) == pytest.approx(0.125)
    assert objective.regularized_ratio(TAU, TAU_NEXT, TAU_REF, lam=2.0) == pytest.approx(0.625)
    # 2·(2·0.3·0.5 - 0.09) = 0.42
    assert objective.saddle_ratio(TAU, TAU_NEXT, TAU_REF, 0.3, lam=2.0) == pytest.approx(0.545)
    # 1.25 - 0.75·mean(0.5, 3) - 0.25·1.125 + 0.42
    damped = objective.damped_saddle_ratio(TAU, TAU_NEXT, TAU_REF, 0.3, lam=2.0, alpha=0.25)
    assert damped == pytest.approx(1.25 - 1.3125 - 0.28125 + 0.42)
    # 1.25 - 0.9·1.125 - 0.1·mean(4, 6) + 0.5
    initial = np.array([4.0, 6.0])
    discounted = objective.discounted_variational_ratio_power(TAU, TAU_NEXT, initial, TAU_REF, gamma=0.9, lam=2.0)
    assert discounted == pytest.approx(1.25 - 1.0125 - 0.5 + 0.5)


def test_the_saddle_is_the_penalty_at_its_best_v():
    best_v = TAU.mean() - 1
    saddle = objective.saddle_ratio(TAU, TAU_NEXT, TAU_REF, best_v, lam=2.0)
    assert saddle == pytest.approx(objective.regularized_ratio(TAU, TAU_NEXT, TAU_REF, lam=2.0))
    for other in (best_v - 0.1, best_v + 0.1):
        assert objective.saddle_ratio(TAU, TAU_NEXT, TAU_REF, other, lam=2.0) < saddle


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_stated_gradients_are_autograds(alpha):
    rng = np.random.default_rng(0)
    tau, tau_next, tau_ref = (torch.tensor(rng.uniform(0.1, 3, 7), requires_grad=True) for _ in range(3))
    v = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    loss = objective.damped_saddle_ratio(tau, tau_next, tau_ref.detach(), v, lam=1.7, alpha=alpha)
    by_autograd = torch.autograd.grad(loss, (tau, tau_next, v))
    stated = objective.tau_v_gradients(tau, tau_ref, v, lam=1.7, alpha=alpha)
    for left, right in zip(by_autograd, stated, strict=True):
        torch.testing.assert_close(left, right.detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
def test_the_general_loss_contains_the_others(name):
    phi = divergence(name)
    nu, nu_next, nu_initial = (phi.dual(values) for values in (TAU, TAU_NEXT, np.array([4.0, 6.0])))
    plain = objective.damped_discounted_loss(nu, nu_next, None, TAU_REF, phi, alpha=1.0, gamma=1.0)
    assert plain == pytest.approx(objective.general_ratio_power(nu, nu_next, phi.dual(TAU_REF), phi))
    if name == "quadratic":
        loss = objective.damped_discounted_loss(nu, nu_next, nu_initial, TAU_REF, phi, alpha=1.0, gamma=0.9)
        whole = objective.discounted_variational_ratio_power(TAU, TAU_NEXT, nu_initial, TAU_REF, 0.9, lam=0.0)
        assert loss == pytest.approx(whole)


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
def test_divergences_are_conjugate_pairs(name):
    phi = divergence(name)
    tau = np.linspace(0.2, 4, 9)
    nu = phi.dual(tau)
    np.testing.assert_allclose(phi.ratio(nu), tau, rtol=1e-12)
    np.testing.assert_allclose(
        phi.conjugate(nu), tau * nu - phi.phi(tau), rtol=1e-12
    )  # Fenchel and Young, with equality
    step = 1e-6
    np.testing.assert_allclose((phi.phi(tau + step) - phi.phi(tau - step)) / (2 * step), nu, atol=1e-8)
    if name != "quadratic":
        assert phi.phi(np.ones(1))[0] == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
def test_the_variational_optimum_is_the_ratio_and_its_value_the_divergence(name):
    phi = divergence(name)
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25])
    best = phi.dual(q / p)

    of_p, of_q = np.repeat(np.arange(3), (20 * p).round().astype(int)), np.repeat(np.arange(3), (20 * q).astype(int))

    def loss(nu):
        return objective.f_divergence(nu[of_p], nu[of_q], phi)  # samples of 20 with just these frequencies

    assert loss(best) == pytest.approx(-p @ phi.phi(q / p))
    for direction in np.eye(3):
        for size in (-1e-3, 1e-3):
            assert loss(best + size * direction) > loss(best)


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
@pytest.mark.parametrize("lam", [1e-3, 1.0, 100.0, np.inf])
def test_theorem_1_normalisation_carries_over(name, lam):
    rng = np.random.default_rng(1)
    for states in (2, 5, 30):
        kernel, _ = random_chain(states, rng)
        p = rng.dirichlet(np.ones(states))
        tau = rng.dirichlet(np.ones(states)) / p
        step = objective.power_ratio(tau, p, kernel)
        solution = objective.regularized_minimiser(step, p, lam, divergence(name))
        np.testing.assert_allclose(solution, step, rtol=1e-9)
        assert p @ solution == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
@pytest.mark.parametrize("lam", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("mass", [0.8, 1.3])
def test_the_regularised_minimiser_is_where_the_gradient_vanishes(name, lam, mass):
    phi = divergence(name)
    p = np.array([0.2, 0.3, 0.5])
    target = mass * np.array([2.0, 1.0, 0.6])
    tau = objective.regularized_minimiser(target, p, lam, phi)
    nu = torch.tensor(phi.dual(tau), requires_grad=True)
    weight, pull = torch.tensor(p), torch.tensor(p * target)
    ratio = phi.ratio(nu)
    loss = (weight * phi.conjugate(nu)).sum() - (pull * nu).sum() + lam * ((weight * ratio).sum() - 1) ** 2
    (gradient,) = torch.autograd.grad(loss, nu)
    np.testing.assert_allclose(gradient.numpy(), 0, atol=1e-9)


def test_closed_form_steps_by_hand():
    """p = (½, ½), μ = pτ = (¾, ¼); 0 → 1 always, 1 → 0 and 1 equally: 𝒯μ = (⅛, ⅞), so τ' = (¼, 7/4)."""
    kernel, p, tau = np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([0.5, 0.5]), np.array([1.5, 0.5])
    np.testing.assert_allclose(objective.power_iteration(p * tau, kernel), [1 / 8, 7 / 8])
    moved = objective.power_ratio(tau, p, kernel)
    np.testing.assert_allclose(moved, [1 / 4, 7 / 4])
    np.testing.assert_allclose(objective.damped_power_ratio(tau, moved, 0.2), [1.25, 0.75])
    # 0.4·(1, 0)/p + 0.6·(¼, 7/4)
    discounted = objective.discounted_power(tau, p, kernel, np.array([1.0, 0.0]), gamma=0.6)
    np.testing.assert_allclose(discounted, [0.95, 1.05])


def test_lost_mass_restarts_from_the_data_under_the_quadratic_and_is_scaled_up_under_kl():
    p, target, lam = np.array([0.5, 0.5]), np.array([1.2, 0.4]), 1.0  # 0.2 of the mass is lost
    quadratic = objective.regularized_minimiser(target, p, lam)
    np.testing.assert_allclose(quadratic, target + 2 / 3 * 0.2)
    kl = objective.regularized_minimiser(target, p, lam, divergence("kl"))
    assert kl[0] / kl[1] == pytest.approx(3.0)
    assert 0.8 < p @ kl < 1


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_theorem_2_the_damped_residual_decays_at_least_like_one_over_root_t(noise):
    """E‖μ_R - 𝒯μ_R‖² ≤ (C₁‖μ₀-μ‖² + C₂ ln t ‖ε‖²)/√t with the proof's own constants, on 20 random chains."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        kernel, stationary = random_chain(10, rng)
        kernel = (kernel + kernel.T) / 2  # symmetric and doubly stochastic after scaling: non-expansive in L₂
        for _ in range(200):
            kernel /= kernel.sum(axis=1, keepdims=True)
            kernel /= kernel.sum(axis=0, keepdims=True)
        stationary = np.full(10, 0.1)
        mu = rng.dirichlet(np.full(10, 0.1))
        distance, squares, shares = float((mu - stationary) @ (mu - stationary)), [], []
        for step in range(1, 2001):
            alpha = inverse_square_root(step)
            residual = mu - objective.power_iteration(mu, kernel)
            squares.append(alpha * (1 - alpha) * residual @ residual)
            shares.append(alpha * (1 - alpha))
            error = rng.normal(size=10)
            error *= noise / np.linalg.norm(error)
            mu = (1 - alpha) * mu + alpha * (objective.power_iteration(mu, kernel) + error)
        for t in (100, 500, 2000):
            average = sum(squares[:t]) / sum(shares[:t])
            bound = (distance + (np.log(t) + 1) * noise**2) / sum(shares[:t])
            # the proof drops the cross term 2αε·(…), which has mean zero: four of its standard deviations
            slack = 4 * 2 * noise * np.sqrt(distance * (np.log(t) + 1)) / sum(shares[:t])
            assert average <= bound + slack
            assert sum(shares[:t]) > 0.9 * np.sqrt(t)


def test_schedules():
    assert schedule("sqrt")(4) == 0.5
    assert schedule(0.3)(100) == 0.3
    assert schedule(lambda step: 1 / step)(5) == 0.2
    for wrong in (0.0, 1.5, "linear"):
        with pytest.raises(ValueError, match="damping must be"):
            schedule(wrong)


def test_unknown_divergence_lists_the_known():
    with pytest.raises(ValueError, match="known are kl, power, quadratic"):
        divergence("chi")
