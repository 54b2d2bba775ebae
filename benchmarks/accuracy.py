"""Accuracy of the solvers on chains whose stationary distribution is known in closed form.

Figures are for seeds 20 and up: settings were tuned on 100 and up, and 0 to 19 were seen while the network's were
chosen. `python -m benchmarks accuracy` takes about half an hour on two cores, most of it for the networks on 2gauss.
"""

from __future__ import annotations

import numpy as np

import ope_vpm as ov
from ope_vpm.arrays import Floats
from ope_vpm.envs.diffusions import OrnsteinUhlenbeck
from ope_vpm.envs.linear_gaussian import TARGET, LinearGaussian
from ope_vpm.envs.potentials import POTENTIALS, grid, grid_probabilities
from ope_vpm.studies.distance import hmc_path

FIRST = 20
"""The first seed, which no choice of settings has seen."""
SETTINGS = {
    "kernel": {"solver": "kernel"},
    "neural": {"solver": "neural"},
    "neural, paper": {"solver": "neural", "preset": "paper"},
}
"""The solvers for continuous states at their defaults, and the paper's network."""


def linear_gaussian(seeds: int = 20) -> None:
    """Print the error of E_μ[reward] for a chain in three dimensions, from 20 000 transitions."""
    system = LinearGaussian()
    truth = system.average_reward(TARGET)
    data = [system.transitions(20_000, seed) for seed in range(FIRST, FIRST + seeds)]
    print(f"\nlinear-Gaussian chain, n=20 000, {seeds} seeds; logged mean off by", end=" ")
    print(f"{np.mean([reward.mean() for _, reward in data]) - truth:+.3f}")
    for name, options in SETTINGS.items():
        fits = [ov.VPM(seed=seed, **options).fit(pairs) for seed, (pairs, _) in enumerate(data, FIRST)]
        values = [fit.expectation(reward) for fit, (_, reward) in zip(fits, data, strict=True)]
        error = np.array(values) - truth
        within = np.mean(np.abs(error) < 1.96 * np.array([value.standard_error for value in values]))
        print(f"  {name:15s} RMSE {rms(error):.4f}  bias {error.mean():+.4f}  inside 1.96 se {within:.0%}", flush=True)


def ornstein_uhlenbeck(seeds: int = 10) -> None:
    """Print the error of the mean and the variance of N(2, 1), from x ~ Unif[-4, 8] and x' a time 0.1 later."""
    print(f"\nOrnstein-Uhlenbeck, n=20 000, lag 0.1, {seeds} seeds: error of mean and variance (in standard errors)")
    process = OrnsteinUhlenbeck()
    for name, options in SETTINGS.items():
        errors = []
        for seed in range(FIRST, FIRST + seeds):
            rng = np.random.default_rng(seed)
            x = rng.uniform(-4, 8, 20_000)
            fit = ov.VPM(seed=seed, **options).fit(ov.Transitions(x, process.after(x, 0.1, rng)))
            mean = fit.expectation(x)
            errors.append([mean - process.mu, fit.expectation((x - mean) ** 2) - process.variance])
        average = np.mean(errors, axis=0)
        error = np.std(errors, axis=0, ddof=1) / np.sqrt(seeds)
        print(f"  {name:15s} mean {average[0]:+.4f} ({average[0] / error[0]:+.1f})", end="  ")
        print(f"variance {average[1]:+.4f} ({average[1] / error[1]:+.1f})", flush=True)


def two_modes(seeds: int = 3) -> None:
    """Print the total variation distance to a mixture of two Gaussians, from 50 000 uniform x and an HMC step each."""
    print(f"\n2gauss, 50 000 HMC pairs, {seeds} seeds: total variation on a 60 x 60 grid, share of the upper mode")
    cells = grid(60)
    truth = grid_probabilities(POTENTIALS["2gauss"], 600).reshape(60, 10, 60, 10).sum(axis=(1, 3)).ravel()
    for name, options in SETTINGS.items():
        rows = []
        for seed in range(FIRST, FIRST + seeds):
            fit = ov.VPM(seed=seed, **options).fit(ov.Transitions(*hmc_path("2gauss", 50_000, 1, seed)))
            estimate = fit.ratio(cells)
            estimate /= estimate.sum()
            rows.append([0.5 * np.abs(estimate - truth).sum(), estimate[cells.sum(axis=1) > 0].sum()])
        variation, upper = np.array(rows).T
        print(f"  {name:15s} TV {variation.mean():.3f} (worst {variation.max():.3f})", end="  ")
        print(f"upper mode {upper.min():.2f} to {upper.max():.2f}", flush=True)


def rms(errors: Floats) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def main() -> None:
    linear_gaussian()
    ornstein_uhlenbeck()
    two_modes()
