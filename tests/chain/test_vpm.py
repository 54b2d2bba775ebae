"""What holds for every solver: the contract of VPM.fit and of what it returns."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.chain import monitor
from ope_vpm.chain.diagnostics import FUNCTIONS, _waves
from ope_vpm.chain.solvers.neural import _split
from ope_vpm.chain.solvers.solution import Solution
from ope_vpm.chain.vpm import _weights
from ope_vpm.linear.features import median_bandwidth

RNG = np.random.default_rng(0)
FINITE = ov.Transitions(RNG.integers(5, size=300), RNG.integers(5, size=300), x_initial=[0, 1])
CONTINUOUS = ov.Transitions(
    RNG.uniform(-3, 3, (400, 2)),
    0.5 * RNG.uniform(-3, 3, (400, 2)) + RNG.normal(size=(400, 2)),
    x_initial=np.zeros((3, 2)),
)
SOLVERS = {
    "tabular": (FINITE, dict(solver="tabular")),
    "tabular steps": (FINITE, dict(solver="tabular", steps=30)),
    "kernel": (CONTINUOUS, dict(solver="kernel", n_features=40)),
    "kernel nystrom": (CONTINUOUS, dict(solver="kernel", n_features=40, features="nystrom", steps=20)),
    "neural": (CONTINUOUS, dict(solver="neural", steps=5, batch_size=100)),
    "neural paper": (CONTINUOUS, dict(solver="neural", preset="paper", steps=5, batch_size=100)),
}


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_contract(name, gamma, tmp_path):
    pairs, options = SOLVERS[name]
    before = [pairs.x.copy(), pairs.x_next.copy()]
    estimate = ov.VPM(gamma=gamma, **options).fit(pairs)
    assert estimate.weights.shape == (len(pairs),)
    assert estimate.weights.min() >= 0
    assert estimate.weights.sum() == pytest.approx(len(pairs))
    np.testing.assert_allclose(estimate.ratio(pairs.x), estimate.weights, rtol=1e-4, atol=1e-6)
    assert float(estimate.expectation(np.ones(len(pairs)))) == pytest.approx(1)
    assert estimate.expectation(np.ones(len(pairs))).standard_error == pytest.approx(0, abs=1e-6 + (gamma < 1))
    np.testing.assert_array_equal(pairs.x, before[0])
    np.testing.assert_array_equal(pairs.x_next, before[1])

    again = ov.VPM(gamma=gamma, **options).fit(pairs)
    np.testing.assert_array_equal(again.weights, estimate.weights)

    value = estimate.expectation(np.arange(len(pairs)))
    estimate.save(tmp_path / "estimate.npz")
    loaded = ov.StationaryEstimate.load(tmp_path / "estimate.npz")
    np.testing.assert_array_equal(loaded.weights, estimate.weights)
    np.testing.assert_allclose(loaded.ratio(pairs.x), estimate.ratio(pairs.x))
    assert loaded.expectation(np.arange(len(pairs))).standard_error == pytest.approx(value.standard_error)
    assert str(loaded.diagnostics) == str(estimate.diagnostics)
    json.dumps(estimate.diagnostics.as_dict())


@pytest.mark.parametrize("name", ["tabular", "kernel"])
def test_standard_errors_halve_with_four_times_the_data(name):
    pairs, options = SOLVERS[name]
    if name == "kernel":
        options = options | dict(bandwidth=2.0, ridge=1e-3, steps=None)
    four_times = ov.Transitions(np.concatenate([pairs.x] * 4), np.concatenate([pairs.x_next] * 4))
    errors = [
        ov.VPM(**options).fit(data).expectation(lambda x: x.reshape(len(x), -1)[:, 0]).standard_error
        for data in (pairs, four_times)
    ]
    assert errors[1] / errors[0] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("rows", [20, 33, 50, 100, 150, 199, 201])
def test_few_rows_are_enough_to_choose_settings(rows):
    rng = np.random.default_rng(rows)
    estimate = ov.VPM().fit(ov.Transitions(rng.normal(size=(rows, 2)), rng.normal(size=(rows, 2))))
    assert np.isfinite(estimate.weights).all()


def test_auto_chooses_by_kind_and_dimension():
    assert ov.VPM().fit(FINITE).diagnostics.solver == "tabular"
    assert ov.VPM(n_features=20).fit(CONTINUOUS).diagnostics.solver == "kernel"
    wide = ov.Transitions(RNG.normal(size=(60, 65)), RNG.normal(size=(60, 65)))
    assert ov.VPM(steps=2).fit(wide).diagnostics.solver == "neural"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ov.VPM(gamma=1.2), ValueError, r"gamma must be a number in \[0, 1\]: got 1.2"),
        (lambda: ov.VPM(gamma=float("nan")), ValueError, "gamma must be"),
        (lambda: ov.VPM(solver="magic"), ValueError, "known are auto, tabular, kernel, neural"),
        (lambda: ov.VPM(solver="kernel", ridges=1.0), TypeError, r"no option 'ridges': did you mean 'ridge'\?"),
        (lambda: ov.VPM(solver="kernel").fit(FINITE), ValueError, "does not fit x of integers: use tabular"),
        (lambda: ov.VPM(solver="tabular").fit(CONTINUOUS), ValueError, "use kernel or neural"),
        (lambda: ov.VPM(gamma=0.9).fit(ov.Transitions([0, 1], [1, 0])), ValueError, "gamma=0.9 needs initial states"),
        (lambda: ov.VPM().fit(FINITE).ratio([0.5]), TypeError, "floats != integers"),
        (lambda: ov.VPM().fit(FINITE).ratio(1), ValueError, "must be an array"),
        (lambda: ov.VPM().fit((FINITE.x, FINITE.x_next)), TypeError, "takes Transitions"),
        (lambda: ov.VPM(seed=None), ValueError, "seed must be"),
        (lambda: ov.VPM(gamma="1"), ValueError, "gamma must be a number"),
        (lambda: ov.VPM().fit(ov.Transitions(np.zeros((2, 1)), np.ones((2, 1)))), ValueError, "at least 20 rows"),
        (lambda: ov.VPM().fit(ov.Transitions(np.zeros((50, 1)), np.ones((50, 1)))), ValueError, "not all one point"),
        (lambda: ov.VPM().fit(FINITE).expectation(np.full(300, np.nan)), ValueError, "f must be finite: row 0"),
        (lambda: ov.VPM().fit(FINITE).expectation([1.0]), ValueError, "one number per row"),
        (lambda: ov.VPM(n_features=20).fit(CONTINUOUS).ratio(np.zeros((1, 3))), ValueError, "3 != 2"),
        (lambda: ov.VPM(n_features=20).fit(CONTINUOUS).probabilities(), TypeError, "needs finite states"),
    ],
)
def test_misuse_is_told_at_once(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_files_from_before_there_were_doubts_are_loaded(tmp_path):
    with pytest.warns(ov.StationaryWarning, match="2 closed classes"):
        estimate = ov.VPM(classes="all").fit(ov.Transitions([0, 1], [0, 1]))
    estimate.save(tmp_path / "new.npz")
    with np.load(tmp_path / "new.npz") as file:
        content = {name: file[name] for name in file.files}
    header = json.loads(str(content["header"]))
    assert header["diagnostics"].pop("doubts") == header["diagnostics"]["notes"]
    np.savez(tmp_path / "old.npz", **(content | {"header": np.array(json.dumps(header))}))
    assert ov.StationaryEstimate.load(tmp_path / "new.npz").diagnostics.doubts == estimate.diagnostics.doubts
    assert ov.StationaryEstimate.load(tmp_path / "old.npz").diagnostics.doubts == ()


def test_what_is_not_an_estimate_is_not_loaded(tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, header=np.array("{}"))
    with pytest.raises(ValueError, match="is not a saved estimate"):
        ov.StationaryEstimate.load(path)
    np.savez(path, header=np.array(object(), dtype=object))  # a pickle inside
    with pytest.raises(ValueError, match="is not a saved estimate"):
        ov.StationaryEstimate.load(path)
    for damaged in (b"", path.read_bytes()[:100]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is not a saved estimate"):
            ov.StationaryEstimate.load(path)
    path.write_text("hello")
    with pytest.raises(ValueError, match="is not a saved estimate"):
        ov.StationaryEstimate.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    estimate = ov.VPM().fit(FINITE)
    path = tmp_path / "estimate.npz"
    estimate.save(path)
    old = path.read_bytes()
    monkeypatch.setattr(np, "savez", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        estimate.save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_resampled_states_follow_the_stationary_distribution():
    estimate = ov.VPM().fit(FINITE)
    drawn = estimate.resample(20_000, seed=3)
    np.testing.assert_array_equal(drawn, estimate.resample(20_000, seed=3))
    share = np.bincount(drawn, minlength=5) / 20_000
    probability = estimate.probabilities()
    assert np.all(np.abs(share - probability) < 4 * np.sqrt(probability * (1 - probability) / 20_000))


@pytest.mark.parametrize("name", ["tabular steps", "kernel nystrom", "neural"])
def test_callback_sees_every_step_and_ctrl_c_gives_the_best_so_far(name):
    pairs, options = SOLVERS[name]
    seen = []

    def stop_at_three(step, info):
        seen.append((step, info["change"]))
        if step == 3:
            raise KeyboardInterrupt

    estimate = ov.VPM(callback=stop_at_three, **options).fit(pairs)
    assert [step for step, _ in seen] == [1, 2, 3]
    assert estimate.diagnostics.notes[-1] == "stopped by the user"
    assert estimate.weights.sum() == pytest.approx(len(pairs))


def test_the_bar_appears_on_a_terminal_only(monkeypatch):
    with monitor.Monitor("steps", 2) as quiet:
        monkeypatch.setattr(monitor.Monitor, "DELAY", -1.0)
        quiet.report(1, {"change": 1.0})
        assert quiet._bar is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with monitor.Monitor("steps", 2) as shown:
        shown.report(1, {"change": 1.0})
        assert shown._bar is not None


def test_diagnostics_by_hand():
    # p = (1/2, 1/2) and μ = (1/3, 2/3), so τ = (2/3, 4/3)
    estimate = ov.VPM().fit(ov.Transitions([0, 0, 1, 1], [1, 1, 0, 1]))
    np.testing.assert_allclose(estimate.weights, [2 / 3, 2 / 3, 4 / 3, 4 / 3])
    assert estimate.diagnostics.effective_sample_size == pytest.approx(16 / (2 * 4 / 9 + 2 * 16 / 9))
    assert estimate.diagnostics.mean_ratio == pytest.approx(1)
    assert estimate.diagnostics.stationarity_residual == pytest.approx(0, abs=1e-12)
    table = str(estimate.diagnostics)
    assert "effective sample size  4 of 4 (90.0%)" in table


def test_the_stationarity_residual_tells_a_wrong_distribution_from_a_right_one():
    rng = np.random.default_rng(1)
    x = rng.uniform(-4, 4, 5000)
    pairs = ov.Transitions(x, x / 2 + np.sqrt(0.75) * rng.standard_normal(5000))
    right = ov.VPM(n_features=100).fit(pairs).diagnostics
    wrong = ov.VPM(n_features=100, steps=1, ridge=1e-3, bandwidth=1.0).fit(pairs).diagnostics
    assert right.stationarity_residual < 2 * right.stationarity_noise
    assert wrong.stationarity_residual > 5 * wrong.stationarity_noise


def test_mass_beyond_the_data_is_noticed():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2000, 2))
    inside = ov.VPM(n_features=40).fit(ov.Transitions(x, rng.permutation(x))).diagnostics
    outside = ov.VPM(n_features=40).fit(ov.Transitions(x, x + 6)).diagnostics
    assert inside.unseen_mass < 0.05
    assert outside.unseen_mass > 0.9


@pytest.mark.parametrize(("rows", "expected"), [(19, None), (20, (18, 2)), (109, (99, 10))])
def test_a_tenth_is_held_out_of_twenty_rows_or_more(rows, expected):
    pairs = ov.Transitions(np.arange(rows), np.arange(rows))
    trained, judged = _split(pairs, True, np.random.default_rng(0))
    if expected is None:
        assert (trained, judged) == (pairs, None)
    else:
        assert (len(trained), len(judged)) == expected
        assert sorted([*trained.x, *judged.x]) == list(range(rows))
    assert _split(pairs, False, np.random.default_rng(0)) == (pairs, None)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "all probability goes to states that no row begins with"), (np.inf, "infinite"), (np.nan, "infinite")],
)
def test_a_ratio_without_a_sum_is_no_answer(value, said):
    with pytest.raises(ArithmeticError, match=said):
        _weights(ov.Transitions([0, 1], [1, 0]), Solution(lambda x: np.full(len(x), value), 1.0))


def test_weights_are_the_ratio_times_the_rows_weights():
    """Ratios 1 and 2 with weights 2 and 3: 2 and 6, scaled to sum to two rows."""
    pairs = ov.Transitions([1, 2], [2, 1], weight=[2.0, 3.0])
    np.testing.assert_allclose(_weights(pairs, Solution(lambda x: 1.0 * x, 1.0)), [0.5, 1.5])


def test_waves_have_lengths_of_a_quarter_to_two_median_distances():
    """cos(fz + φ) + cos(-fz + φ) = 2 cos φ cos fz gives each f; f·m is normal with deviation 4, 2, 1 or ½.

    So (f·m)² has mean (16 + 4 + 1 + ¼)/4, and |f·m| < 0.3 has the mean probability of |N| < 0.075, 0.15, 0.3 and 0.6,
    which are 0.060, 0.119, 0.236 and 0.451. Of 60 times 64 waves, within four standard errors.
    """
    x = np.random.default_rng(0).standard_normal((200, 1))
    pairs, median = ov.Transitions(x, x), median_bandwidth(x)
    points = x.mean() + x.std() * 0.05 * np.array([[-1.0], [0.0], [1.0]])
    found = []
    for seed in range(60):
        left, middle, right = _waves(pairs, np.random.default_rng(seed))(points)
        found.append(np.arccos(np.clip((left + right) / (2 * middle), -1, 1)) / 0.05 * median)
    lengths = np.concatenate(found)
    assert len(lengths) == 60 * FUNCTIONS
    assert np.mean(lengths**2) == pytest.approx(21.25 / 4, abs=4 * 13.3 / np.sqrt(len(lengths)))
    assert np.mean(lengths < 0.3) == pytest.approx(0.2166, abs=4 * np.sqrt(0.2166 * 0.7834 / len(lengths)))


def test_a_tail_that_is_not_known_is_null_in_json_and_comes_back(tmp_path):
    found = ov.VPM().fit(ov.Transitions([0, 0, 1], [0, 1, 0]))
    assert np.isnan(found.diagnostics.pareto_k)
    assert json.loads(json.dumps(found.diagnostics.as_dict(), allow_nan=False))["pareto_k"] is None
    found.save(tmp_path / "estimate.npz")
    assert np.isnan(ov.StationaryEstimate.load(tmp_path / "estimate.npz").diagnostics.pareto_k)
