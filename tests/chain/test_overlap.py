"""Sums of products of overlapping influences, worked out by hand."""

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.chain.batches import sum_of_products

PSI = np.array([1.0, 2.0, -1.0, 3.0])


def test_without_overlap_it_is_the_sum_of_squares():
    assert sum_of_products(PSI, None, 1) == 15
    assert sum_of_products(PSI, np.array([0, 5, 10, 15]), 5) == 15


def test_neighbours_within_the_lag_are_multiplied():
    """Lag 2: 15 + 2·(1·2 - 2·1 - 1·3) = 9 is below what weights of ½ give, 15 + (2 - 2 - 3) = 12."""
    assert sum_of_products(PSI, np.arange(4), 2) == pytest.approx(12)
    assert sum_of_products(np.abs(PSI), np.arange(4), 2) == pytest.approx(15 + 2 * (2 + 2 + 3))


def test_paths_do_not_overlap():
    """Two paths: only the products within each count."""
    assert sum_of_products(np.abs(PSI), np.array([0, 1, 10, 11]), 2) == pytest.approx(15 + 2 * (2 + 3))
    pairs = ov.Transitions.from_paths([[0, 1, 2, 3], [5], [4, 5, 6, 7]], lag=2)
    np.testing.assert_array_equal(pairs.time, [0, 1, 5, 6])


def test_the_order_of_rows_does_not_matter():
    order = np.array([2, 0, 3, 1])
    assert sum_of_products(PSI[order], np.arange(4)[order], 3) == pytest.approx(sum_of_products(PSI, np.arange(4), 3))


def test_selected_rows_keep_their_times():
    pairs = ov.Transitions.lagged(np.arange(9), lag=3).select(np.array([4, 1]))
    assert pairs.time.tolist() == [4, 1]
    assert pairs.lag == 3
