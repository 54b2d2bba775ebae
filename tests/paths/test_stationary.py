"""The stationary distribution of logged paths against closed forms, and the command as a user meets it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import ope_vpm as ov
from ope_vpm.cli import main
from ope_vpm.envs.diffusions import DoubleWell, OrnsteinUhlenbeck
from ope_vpm.envs.geo_queue import GeoQueue

QUEUE = GeoQueue(0.8, 0.9)


def queue_paths(starts, steps, seed):
    rng = np.random.default_rng(seed)
    path = [np.asarray(starts)]
    for _ in range(steps):
        path.append(QUEUE.step(path[-1], rng))
    return list(np.stack(path, axis=1))


def test_queue_lengths_from_paths_that_start_far_too_long():
    truth = QUEUE.stationary_distribution(60)
    means, empty = [], []
    for seed in range(10):
        estimate = ov.stationary(queue_paths(np.arange(20), 150, seed))
        means.append(float(estimate.mean))
        empty.append(estimate.probabilities[0])
        assert estimate.logged_mean > 2
    for found, wanted in ((means, truth @ np.arange(60)), (empty, truth[0])):
        assert abs(np.mean(found) - wanted) < 4 * np.std(found, ddof=1) / np.sqrt(10)


def test_a_diffusion_s_mean_from_paths_on_their_way():
    process = OrnsteinUhlenbeck(2.0, 1.0, 1.0)
    means = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        path = [rng.uniform(-1, 3.5, size=50)]
        for _ in range(20):
            path.append(process.after(path[-1], 0.2, rng))
        means.append(float(ov.stationary(list(np.stack(path, axis=1)), n_features=30).mean))
    assert abs(np.mean(means) - 2) < 4 * np.std(means, ddof=1) / np.sqrt(10) + 0.02


def test_quantiles_of_a_distribution_worked_out_by_hand():
    estimate = ov.stationary([0, 1, 0, 1, 0, 1, 1, 0, 0], pool_increments=False)
    assert estimate.quantile(0) == 0
    assert estimate.quantile(1) == 1
    assert estimate.probabilities.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        estimate.quantile(2)


def two_states(seed, steps):
    """A path of the chain that goes from 0 to 1 with probability 0.1 and back with 0.2: its long-run mean is ⅓."""
    rng, path = np.random.default_rng(seed), [int(np.random.default_rng(seed + 10**6).random() < 1 / 3)]
    for draw in rng.random(steps):
        path.append(1 - path[-1] if draw < (0.1, 0.2)[path[-1]] else path[-1])
    return np.array(path)


@pytest.mark.parametrize("paths", [1, 5])
@pytest.mark.parametrize("lag", [1, 10])
def test_intervals_of_overlapping_pairs_cover(lag, paths):
    """200 logs of 2000 steps in all: with 95 % intervals, 179 or fewer covered has a probability of 0.002."""
    covered, means, errors = 0, [], []
    for seed in range(200):
        log = [two_states(1000 * seed + number, 2000 // paths) for number in range(paths)]
        mean = ov.stationary(log, lag=lag, pool_increments=False).mean
        covered += abs(mean - 1 / 3) < 1.96 * mean.standard_error
        means.append(float(mean))
        errors.append(mean.standard_error)
    assert 180 <= covered <= 198
    assert np.mean(errors) == pytest.approx(np.std(means), rel=0.15)


def test_lagged_standard_errors_are_saved(tmp_path):
    estimate = ov.stationary(two_states(0, 500), lag=7, pool_increments=False).estimate
    estimate.save(tmp_path / "estimate.npz")
    again = ov.StationaryEstimate.load(tmp_path / "estimate.npz")
    wanted = estimate.expectation(estimate.transitions.x)
    assert again.expectation(again.transitions.x).standard_error == pytest.approx(wanted.standard_error)


def test_the_mean_and_the_report_print_the_same_interval():
    found = ov.stationary(two_states(0, 500), pool_increments=False)
    assert str(found.mean) == f"{float(found.mean):.6g} ± {1.96 * found.mean.standard_error:.2g} (95 %)"
    assert str(found).splitlines()[0].split() == ["long-run", "mean", *str(found.mean).split()]


def test_a_path_that_drifts_away_is_doubted_where_it_is_printed():
    drift = np.cumsum(np.random.default_rng(0).standard_normal(500) + 0.5)
    assert "note: the chain forgets slowly" in str(ov.stationary(drift))
    steps = str(ov.stationary(np.arange(500) + 0.5))  # it only goes up: nothing about it is stationary
    assert "note: one more step changes the distribution (stationarity residual" in steps
    assert "note" not in str(ov.stationary(two_states(0, 2000)))


def test_whole_numbers_beyond_those_that_floats_hold_are_continuous():
    huge = 1e19 + 1e18 * two_states(0, 400)
    found = ov.stationary(huge)
    assert not found.counts
    assert float(found.mean) == pytest.approx(1e19 + 1e18 * float(ov.stationary(two_states(0, 400)).mean), rel=1e-3)


def test_a_lag_that_is_no_whole_number_is_named():
    with pytest.raises(TypeError, match=r"lag must be a whole number of steps: got 1\.5"):
        ov.stationary([0, 1, 0, 1], lag=1.5)


def test_paths_with_several_coordinates_are_refused():
    with pytest.raises(ValueError, match="numbers of shape"):
        ov.stationary(np.zeros((5, 2)))


def test_double_well_density_has_mass_one_and_two_equal_wells():
    well = DoubleWell()
    x = np.linspace(-4, 4, 4001)
    assert np.trapezoid(well.density(x), x) == pytest.approx(1, abs=1e-6)
    assert well.density(np.array([1.0])) == pytest.approx(well.density(np.array([-1.0])))
    assert well.density(np.array([0.0])) < 0.5 * well.density(np.array([1.0]))


def test_double_well_particles_keep_the_density():
    well, rng = DoubleWell(), np.random.default_rng(0)
    centres = np.linspace(-4, 4, 2001)
    x = rng.choice(centres, size=20_000, p=well.cell_probabilities(centres))
    before = np.mean(x**2)
    for _ in range(200):
        x = well.euler_maruyama(x, 0.002, rng)
    assert np.mean(x**2) == pytest.approx(before, abs=4 * np.std(x**2) / np.sqrt(10_000) + 0.01)


def test_the_queue_s_kernel_keeps_its_stationary_distribution():
    distribution = QUEUE.stationary_distribution(40)
    assert np.abs(distribution @ QUEUE.kernel(40) - distribution).max() < 1e-12


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["ope-vpm", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "log.csv"
    (lengths,) = queue_paths([3], 400, 0)
    path.write_text("time,length\n" + "\n".join(f"{t},{length}" for t, length in enumerate(lengths)) + "\n")
    return path


def test_the_command_prints_the_distribution_and_draws_it(log, monkeypatch, capsys):
    assert command(monkeypatch, "stationary", log, "--column", "length") == 0
    shown = capsys.readouterr().out
    assert "long-run mean" in shown
    assert "95%" in shown
    assert (log.parent / "log-stationary.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("time,size\n1,2\n", "its columns are time, size"),
        ("length\n1\ntwo\n", "row 3 is 'two'"),
        ("length\n1\nnan\n", "row 3 is 'nan'"),
        ("", "is empty"),
        ("length\n", "no rows"),
        ("length\n1\n", "no path is longer"),
    ],
)
def test_a_wrong_file_ends_in_one_sentence_and_code_2(log, monkeypatch, capsys, content, message):
    log.write_text(content)
    assert command(monkeypatch, "stationary", log, "--column", "length") == 2
    sentence = capsys.readouterr().err
    assert message in sentence
    assert sentence.count("\n") == 1


def test_a_log_that_drifts_one_way_is_refused_without_a_python_warning(log, monkeypatch, capsys):
    log.write_text("length\n" + "\n".join(map(str, range(30))) + "\n")
    assert command(monkeypatch, "stationary", log, "--column", "length") == 2
    sentence = capsys.readouterr().err
    assert "all probability goes to states that no row begins with" in sentence
    assert sentence.count("\n") == 1


@pytest.mark.parametrize("picture", ["distribution.txt", "no/distribution.png"])
def test_a_picture_that_cannot_be_written_is_refused_before_the_file_is_read(log, monkeypatch, capsys, picture):
    assert command(monkeypatch, "stationary", "none.csv", "--column", "length", "--picture", picture) == 2
    assert "distribution" in capsys.readouterr().err


def test_an_unknown_figure_ends_in_one_sentence_and_code_2(log, monkeypatch, capsys):
    assert command(monkeypatch, "reproduce", "queues") == 2
    assert "did you mean 'queue'" in capsys.readouterr().err
