"""The most likely reversible chain, against deeptime's and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import ope_vpm as ov
from ope_vpm.chain.finite.reversible import reversible_kernel


def graph(n_states, seed):
    """A random walk on a weighted graph, which is reversible: its transition matrix and stationary distribution."""
    weight = np.random.default_rng(seed).random((n_states, n_states)) ** 6
    weight += weight.T
    return weight / weight.sum(axis=1, keepdims=True), weight.sum(axis=1) / weight.sum()


def moved(kernel, states, rng):
    u = rng.random(len(states))
    return (np.cumsum(kernel[states], axis=1) < u[:, None]).sum(axis=1)


def walk(kernel, steps, seed):
    rng, path = np.random.default_rng(seed), [0]
    for _ in range(steps):
        path.append(int(moved(kernel, np.array(path[-1:]), rng)[0]))
    return np.array(path)


def test_two_states_by_hand():
    # Two states always satisfy detailed balance, so the most likely chain is the counted one.
    kernel = reversible_kernel(sparse.csr_array([[6.0, 2.0], [1.0, 3.0]])).toarray()
    assert kernel == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]))


def test_a_cycle_is_as_likely_both_ways():
    kernel = reversible_kernel(sparse.csr_array(np.roll(np.eye(3), 1, axis=1) * 5)).toarray()
    assert kernel == pytest.approx((1 - np.eye(3)) / 2)


def test_the_chain_is_that_of_deeptime():
    msm = pytest.importorskip("deeptime.markov.msm")
    path = walk(graph(20, 0)[0], 5000, 0)
    theirs = msm.MaximumLikelihoodMSM(reversible=True, maxerr=1e-12, lagtime=1).fit_fetch(path)
    counts = np.zeros((20, 20))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    assert reversible_kernel(counts).toarray() == pytest.approx(theirs.transition_matrix, abs=1e-9)
    estimate = ov.VPM(reversible=True).fit(ov.Transitions(path[:-1], path[1:]))
    assert estimate.probabilities() == pytest.approx(theirs.stationary_distribution, abs=1e-9)


def test_detailed_balance_holds_and_rows_sum_to_one():
    path = walk(graph(12, 1)[0], 800, 1)
    counts = np.zeros((12, 12))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    kernel = reversible_kernel(counts).toarray()
    mu = ov.VPM(reversible=True).fit(ov.Transitions(path[:-1], path[1:])).probabilities()
    flow = mu[:, None] * kernel
    assert flow == pytest.approx(flow.T, abs=1e-12)
    assert kernel.sum(axis=1) == pytest.approx(np.ones(12))


def test_transition_probabilities_are_closer_to_the_truth_than_counted_ones():
    gain = []
    for seed in range(20):
        truth, _ = graph(10, seed)
        rng = np.random.default_rng(seed)
        starts = np.repeat(np.arange(10), 30)
        counts = np.zeros((10, 10))
        np.add.at(counts, (starts, moved(truth, starts, rng)), 1)
        counted = np.square(counts / 30 - truth).sum()
        gain.append(counted - np.square(reversible_kernel(counts).toarray() - truth).sum())
    assert np.mean(gain) > 4 * np.std(gain, ddof=1) / np.sqrt(len(gain))


def test_a_state_that_was_reached_and_never_left_has_the_way_back():
    # 0 → 1 in one of four rows, 1 is never left: by balance it is left for 0, and has a quarter of 0's probability.
    data = ov.Transitions(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1]))
    estimate = ov.VPM(reversible=True).fit(data)
    assert estimate.probabilities() == pytest.approx([0.8, 0.2])


def test_states_that_are_left_for_ever_have_no_probability():
    with pytest.warns(ov.StationaryWarning, match="reducible"):
        estimate = ov.VPM(reversible=True).fit(ov.Transitions(np.array([0, 1, 2, 1]), np.array([1, 2, 1, 1])))
    assert estimate.probabilities()[0] == 0
    assert estimate.probabilities()[1:].sum() == pytest.approx(1)


def test_intervals_cover():
    kernel, mu = graph(6, 3)
    held = []
    for seed in range(100):
        data = ov.Transitions.from_paths([walk(kernel, 400, seed)])
        mean = ov.VPM(reversible=True).fit(data).expectation(lambda x: x.astype(float))
        held.append(abs(mean - mu @ np.arange(6)) <= 1.96 * mean.standard_error)
    assert np.mean(held) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)


def test_it_is_saved_and_loaded_with_its_kind(tmp_path):
    path = walk(graph(5, 2)[0], 300, 2)
    estimate = ov.VPM(reversible=True).fit(ov.Transitions(path[:-1], path[1:]))
    estimate.save(tmp_path / "estimate.npz")
    again = ov.StationaryEstimate.load(tmp_path / "estimate.npz")
    f = lambda x: x.astype(float)  # noqa: E731
    assert again.expectation(f) == estimate.expectation(f)
    assert again.expectation(f).standard_error == estimate.expectation(f).standard_error


def test_two_models_of_one_chain_are_refused():
    with pytest.raises(ValueError, match="choose one of them"):
        ov.VPM(solver="tabular", reversible=True, pool_increments=True)


def test_stationary_takes_a_birth_death_queue_as_reversible():
    path = [0, 1, 2, 1, 0, 0, 1, 2, 3, 2, 1, 0, 1, 0]
    up, down = {0: 3, 1: 2, 2: 1}, {1: 3, 2: 2, 3: 1}  # moves k → k + 1, and k → k - 1
    left = {0: 4, 1: 5, 2: 3, 3: 1}
    mu = ov.stationary(path, reversible=True).probabilities
    assert mu[1] / mu[0] == pytest.approx((up[0] / left[0]) / (down[1] / left[1]))
    assert mu[3] / mu[2] == pytest.approx((up[2] / left[2]) / (down[3] / left[3]))
