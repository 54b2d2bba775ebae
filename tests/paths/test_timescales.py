"""Implied timescales and the Chapman–Kolmogorov check, against deeptime and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.paths import chapman_kolmogorov, timescales
from ope_vpm.paths.picture import draw_chapman_kolmogorov, draw_timescales

STAY = 0.95


def two_states(steps, seed):
    """Stays with probability 0.95, else moves to the other state: λ = 0.9, relaxation time -1/log 0.9."""
    moves = np.random.default_rng(seed).random(steps) > STAY
    return np.cumsum(moves) % 2


def hidden(steps, seed):
    """Two slow states of which each shows one of two faces at random; lumped by face it is no Markov chain."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(steps) < 0.8, two_states(steps, seed), rng.integers(2, size=steps))


def test_two_states_have_the_relaxation_time_of_their_eigenvalue_at_every_lag():
    times = np.array([timescales(two_states(20_000, seed), [1, 2, 5], number=1).times[:, 0] for seed in range(10)])
    error = times.std(axis=0, ddof=1) / np.sqrt(10)
    assert (np.abs(times.mean(axis=0) + 1 / np.log(0.9)) < 4 * error).all()


def test_timescales_are_those_of_deeptime():
    msm = pytest.importorskip("deeptime.markov.msm")
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.integers(-1, 2, size=5000)) % 7
    paths = [path[:3000], path[3000:]]
    for lag in (1, 3):
        theirs = msm.MaximumLikelihoodMSM(reversible=True, lagtime=lag, maxerr=1e-12).fit_fetch(paths)
        assert timescales(paths, [lag]).times[0] == pytest.approx(theirs.timescales(k=3), rel=1e-6)


def test_a_chain_passes_the_check_and_a_lumped_one_does_not():
    right = [chapman_kolmogorov(two_states(20_000, seed), 1, steps=5).deviation for seed in range(10)]
    wrong = [chapman_kolmogorov(hidden(20_000, seed), 1, steps=5).deviation for seed in range(10)]
    assert np.median(right) < 3
    assert min(wrong) > 5


def test_what_is_predicted_is_the_power_of_the_matrix():
    found = chapman_kolmogorov(two_states(100_000, 0), 1, steps=4, members=[0])
    assert found.predicted[:, 0] == pytest.approx(0.5 + 0.5 * 0.9 ** np.arange(1, 5), abs=0.01)
    assert found.predicted[0] == pytest.approx(found.counted[0])
    assert found.error[0, 0] == pytest.approx(np.sqrt(STAY * (1 - STAY) / 50_000), rel=0.1)


def test_cells_of_a_continuous_path_find_its_slowest_time():
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        noise, x = rng.standard_normal(20_000) * np.sqrt(1 - 0.9**2), np.zeros(20_000)
        for step in range(1, 20_000):
            x[step] = 0.9 * x[step - 1] + noise[step]
        found.append(timescales(x, [10], number=1, cells=40, seed=seed).times[0, 0])
    # Cells blur the slowest process, so that its time is found from below, by less the longer the lag.
    assert 0.9 < np.mean(found) * -np.log(0.9) < 1.05


def test_wrong_questions_are_refused():
    with pytest.raises(ValueError, match="shorter than a path"):
        timescales([0, 1, 0], [3])
    with pytest.raises(ValueError, match="both sets of states"):
        chapman_kolmogorov(two_states(100, 0), 1, members=[0, 1])
    with pytest.raises(ValueError, match="NaN or infinite"):
        timescales([0.0, np.nan], [1])
    with pytest.raises(ValueError, match="at most 2000 states"):
        timescales(np.arange(3000), [1])


@pytest.mark.parametrize("lags", [3, [], [1.5], [0], "12"])
def test_lags_that_are_no_list_of_whole_numbers_are_refused(lags):
    with pytest.raises(
        ValueError, match=r"lags must be a list of whole numbers from 1 up, as in lags=\[1, 2, 5\]: got"
    ):
        timescales(two_states(100, 0), lags)


