"""Weights of frames: the counted chain by hand, the truth of a double well, and deeptime's own functions on them."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from deeptime.covariance import Covariance, KoopmanWeightingEstimator
from deeptime.decomposition import TICA

import ope_vpm as ov
from ope_vpm.chain import WeightingEstimator

ROOT = Path(__file__).parents[2]
PATHS = [np.array([0, 1, 0, 1]), np.array([0, 0, 1, 0])]


def autoregressive(runs, length, seed):
    """Runs of x' = x/2 + N(0, 3/4), whose equilibrium is N(0, 1), begun around 1."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(1.0, 1.0, (runs, 1))]
    for _ in range(length - 1):
        x.append(x[-1] / 2 + np.sqrt(0.75) * rng.standard_normal((runs, 1)))
    return list(np.stack(x, axis=1))


def test_weights_of_counted_states():
    """Pairs 0→1 three times, 0→0 once, 1→0 twice: μ = (4/7, 3/7) and p = (4/6, 2/6), so τ = (6/7, 9/7)."""
    found = ov.chain.weights(PATHS, lag=1)
    tau = np.array([6, 9]) / 7
    for frames, path in zip(found.frames, PATHS, strict=True):
        np.testing.assert_allclose(frames, tau[path])
    share = found.expectation(lambda x: x == 1)
    assert share == pytest.approx(3 / 7)
    assert share.standard_error > 0


def test_one_array_is_one_trajectory():
    path = np.concatenate(autoregressive(1, 300, seed=0))
    one, listed = ov.chain.weights(path, 2), ov.chain.weights([path], 2)
    assert len(one.frames) == 1
    assert one.frames[0].shape == (300,)
    np.testing.assert_array_equal(one.frames[0], listed.frames[0])


def test_means_are_those_of_equilibrium_within_their_errors():
    """Ten seeds: runs of four frames from 1 have a mean of 0.47, equilibrium one of 0."""
    found = [ov.chain.weights(autoregressive(150, 4, seed), 1).expectation(lambda x: x[:, 0]) for seed in range(10)]
    errors = [each.standard_error for each in found]
    assert abs(np.mean(found)) < 4 * np.mean(errors) / np.sqrt(10)
    assert np.std(found) < 2 * np.mean(errors)


def test_deeptime_takes_the_weights():
    """Covariances of weighted frames are the sums by hand."""
    runs = autoregressive(300, 4, seed=3)
    model = WeightingEstimator(lagtime=1).fit(runs).fetch_model()
    x, y = (np.concatenate([run[part] for run in runs])[:, 0] for part in (slice(-1), slice(1, None)))
    w = model.weights(x)
    by_hand = (w @ (x * y) / w.sum(), w @ (x * x) / w.sum())
    covariances = Covariance(1, compute_c0t=True, remove_data_mean=False, bessels_correction=False)
    theirs = covariances.fit(runs, weights=model).fetch_model()
    assert (theirs.cov_0t.item(), theirs.cov_00.item()) == pytest.approx(by_hand)


def test_tica_on_weighted_frames_finds_the_decay_of_one_step():
    found = []
    for seed in range(10):
        runs = autoregressive(150, 4, seed)
        model = WeightingEstimator(lagtime=1).fit(runs).fetch_model()
        found.append(TICA(lagtime=1).fit(runs, weights=model).fetch_model().singular_values[0])
    assert abs(np.mean(found) - 0.5) < 4 * np.std(found) / np.sqrt(10)
    assert np.std(found) < 0.1


def test_the_estimator_has_the_methods_of_deeptimes():
    runs = autoregressive(60, 4, seed=5)
    ours, theirs = WeightingEstimator(lagtime=1), KoopmanWeightingEstimator(lagtime=1)
    for name in ("fit", "partial_fit", "fetch_model", "fit_fetch", "transform", "has_model", "lagtime"):
        assert hasattr(theirs, name)
        assert hasattr(ours, name)
    assert ours.fetch_model() is None
    with pytest.raises(ValueError, match="fit the estimator first"):
        ours.transform(runs[0])
    fitted = ours.fit_fetch(runs).weights(runs[0])
    in_parts = WeightingEstimator(lagtime=1)
    for run in runs:
        in_parts.partial_fit((run[:-1], run[1:]))
    np.testing.assert_allclose(in_parts.transform(runs[0]), fitted)
    np.testing.assert_allclose(ours.fit(runs).transform(runs[0]), fitted)
    np.testing.assert_allclose(ours.fetch_model()(runs[0]), fitted)


def test_the_double_well(tmp_path, monkeypatch, capsys):
    """The example's truth is a half: ours is within 2.5 standard errors of it, the logged share is not."""
    monkeypatch.setattr(sys, "argv", ["double_well.py", "--output", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "double_well.py"), run_name="__main__")
    logged, ours, _ = capsys.readouterr().out.splitlines()
    value, width = (float(ours.split()[place]) for place in (1, 3))
    assert abs(value - 0.5) < 2.5 * width / 1.96
    assert float(logged.split()[5].rstrip(",")) > 0.65
    assert (tmp_path / "double_well.png").exists()
