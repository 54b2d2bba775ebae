"""The grid of ridges and the rules that choose from it."""

import numpy as np
import pytest

from ope_vpm.linear.system import COARSE_RIDGES, RIDGES, choose_ridge, smallest_as_good, suspected_bias


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


def test_suspected_bias_looks_one_decade_up():
    assert suspected_bias(np.array([1.0, 1.5, 3.0, 9.0]), 0) == 2.0
    with pytest.raises(IndexError):
        suspected_bias(np.array([1.0, 1.5, 3.0, 9.0]), 3)


def test_the_smallest_ridge_within_a_standard_error_of_the_best():
    """Behind the best (the third) by 2 ± 0, by 1 ± √(2/2), and by 4 ± 0: the second is within its error."""
    scores = np.array([[3.0, 1.0, 1.0, 5.0], [3.0, 3.0, 1.0, 5.0]])
    assert smallest_as_good(scores) == 1
    assert smallest_as_good(scores[:, [0, 2, 3]]) == 1


def test_a_ridge_more_than_one_standard_error_behind_is_not_as_good():
    """Behind by 1, 1, 1 and 5 on four folds: 2 on average, and the standard error is 2/√4 = 1."""
    assert smallest_as_good(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [5.0, 0.0]])) == 1
