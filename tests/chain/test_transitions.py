"""The door: what is taken, what is refused, and that nothing changes afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.chain.batches import SAMPLE, sample_rows

X, X_NEXT = np.array([0, 1, 2]), np.array([1, 2, 0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(x=X, x_next=X_NEXT[:2]), ValueError, r"same length: 3 != 2 \(is the last step missing\?\)"),
        (dict(x=[], x_next=[]), ValueError, "x is empty"),
        (dict(x=[0.0, np.nan], x_next=[0.0, 1.0]), ValueError, "x must be finite: row 1 is"),
        (dict(x=[0.0, 1.0], x_next=[0.0, np.inf]), ValueError, "x_next must be finite: row 1 is"),
        (
            dict(x=[0.0, 2e75], x_next=[0.0, 1.0]),
            ValueError,
            r"x must not go beyond 1e\+75 \(give it in another unit\): row 1",
        ),
        (dict(x=[0, -1], x_next=[0, 1]), ValueError, "x must not be negative: row 1 is -1"),
        (dict(x=X * 1.0, x_next=X_NEXT), TypeError, "of one kind: integers != floats"),
        (dict(x=np.zeros((3, 2)), x_next=np.zeros((3, 4))), ValueError, "same dimension: 2 != 4"),
        (
            dict(x=X, x_next=X_NEXT, weight=[1, -1, 1]),
            ValueError,
            "weight must be finite and not negative: row 1 is -1",
        ),
        (dict(x=X, x_next=X_NEXT, weight=[1, np.nan, 1]), ValueError, "weight must be finite"),
        (dict(x=X, x_next=X_NEXT, weight=[0, 0, 0]), ValueError, "zero in every row"),
        (dict(x=X, x_next=X_NEXT, weight=[1.0]), ValueError, r"one number per row: shape \(1,\) != \(3,\)"),
        (dict(x=X, x_next=X_NEXT, x_initial=[0.5]), TypeError, "x_initial must be of the kind"),
        (dict(x=np.zeros((3, 2)), x_next=np.zeros((3, 2)), x_initial=np.zeros((1, 3))), ValueError, "3 != 2"),
        (dict(x=np.array([0, None]), x_next=X[:2]), TypeError, "integers or floats: got dtype object"),
        (dict(x=["a", "b"], x_next=["b", "a"]), TypeError, "integers or floats"),
        (dict(x=[True, False], x_next=[True, False]), TypeError, "got dtype bool"),
        (dict(x=np.zeros((3, 2), int), x_next=np.zeros((3, 2), int)), ValueError, r"must have shape \(n,\)"),
        (dict(x=X, x_next=np.zeros((3, 2), int)), ValueError, "2 successors per row, so next_weight is needed"),
        (dict(x=X, x_next=np.zeros((3, 2), int), next_weight=np.ones((3, 2))), ValueError, "sum to 1: row 0"),
        (dict(x=X, x_next=np.zeros((3, 2), int), next_weight=np.ones((3, 1))), ValueError, "first two axes"),
        (dict(x=[2**63], x_next=[0]), ValueError, "64-bit"),
        (dict(x=1.0, x_next=2.0), ValueError, "x must be an array"),
        (dict(x=np.ma.masked_array([1, 2], [0, 1]), x_next=[0, 1]), TypeError, "masked"),
    ],
)
def test_bad_input_is_refused_with_the_rule_and_what_came(arguments, error, message):
    with pytest.raises(error, match=message):
        ov.Transitions(**arguments)


def test_arrays_are_views_that_cannot_be_written():
    x = np.random.default_rng(0).normal(size=(5, 2))
    pairs = ov.Transitions(x, x + 1)
    assert np.shares_memory(pairs.x, x)
    assert x.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        pairs.x[0] = 0


def test_floats_without_a_second_axis_are_continuous_states_of_one_dimension():
    pairs = ov.Transitions([0.0, 1.0], [[1.0, 2.0], [0.0, 0.5]], next_weight=[[0.5, 0.5], [0.25, 0.75]])
    assert pairs.x.shape == (2, 1)
    assert pairs.x_next.shape == (2, 2, 1)
    assert pairs.dimension == 1


def test_next_weights_of_single_precision_are_scaled_to_sum_to_one():
    share = np.full((1, 3), 1 / 3, dtype=np.float32)
    pairs = ov.Transitions([0], [[0, 1, 2]], next_weight=share)
    assert pairs.next_weight.sum() == pytest.approx(1, abs=1e-15)


def test_lagged_pairs_of_one_path():
    pairs = ov.Transitions.lagged([10, 11, 12, 13, 14], lag=2)
    assert pairs.x.tolist() == [10, 11, 12]
    assert pairs.x_next.tolist() == [12, 13, 14]
    assert pairs.x_initial.tolist() == [10]


def test_paths_are_not_joined_and_short_ones_give_no_pair():
    pairs = ov.Transitions.from_paths([[0, 1, 2], [5], [], [7, 8]])
    assert pairs.x.tolist() == [0, 1, 7]
    assert pairs.x_next.tolist() == [1, 2, 8]
    assert pairs.x_initial.tolist() == [0, 5, 7]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([0, 1, 2], r"path 0 has shape \(\), path 0 \(\) \(one trajectory: \[path\]\)"),
        ([[0, 1, 2], 5], r"path 1 has shape \(\)"),
        ([np.zeros((4, 2)), np.zeros((4, 3))], r"path 1 has shape \(4, 3\), path 0 \(4, 2\)"),
    ],
)
def test_paths_must_be_trajectories_that_are_alike(paths, message):
    with pytest.raises(ValueError, match=message):
        ov.Transitions.from_paths(paths)


@pytest.mark.parametrize(("lag", "message"), [(0, "at least 1"), (3, "no path is longer than lag=3"), (5, "lag=5")])
def test_impossible_lags(lag, message):
    with pytest.raises(ValueError, match=message):
        ov.Transitions.lagged([0, 1, 2], lag=lag)


def test_a_memory_map_stays_on_disk(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    pairs = ov.Transitions(x, x)
    assert np.shares_memory(pairs.x, x)
    assert pairs.x.dtype == np.float32


def test_printed_transitions_say_what_their_states_are():
    assert repr(ov.Transitions([0, 1], [1, 0], x_initial=[0])) == "Transitions(2 rows, finite states, 1 initial)"
    assert repr(ov.Transitions([[0.0, 1.0]], [[1.0, 0.0]])) == "Transitions(1 rows, continuous states of dimension 2)"


@pytest.mark.parametrize(("rows", "most"), [(11, 10), (100, 99), (40, 10), (41, 10), (1000, 10)])
def test_a_sample_is_of_different_rows_in_their_order(rows, most):
    pairs = ov.Transitions(np.arange(rows), np.arange(rows))
    for seed in range(5):
        drawn = pairs.sample(most, np.random.default_rng(seed)).x
        assert len(drawn) == most
        assert (np.diff(drawn) > 0).all()
    assert pairs.sample(rows, np.random.default_rng(0)) is pairs


def test_rows_for_the_scales_are_drawn_by_weight_where_they_are_many_or_weighted():
    rng, x = np.random.default_rng(0), np.arange(SAMPLE + 1.0)
    assert len(sample_rows(ov.Transitions(x, x), rng)) == SAMPLE
    assert sample_rows(ov.Transitions(x[:-1], x[:-1]), rng)[:, 0].tolist() == x[:-1].tolist()
    weighted = ov.Transitions(x[:4], x[:4], weight=[0.0, 1.0, 0.0, 3.0])
    drawn = sample_rows(weighted, rng)[:, 0]
    assert set(drawn) == {1.0, 3.0}
    assert np.mean(drawn == 3) == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / SAMPLE))