def test_pictures_show_all_processes_and_both_sets():
    path = np.cumsum(np.random.default_rng(0).integers(-1, 2, size=2000)) % 5
    assert len(draw_timescales(timescales(path, [1, 2, 4])).axes[0].lines) == 3
    figure = draw_chapman_kolmogorov(chapman_kolmogorov(path, 1))
    assert [axes.get_title() for axes in figure.axes] == ["set 1", "set 2"]


def test_a_set_that_keeps_nobody_has_an_error():
    """Independent draws, of which 0 to 19 of 400 are a 1: no set deviates by more than a few standard errors."""
    found = [
        chapman_kolmogorov((np.random.default_rng(seed).random(400) < 0.02).astype(int), 1).deviation
        for seed in range(20)
    ]
    assert max(found) < 4
    # 0 of about 4 pairs: with two added to either side a share of 2/8, √(1/4 · 3/4 / 8) of error
    rare = np.zeros(1000, dtype=int)
    rare[[100, 300, 500, 700]] = 1
    check = chapman_kolmogorov(rare, 1, members=[1], steps=1)
    assert check.counted[0, 0] == 0
    assert check.error[0, 0] == pytest.approx(np.sqrt(3 / 16 / 8), rel=1e-3)


def test_a_period_is_counted_in_both_sets():
    check = chapman_kolmogorov(np.arange(100) % 2, 1, steps=4)
    expected = np.tile([[0.0, 0.0], [1.0, 1.0]], (2, 1))
    np.testing.assert_allclose(check.predicted, expected, atol=1e-12)
    np.testing.assert_allclose(check.counted, expected, atol=1e-12)
    assert timescales(np.arange(100) % 2, [1], number=1).times[0, 0] == np.inf


@pytest.mark.parametrize("states", [[0, 1], [10, 11], [1, 5], [-3, 1], [0, 200]])
def test_members_are_states_as_they_were_logged(states):
    path = (np.cumsum(np.random.default_rng(0).random(5000) < np.where(np.arange(5000) % 2, 0.1, 0.3))) % 2
    expected = chapman_kolmogorov(path, 1, members=[1]).predicted
    named = np.array(states)[path]
    np.testing.assert_allclose(chapman_kolmogorov(named, 1, members=[states[1]]).predicted, expected)
    with pytest.raises(ValueError, match="all of them are in one"):
        chapman_kolmogorov(named, 1, members=[99])
    with pytest.raises(ValueError, match="members are finite states"):
        chapman_kolmogorov(named + 0.5, 1, members=[states[1]])


def test_small_integers_and_flags_are_numbered_without_overflow():
    path = two_states(2000, 0)
    expected = timescales(path, [1], number=1).times
    for other in (path.astype(bool), np.where(path, 127, -128).astype(np.int8), path.astype(np.uint8)):
        np.testing.assert_array_equal(timescales(other, [1], number=1).times, expected)


@pytest.mark.parametrize(
    ("paths", "options", "said"),
    [
        (["a", "b"], {}, r"path 0 has shape \(2,\), dtype <U1"),
        ([np.zeros((3, 2)), np.zeros(3)], {}, "all paths must have the same coordinates: path 1"),
        ([], {}, "at least one path with a step"),
        (np.zeros((3, 4, 2)), {}, r"path 0 has shape \(3, 4, 2\)"),
        ([0.5, 1.5, 0.5], {"cells": 0}, "cells must be a whole number from 1 up: got 0"),
        ([0, 1, 0], {"number": -1}, "number must be a whole number from 1 up: got -1"),
    ],
)
def test_what_is_no_path_is_refused_by_name(paths, options, said):
    with pytest.raises(ValueError, match=said):
        timescales(paths, [1], **options)


def test_a_last_state_that_was_never_left_is_no_part_of_the_chain():
    path = two_states(2000, 0)
    expected = timescales(path, [1], number=1).times
    for more in ([2], [2] * 5):
        np.testing.assert_allclose(timescales(np.append(path, more), [1], number=1).times, expected)
    with pytest.raises(ValueError, match="come back to some state"):
        timescales(np.arange(50), [1])
    with pytest.raises(ValueError, match="at least 2 states"):
        chapman_kolmogorov(np.zeros(40, dtype=int), 1)
