"""Liu et al. 2018 on finite states, against dense chains that are followed."""

import numpy as np
import pytest

from ope_vpm.baselines.liu import balanced_ratio, restarting_ratio


def steps(seed, gamma, losing=0.0):
    """Two hundred steps among five states, with ratios whose mean in each state is 1, or less by what is lost.

    Below γ = 1 some end; at 1 all lead on.
    """
    rng = np.random.default_rng(seed)
    state, after, weight = rng.integers(5, size=200), rng.integers(5, size=200), rng.uniform(0.5, 2, 200)
    after[(rng.random(200) < 0.1) & (gamma < 1)] = -1
    rho = rng.uniform(0.2, 2, 200)
    times, mass = np.bincount(state, weight, 5), np.bincount(state, weight * rho, 5)
    lost = losing * np.array([0.0, 1.0, 0.0, 0.5, 1.0])
    return state, after, weight, rho * ((1 - lost) * times / mass)[state], rng.dirichlet(np.ones(5))


@pytest.mark.parametrize("losing", [0.0, 0.4])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_the_restarting_chain_is_followed_to_its_stationary_distribution(gamma, losing):
    """μ ← γ(μP + Lp) + (1-γ)d₀ a thousand times, with P of n + 0.7 times the mean weight where something is lost."""
    state, after, weight, rho, initial = steps(0, gamma, losing)
    times = np.bincount(state, weight, 5)
    seen = times + 0.7 * weight.mean() * np.array([0, 1, 0, 1, 1]) * (losing > 0)
    p, chain = times / weight.sum(), np.zeros((5, 5))
    here = after >= 0
    np.add.at(chain, (state[here], after[here]), (weight * rho)[here] / seen[state[here]])
    lost = 1 - np.bincount(state, weight * rho, 5) / seen
    mu = p
    for _ in range(1000):
        mu = gamma * (mu @ chain + (lost @ mu) * p) + (1 - gamma) * initial
        mu = mu / mu.sum() if gamma == 1 else mu
    np.testing.assert_allclose(restarting_ratio(state, after, weight, rho, initial, gamma, 0.7), mu / p, rtol=1e-9)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_balanced_flow_is_the_least_squares_solution(gamma):
    """Dense: at γ < 1 all of the flow balances; at γ = 1 the squares are least among w with E[w] = 1."""
    state, after, weight, rho, initial = steps(1, gamma)
    p, flow = np.bincount(state, weight, 5) / weight.sum(), np.zeros((5, 5))
    here = after >= 0
    np.add.at(flow, (after[here], state[here]), (gamma * weight * rho / weight.sum())[here])
    matrix = np.eye(5) - flow / p
    if gamma < 1:
        mass = np.linalg.solve(matrix, (1 - gamma) * initial)
    else:
        mass = np.linalg.solve(matrix.T @ matrix, np.ones(5))
        mass /= mass.sum()
    assert (mass > 0).all()
    np.testing.assert_allclose(balanced_ratio(state, after, weight, rho, initial, gamma), mass / p, rtol=1e-6)


def test_mass_is_never_negative():
    """State 1 passes on more than it has, tenfold, which would leave it with a negative mass."""
    w = balanced_ratio(np.array([0, 1]), np.array([1, 1]), np.ones(2), np.array([1.0, 10.0]), np.array([1.0, 0.0]), 0.5)
    np.testing.assert_allclose(w, [1, 0], atol=1e-6)
