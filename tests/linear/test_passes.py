"""The passes over rows against numbers worked out by hand."""

import dataclasses

import numpy as np

from ope_vpm.linear.moments import accumulate, accumulate_folds, accumulate_where_positive, all_but_each
from ope_vpm.linear.passes import Coefficients, GroupSums, apply, apply_all, apply_to_groups
from tests.linear.batches import by_hand, random_rows, same


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


def test_several_solutions_at_once():
    rows = dataclasses.replace(random_rows(40, 4, 2), cuts=(7, 30))
    rng = np.random.default_rng(2)
    theta, beta, after_end = rng.standard_normal((4, 3)), rng.standard_normal((4, 3)), rng.standard_normal(4)
    after_end[2:] = 0
    tau, residual = apply(rows, beta, theta, 0.8, after_end)
    for m in range(3):
        one_tau, one_residual = apply(rows, beta[:, m], theta[:, m], 0.8, after_end)
        np.testing.assert_allclose(tau[:, m], one_tau, atol=1e-14)
        np.testing.assert_allclose(residual[:, m], one_residual, atol=1e-14)


def test_sums_over_groups_are_those_of_the_rows():
    rows = dataclasses.replace(random_rows(60, 4, 3), cuts=(13, 40))
    rows.phi_next[[12, 30, 59]] = 0  # three ends
    rng = np.random.default_rng(1)
    beta, theta, group = rng.standard_normal((4, 2)), rng.standard_normal((4, 2)), np.sort(rng.integers(7, size=60))
    tau, residual = apply(rows, beta, theta, 0.9)
    (sums,) = apply_to_groups(rows, group, 8, [Coefficients(beta, theta, 0.9)])
    expected = [(tau * residual)[group == k].sum(axis=0) for k in range(8)]
    np.testing.assert_allclose(sums.influence, expected, atol=1e-12)
    np.testing.assert_allclose(sums.ended, tau[[12, 30, 59]].sum(axis=0), atol=1e-12)


def test_the_last_columns_may_be_about_ends():
    """They have 1 at the three ends and 0 elsewhere as their reward; the first column keeps the rows' own."""
    rows = dataclasses.replace(random_rows(60, 4, 3), cuts=(13, 40))
    ends = np.isin(np.arange(60), [12, 30, 59])
    rows.phi_next[:, 0], rows.phi_next[ends] = 1, 0
    rng = np.random.default_rng(1)
    beta, theta, group = rng.standard_normal((4, 2)), rng.standard_normal((4, 2)), np.sort(rng.integers(7, size=60))

    def influence(of_rows, of_ends=0):
        return apply_to_groups(of_rows, group, 7, [Coefficients(beta, theta, 1.0, of_ends=of_ends)])[0].influence

    found = influence(rows, of_ends=1)
    paid = dataclasses.replace(rows, reward=ends.astype(float))
    np.testing.assert_allclose(found[:, 0], influence(rows)[:, 0])
    np.testing.assert_allclose(found[:, 1], influence(paid)[:, 1])


def test_single_precision_features_are_added_up_in_double_precision():
    """Sums of 10⁵ rows stay within the rounding of a few thousand."""
    rows = random_rows(100_000, 5, 4)
    single = dataclasses.replace(rows, phi=rows.phi.astype(np.float32), phi_next=rows.phi_next.astype(np.float32))
    cuts = tuple(range(4096, 100_000, 4096))
    exact, found = (accumulate(dataclasses.replace(each, cuts=cuts)) for each in (rows, single))
    assert found.gram.dtype == found.change.dtype == found.reward.dtype == np.float64
    for name in ("gram", "change", "reward"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), atol=1e-7 * len(rows), err_msg=name)


def test_several_discounts_take_one_pass():
    """Each has the sums and the rows that it has alone, and the batches are gone through once for all of them."""
    rows = dataclasses.replace(random_rows(60, 4, 3), cuts=(13, 40))
    rng = np.random.default_rng(1)
    group, passes = np.sort(rng.integers(7, size=60)), []
    asked = [
        Coefficients(rng.standard_normal((4, 2)), rng.standard_normal((4, 2)), 0.9),
        Coefficients(rng.standard_normal((4, 3)), rng.standard_normal((4, 3)), 1.0, np.arange(4.0), of_ends=1),
    ]

    class Counted(type(rows)):
        def __iter__(self):
            passes.append(self)
            return super().__iter__()

    counted = Counted(**{field.name: getattr(rows, field.name) for field in dataclasses.fields(rows)})
    together = apply_to_groups(counted, group, 7, asked, weights=True), apply_all(counted, asked)
    assert len(passes) == 2
    for k, each in enumerate(asked):
        (alone,) = apply_to_groups(rows, group, 7, [each], weights=True)
        np.testing.assert_array_equal(together[0][k].influence, alone.influence)
        np.testing.assert_array_equal(together[0][k].ended, alone.ended)
        np.testing.assert_array_equal(together[0][k].weights.by_group, alone.weights.by_group)
        tau, residual = apply(rows, each.beta, each.theta, each.gamma, each.after_end)
        np.testing.assert_array_equal(together[1][k][0], tau)
        np.testing.assert_array_equal(together[1][k][1], residual)


def test_sums_without_weights_leave_none():
    """Whoever adds sums that were asked for weights to sums that were not knows no weights of the whole."""
    asked, plain = (GroupSums.empty(2, 1, 0, weights) for weights in (True, False))
    both = slice(0, 2)
    assert asked.merge(asked, both, both).weights is not None
    assert asked.merge(plain, both, both).weights is None
    assert plain.merge(asked, both, both).weights is None
