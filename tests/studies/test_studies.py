"""What the studies claim, on seeds that are neither reported nor tuned on."""

from __future__ import annotations

import numpy as np
import pytest

from ope_vpm.chain import Transitions
from ope_vpm.studies import convergence, queue, sde
from ope_vpm.studies.distance import Truth, hmc_path
from ope_vpm.studies.mcmc import GaussianModel
from ope_vpm.studies.study import Results, Rows

SEEDS = range(3000, 3010)


@pytest.mark.filterwarnings("ignore::ope_vpm.StationaryWarning")
@pytest.mark.parametrize("cell", [{"samples": 100, "finish": 0.9}, {"samples": 1000, "finish": 0.9}])
def test_queue_vpm_is_nearer_than_both_opponents_in_both_directions(cell):
    runs = [queue.run(cell, seed).rows for seed in SEEDS]
    for column in queue.COLUMNS:
        mean = {rows[0]["method"]: np.mean([row[column] for row in rows]) for rows in zip(*runs, strict=True)}
        assert mean["VPM"] < min(mean["model-based (exact)"], mean["model-based (paper)"]) - 0.5


def test_sde_vpm_improves_on_particles_at_every_checkpoint(monkeypatch):
    monkeypatch.setattr(sde, "CHECKPOINTS", (100, 300, 600))
    gains = []
    for seed in SEEDS:
        cells = [{"method": method, "setting": "μ=2 σ=2 θ=2"} for method in ("EM", "VPM")]
        plain, corrected = (sde.run(cell, seed).rows for cell in cells)
        gains.append([a["log_mmd"] - b["log_mmd"] for a, b in zip(plain, corrected, strict=True)])
    assert (np.mean(gains, axis=0) > 0.2).all()


def test_lagged_pairs_are_a_tenth_of_the_path_apart_and_from_its_second_half():
    steps = 100
    path = np.tile(np.arange(steps + 1.0)[:, None], (1, 50)) + np.linspace(0, 0.5, 50)
    sample, weights = sde.lagged(path, seed=0)
    assert sample.min() >= (steps - steps // 10) // 2
    assert sample.max() <= steps - steps // 10 + 0.5
    assert weights is not None
    assert weights.shape == sample.shape


def test_convergence_keeps_within_the_theorem_s_bound():
    steps, samples = 2000, 1000
    residual, weight = convergence.iterate({"method": "damped", "samples_a_step": samples}, 3000, steps)
    distribution = convergence.GeoQueue().stationary_distribution()
    start = np.sum((1 / len(distribution) - distribution) ** 2)
    noise = np.sum(1 / np.arange(1, steps + 1)) / samples
    assert weight @ residual / weight.sum() <= (start + noise) / weight.sum()


def test_without_noise_the_iteration_ends_at_the_closed_form():
    residual, _ = convergence.iterate({"method": "undamped", "samples_a_step": 0}, 0, 3000)
    assert residual[-1] < 1e-20


def test_slope_of_a_pure_power():
    rows = [
        {"method": "damped", "samples_a_step": 0, "step": step, "mean_residual": step**-0.5}
        for step in (100, 200, 500, 1000)
    ]
    assert convergence.slope(Results(Rows(rows)), 0) == pytest.approx(-0.5)


def test_the_gaussian_model_learns_a_linear_chain():
    rng = np.random.default_rng(3000)
    x = rng.uniform(-3, 3, size=(5000, 2))
    data = Transitions(x, 0.5 * x + [1.0, -1.0] + 0.1 * rng.standard_normal(x.shape))
    sample = GaussianModel(hidden=(32,), steps=300, learning_rate=1e-2).sample(data, x[:500], seed=0)
    assert sample.mean(axis=0) == pytest.approx([2.0, -2.0], abs=0.1)


def test_a_true_sample_is_at_the_floor_and_a_uniform_one_is_not():
    truth = Truth.draw("2gauss", 3000)
    start, moved = hmc_path("2gauss", 5000, 1, 3000)
    again = np.random.default_rng(1).standard_normal((2000, 2)) * 0.8 + np.where(np.arange(2000) % 2, 2, -2)[:, None]
    assert truth.log_mmd(again) < -3.4
    assert truth.log_mmd(moved) < truth.log_mmd(start)
    assert truth.log_mmd(start) > -1.5
