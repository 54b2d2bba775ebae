"""Ratios that are never negative: power steps and Newton's method."""

from itertools import islice

import numpy as np
import pytest

from ope_vpm.linear.moments import accumulate
from ope_vpm.linear.nonnegative import FeatureRows, newton, nonnegative_steps
from ope_vpm.linear.system import FixedPoint, gram_penalty
from tests.linear.batches import Given, random_rows


def walk(n: int = 2000) -> Given:
    """x' = x/2 + N(0, 3/4) from Unif[-4, 4], in ten bumps of width 0.7 after a constant; it begins at 2."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, n)
    x_next = x / 2 + np.sqrt(0.75) * rng.standard_normal(n)
    centres = np.linspace(-4, 4, 10)

    def bumps(z):
        return np.hstack([np.ones((len(z), 1)), np.exp(-((z[:, None] - centres) ** 2) / (2 * 0.7**2))])

    return Given(bumps(x), bumps(x_next), first=bumps(np.array([2.0])))


def test_rows_kept_in_single_precision_have_the_same_gram_and_flows():
    rows = random_rows(9000, 6, 6)
    kept = FeatureRows.of(rows)
    np.testing.assert_allclose(accumulate(kept).gram, accumulate(rows).gram, rtol=1e-5, atol=1e-2)
    tau = kept.ratio(np.eye(6)[0])
    assert (tau == 1).all()
    here, there = kept.flows(tau)
    np.testing.assert_allclose(here, rows.weight @ rows.phi / 9000, atol=1e-5)
    np.testing.assert_allclose(there, rows.weight @ rows.phi_next / 9000, atol=1e-5)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_newton_and_power_steps_find_one_fixed_point(gamma):
    rows = walk()
    means = accumulate(rows).means()
    equation = FixedPoint(gamma, means.initial, gram_penalty(means.gram, 1e-3))
    kept = FeatureRows.of(rows)
    *_, (slow, change) = islice(nonnegative_steps(kept, equation, means.gram), 2000)
    assert change < 1e-5  # single precision
    fast = newton(rows, equation, slow)
    tau = np.maximum(rows.phi @ fast, 0)
    assert tau.min() == 0  # the constraint matters here
    # In every feature, but for the ridge: E[φτ] + penalty·β = γE[φ'τ] + (1-γ)E₀[φ]; the constant's says E[τ] = 1.
    gap = gamma * rows.phi_next.T @ tau / len(tau) + (1 - gamma) * rows.first[0] - rows.phi.T @ tau / len(tau)
    np.testing.assert_allclose(gap[1:], (equation.penalty * fast)[1:], atol=1e-4)
    assert tau.mean() == pytest.approx(1, abs=1e-4)
    np.testing.assert_allclose(kept.ratio(slow), tau, atol=0.02)


def test_newton_says_when_there_is_no_solution():
    rows = Given(np.ones((10, 2)), np.ones((10, 2)))
    equation = FixedPoint(1.0, np.zeros(2), np.zeros(2))
    assert newton(rows, equation, np.array([1.0, 0.0])) is None
