"""The grid of ridges and the rules that choose from it."""

import numpy as np
import pytest

from ope_vpm.linear.system import (
    COARSE_RIDGES,
    RIDGES,
    LinearSystem,
    choose_ridge,
    smallest_as_good,
    suspected_bias,
)


def test_the_grids():
    np.testing.assert_allclose(np.log10(RIDGES), np.arange(-6, -0.9, 0.5))
    np.testing.assert_allclose(np.log10(COARSE_RIDGES), np.arange(-6, 0))


def test_the_smallest_ridge_within_the_tolerance_is_taken():
    assert choose_ridge(np.array([9.0, 3.1, 2.9, 2.0, 2.5])) == 2
    assert choose_ridge(np.array([np.nan, np.inf, 1.0])) == 2
    assert choose_ridge(np.array([1.0, 1.0])) == 0
    with pytest.raises(ArithmeticError, match="no ridge"):
        choose_ridge(np.array([np.nan, np.nan]))


def test_no_ridge_behind_a_pole_is_taken():
    """The first error is small enough, and the third lies between it and the least."""
    assert choose_ridge(np.array([2.1, 2.2, 9.0, 2.9, 2.0, 2.5])) == 3


@pytest.mark.parametrize("ridge", [1e-6, 1e-1])
def test_suspected_bias_looks_one_decade_up_also_at_the_end_of_the_grid(ridge):
    """One feature with A = Λ = c = E[Xr] = 1: the value is 1/(1 + λ)."""
    one = np.ones(1)
    system = LinearSystem(np.ones((1, 1)), one, one, one)
    assert suspected_bias(system, ridge) == pytest.approx(1 / (1 + ridge) - 1 / (1 + 10 * ridge))


def test_the_smallest_ridge_within_a_standard_error_of_the_best():
    """Behind the best (the third) by 2 ± 0, by 1 ± √(2/2), and by 4 ± 0: the second is within its error."""
    scores = np.array([[3.0, 1.0, 1.0, 5.0], [3.0, 3.0, 1.0, 5.0]])
    assert smallest_as_good(scores) == 1
    assert smallest_as_good(scores[:, [0, 2, 3]]) == 1
