"""Many short chains of a slow sampler: their draws, weighted towards the distribution that they have not reached yet.

A random-walk Metropolis sampler of a correlated Gaussian is run for a few steps from wide starts. The truth is
known, so that the plain means and the weighted ones can be compared with it.

    python examples/mcmc_draws.py --output docs/results
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import ope_vpm as ov

MEAN = np.array([1.0, -1.0])
COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]])
CHAINS, DRAWS = 200, 30
STEP = 0.35
"""The proposals' standard deviation: about four of five are accepted, and a chain needs some fifty draws to forget its
start."""


def metropolis(seed: int) -> np.ndarray:
    """Draws of shape (chains, draws, 2), started evenly over a square whose centre is not the mean."""
    rng = np.random.default_rng(seed)
    precision = np.linalg.inv(COVARIANCE)

    def log_density(x: np.ndarray) -> np.ndarray:
        return -0.5 * np.einsum("ni,ij,nj->n", x - MEAN, precision, x - MEAN)

    now = rng.uniform(-2, 4, (CHAINS, 2))
    draws = [now]
    for _ in range(DRAWS - 1):
        proposed = now + STEP * rng.standard_normal(now.shape)
        accepted = np.log(rng.uniform(size=CHAINS)) < log_density(proposed) - log_density(now)
        now = np.where(accepted[:, None], proposed, now)
        draws.append(now)
    return np.stack(draws, axis=1)


def draw(found: ov.PostProcessed, path: Path) -> None:
    """All draws as they are, and with the size of their weights; an ellipse holds 95 % of the true distribution."""
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    points, weights = found.draws.reshape(-1, 2), found.weights.ravel()
    angle = np.linspace(0, 2 * np.pi, 200)
    ellipse = MEAN[:, None] + np.sqrt(5.99) * np.linalg.cholesky(COVARIANCE) @ [np.cos(angle), np.sin(angle)]
    titles = ("the draws", "the draws, weighted")
    for axes, size, title in zip(
        figure.subplots(1, 2, sharey=True), (np.ones(len(points)), weights), titles, strict=True
    ):
        axes.scatter(*points.T, s=3 * size, color="C3", alpha=0.3, lw=0)
        axes.plot(*ellipse, color="k", lw=1)
        axes.plot(*np.average(points, axis=0, weights=size), marker="+", ms=14, mew=2, color="C0")
        axes.set(title=title, xlim=(-3, 5), ylim=(-5, 5), xlabel="x[0]")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("x[1]")
    figure.savefig(path, dpi=150)


def main() -> None:
    """Sample, weight and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("results"), help="the folder for the picture")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    found = ov.post_process_mcmc(metropolis(given.seed), chains=CHAINS)  # ArviZ's InferenceData would do as well
    print(found)
    product = found.expectation(lambda x: (x[:, 0] - MEAN[0]) * (x[:, 1] - MEAN[1]), "covariance")
    print(f"covariance       plain {product.plain:.2f}   corrected {product.value:.2f}   true {COVARIANCE[0, 1]}")
    print(f"true means       {MEAN[0]} and {MEAN[1]}")
    draw(found, given.output / "mcmc_draws.png")


if __name__ == "__main__":
    main()
