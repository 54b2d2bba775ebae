"""Finite chains with instantaneous states, against dense matrices and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from ope_vpm.chain.finite.chain import FiniteChain


def leaky(rng: np.random.Generator, size: int = 6, detours: int = 2) -> tuple[FiniteChain, np.ndarray]:
    """A chain with instantaneous states, and its transition matrix written out."""
    kernel = rng.dirichlet(np.ones(size), size=size) * rng.random((size, 1))
    enter = rng.dirichlet(np.ones(detours), size=size) * (1 - kernel.sum(axis=1, keepdims=True))
    leave = rng.dirichlet(np.ones(size), size=detours)
    return FiniteChain(*map(sparse.csr_array, (kernel, enter, leave))), kernel + enter @ leave


def test_a_step_is_that_of_the_whole_matrix():
    chain, whole = leaky(np.random.default_rng(0))
    mu = np.random.default_rng(1).dirichlet(np.ones(6))
    np.testing.assert_allclose(mu @ chain, mu @ whole)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.95])
def test_discounted_answers_are_those_of_the_whole_matrix(gamma):
    """Passing through takes no time, so it is not discounted, not even at γ = 0."""
    rng = np.random.default_rng(2)
    chain, whole = leaky(rng)
    start, reward = rng.dirichlet(np.ones(6)), rng.standard_normal(6)
    system = np.eye(6) - gamma * whole
    np.testing.assert_allclose(chain.distribution(start, gamma), np.linalg.solve(system.T, (1 - gamma) * start))
    np.testing.assert_allclose(chain.value_function(reward, gamma), np.linalg.solve(system, reward))


def test_long_run_answers_are_those_of_the_whole_matrix():
    rng = np.random.default_rng(3)
    chain, whole = leaky(rng)
    start, reward = rng.dirichlet(np.ones(6)), rng.standard_normal(6)
    mu = chain.distribution(start, 1.0)
    assert mu.sum() == pytest.approx(1)
    np.testing.assert_allclose(mu @ whole, mu, atol=1e-14)
    h = chain.value_function(reward, 1.0)
    np.testing.assert_allclose(h - whole @ h, reward - mu @ reward, atol=1e-8)
    assert mu @ h == pytest.approx(0, abs=1e-12)  # else the solver's rounding errors would add a constant of 1e-4


def test_two_closed_classes_by_hand():
    """0 → 1 or 2 equally; 1 stays; 2 and 3 swap, once in two steps from 2 by way of an instantaneous state.

    From (½, ½, 0, 0) three quarters end in {1} and one quarter in {2, 3}, where half of the time is spent in each.
    Rewards (5, 1, 2, 4): h is 0 in 0, which is left for ever, and in 1, by itself a class; h(2) = -½, h(3) = ½.
    """
    kernel = sparse.csr_array([[0, 0.5, 0.5, 0], [0, 1, 0, 0], [0, 0, 0, 0.5], [0, 0, 1, 0]])
    chain = FiniteChain(kernel, sparse.csr_array([[0], [0], [0.5], [0]]), sparse.csr_array([[0, 0, 0, 1.0]]))
    np.testing.assert_allclose(chain.distribution(np.array([0.5, 0.5, 0, 0]), 1.0), [0, 0.75, 0.125, 0.125])
    h = chain.value_function(np.array([5.0, 1.0, 2.0, 4.0]), 1.0)
    np.testing.assert_allclose(h, [0, 0, -0.5, 0.5], atol=1e-12)
    assert chain.period == 2


def test_discounting_deals_with_chains_that_end():
    """From 0 on to 1 with probability ½, from 1 to the end; rewards 1 and 2, γ = ½: h = (1 + ¼·2, 2)."""
    chain = FiniteChain.plain(sparse.csr_array([[0, 0.5], [0, 0]]))
    np.testing.assert_allclose(chain.value_function(np.array([1.0, 2.0]), 0.5), [1.5, 2.0])
    np.testing.assert_allclose(chain.distribution(np.array([1.0, 0.0]), 0.5), [0.5, 0.125])
