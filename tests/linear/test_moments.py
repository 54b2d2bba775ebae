"""Moments against numbers worked out by hand, and the identities of adding, merging and leaving out."""

import dataclasses
from functools import reduce

import numpy as np
import pytest

from ope_vpm.linear.moments import (
    Moments,
    accumulate,
    accumulate_folds,
    accumulate_where_positive,
    all_but_each,
    apply,
    apply_folds,
)
from tests.linear.batches import by_hand, random_rows


def same(one: Moments, other: Moments) -> None:
    for name, value in vars(one).items():
        np.testing.assert_allclose(value, getattr(other, name), rtol=1e-12, atol=1e-12, err_msg=name)


def test_two_features_by_hand():
    """Σφφᵀ = [[3, 6], [6, 14]]; Σφφ'ᵀ = [[2, 3 + 1], [1 + 2, 3 + 2]]; Σφr = (6, 1 + 4 + 9)."""
    moments = accumulate(by_hand())
    assert moments.count == 3
    assert moments.weight == 3
    assert moments.gram.tolist() == [[3, 6], [6, 14]]
    assert moments.cross.tolist() == [[2, 4], [3, 5]]
    assert moments.reward.tolist() == [6, 14]
    assert moments.squares.tolist() == [3, 14]
    means = moments.means()
    np.testing.assert_allclose(means.gram, np.array([[3, 6], [6, 14]]) / 3)
    assert means.initial.tolist() == [1, 1]


def test_weights_by_hand():
    """w = (4, 0, 9): Σwφφᵀ = [[13, 4 + 27], [31, 4 + 81]]; Σwφr = (4 + 27, 4 + 81); squares do not see them."""
    moments = accumulate(by_hand(weight=np.array([4.0, 0.0, 9.0])))
    assert (moments.count, moments.weight) == (3, 13)
    np.testing.assert_allclose(moments.gram, [[13, 31], [31, 85]])
    np.testing.assert_allclose(moments.cross, [[4, 12], [4, 12]])
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


def test_all_but_one_fold_are_the_rows_of_the_others():
    rows = dataclasses.replace(random_rows(60, 4, 4), cuts=(13, 40))
    fold = np.random.default_rng(1).integers(3, size=60)
    for k, others in enumerate(all_but_each(accumulate_folds(rows, fold, 3))):
        kept = fold != k
        part = dataclasses.replace(
            rows, phi=rows.phi[kept], phi_next=rows.phi_next[kept], weight=rows.weight[kept], reward=rows.reward[kept],
            first=None, cuts=(),
        )  # fmt: skip
        same(others, accumulate(part))
    (only,) = all_but_each(accumulate_folds(rows, np.zeros(60, dtype=np.int64), 1))
    same(only, accumulate(dataclasses.replace(rows, first=None)))


def test_rows_where_a_function_is_positive():
    """β = (-2.5, 1) is positive at s = 3 only; the others still count as rows."""
    moments = accumulate_where_positive(by_hand(), np.array([-2.5, 1.0]))
    assert (moments.count, moments.weight) == (3, 1)
    assert moments.gram.tolist() == [[1, 3], [3, 9]]
    assert moments.reward.tolist() == [3, 9]


def test_ratio_and_residual_by_hand():
    """θ = (10, 1): at γ = ½ φᵀθ = 11, 12, 13, φ'ᵀθ = 13, 11, 0; at γ = 1 the constant's difference counts as 1."""
    rows = by_hand(weight=np.array([1.0, 2.0, 0.0]), cuts=(2,))
    beta, theta = np.array([1.0, -1.0]), np.array([10.0, 1.0])
    tau, residual = apply(rows, beta, theta, 0.5)
    assert tau.tolist() == [0, -2, 0]
    assert residual.tolist() == [1 - 11 + 6.5, 2 - 12 + 5.5, 3 - 13]
    restart = np.array([1.0, 1.0])
    _, residual = apply(rows, beta, theta, 0.5, restart)
    assert residual.tolist() == [1 - 11 + 6.5, 2 - 12 + 5.5, 3 - 13 + 5.5]
    _, residual = apply(rows, beta, theta, 1.0, restart)
    assert residual.tolist() == [1 - 10 - (1 - 3), 2 - 10 - (2 - 1), 3 - 10 - (3 - 1)]


def test_several_solutions_at_once_and_one_for_each_fold():
    rows = dataclasses.replace(random_rows(40, 4, 2), cuts=(7, 30))
    rng = np.random.default_rng(2)
    theta, beta, after_end = rng.standard_normal((4, 3)), rng.standard_normal((4, 3)), rng.standard_normal(4)
    after_end[2:] = 0
    tau, residual = apply(rows, beta, theta, 0.8, after_end)
    for m in range(3):
        one_tau, one_residual = apply(rows, beta[:, m], theta[:, m], 0.8, after_end)
        np.testing.assert_allclose(tau[:, m], one_tau, atol=1e-14)
        np.testing.assert_allclose(residual[:, m], one_residual, atol=1e-14)
    fold = np.arange(40) % 2
    held = apply_folds(rows, fold, np.stack([theta, -theta]), 0.8, after_end)
    _, other = apply(rows, beta, -theta, 0.8, after_end)
    np.testing.assert_allclose(held, np.where(fold[:, None] == 0, residual, other), atol=1e-14)
