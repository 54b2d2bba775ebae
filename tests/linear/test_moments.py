"""Moments against numbers worked out by hand, and the identities of adding, merging and leaving out."""

import dataclasses
from functools import reduce

import numpy as np
import pytest

from ope_vpm.linear.moments import Moments, accumulate
from tests.linear.batches import by_hand, random_rows, same


def test_two_features_by_hand():
    """Σφφᵀ = [[3, 6], [6, 14]]; φ - φ' = (0, -2), (0, 1), (1, 3); Σφr = (6, 1 + 4 + 9)."""
    moments = accumulate(by_hand())
    assert moments.count == 3
    assert moments.weight == 3
    assert moments.gram.tolist() == [[3, 6], [6, 14]]
    assert moments.change.tolist() == [[1, -2 + 1 + 3], [3, -2 + 2 + 9]]
    assert moments.reward.tolist() == [6, 14]
    assert moments.squares.tolist() == [3, 14]
    means = moments.means()
    np.testing.assert_allclose(means.gram, np.array([[3, 6], [6, 14]]) / 3)
    np.testing.assert_allclose(means.cross, np.array([[2, 3 + 1], [1 + 2, 3 + 2]]) / 3)
    assert means.initial.tolist() == [1, 1]


def test_weights_by_hand():
    """w = (4, 0, 9): Σwφφᵀ = [[13, 4 + 27], [31, 4 + 81]]; Σwφr = (4 + 27, 4 + 81); squares do not see them."""
    moments = accumulate(by_hand(weight=np.array([4.0, 0.0, 9.0])))
    assert (moments.count, moments.weight) == (3, 13)
    np.testing.assert_allclose(moments.gram, [[13, 31], [31, 85]])
    np.testing.assert_allclose(moments.change, [[9, -8 + 27], [27, -8 + 81]])
    np.testing.assert_allclose(moments.reward, [31, 85])
    assert moments.squares.tolist() == [3, 14]


def test_what_follows_an_end():
    """Only s = 3 ended. φ - γφ' at γ = ½ has second entries 1 - 1.5, 2 - 0.5 and 3, or 3 - 0.5 after a restart."""
    means = accumulate(by_hand()).means()
    np.testing.assert_allclose(means.ended, [1 / 3, 3 / 3])
    absorbed = np.array([[0.5 + 0.5 + 1, -0.5 + 1.5 + 3], [0.5 + 1 + 3, -0.5 + 3 + 9]]) / 3
    restarted = np.array([[1.5, -0.5 + 1.5 + 2.5], [0.5 + 1 + 1.5, -0.5 + 3 + 7.5]]) / 3
    np.testing.assert_allclose(means.flow(0.5, restart=False), absorbed)
    np.testing.assert_allclose(means.flow(0.5, restart=True), restarted)


def test_features_without_a_mean_after_a_step_have_no_columns():
    rows = random_rows(50, 4, 2)
    means = accumulate(rows).means()
    following = np.hstack([rows.phi_next, np.zeros((50, 2))])
    weighted = rows.phi * rows.weight[:, None]
    expected = weighted.T @ (rows.phi - 0.9 * following) / 50
    np.testing.assert_allclose(means.flow(0.9, restart=False), expected, atol=1e-14)
    np.testing.assert_allclose(means.initial, [*rows.first.mean(axis=0), 0, 0])


@pytest.mark.parametrize("cuts", [(), (1,), (20, 20, 21, 99), tuple(range(1, 100))])
def test_batches_may_be_cut_anywhere(cuts):
    rows = random_rows(100, 5, 3)
    same(accumulate(rows), accumulate(dataclasses.replace(rows, cuts=cuts)))


def test_merging_in_any_tree_gives_the_same():
    rows = random_rows(100, 5, 3)
    whole = accumulate(rows)
    names = ("phi", "phi_next", "weight", "reward", "first")

    def moments_of(part):
        return accumulate(dataclasses.replace(rows, **{name: getattr(rows, name)[part] for name in names}))

    a, b, c, d = map(moments_of, (slice(0, 2), slice(2, 3), slice(3, 90), slice(90, 100)))
    same(reduce(Moments.merge, (a, b, c, d)), whole)
    same(d.merge(b).merge(c.merge(a)), whole)
    same(a.merge(b.merge(c.merge(d))), whole)
    same(whole.without(c.merge(d)), a.merge(b))
    same(whole.merge(Moments.empty(5, 3)), whole)


def test_merging_changes_neither_of_both():
    one, other = accumulate(random_rows(10, 3, 3)), accumulate(random_rows(10, 3, 3, seed=1))
    before = one.gram.copy(), other.gram.copy()
    one.merge(other).add(next(iter(random_rows(10, 3, 3))))
    assert (one.gram == before[0]).all()
    assert (other.gram == before[1]).all()
