"""Equilibrium from short runs that begin in the wrong places: a double well, by our weights and by deeptime's.

400 runs of 2.5 time units begin in the right well in 85 of 100 cases; the two wells are alike, so the truth is a half.

    python examples/double_well.py --output docs/results
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from deeptime.covariance import KoopmanWeightingEstimator
from matplotlib.figure import Figure

import ope_vpm as ov
from ope_vpm.envs.diffusions import DoubleWell

RUNS, STEPS, DT, EVERY, LAG = 400, 250, 0.01, 10, 5
CENTRES = np.linspace(-1.8, 1.8, 12)
"""Centres of the Gaussian bumps that deeptime's weights are linear in, as far apart as they are wide."""


def bumps(x: np.ndarray) -> np.ndarray:
    """Features for deeptime; ours are chosen from the data."""
    return np.exp(-((x - CENTRES) ** 2) / (2 * np.ptp(CENTRES[:2]) ** 2))


def main() -> None:
    """Simulate, weight, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("results"), help="the folder for the picture")
    output, well, rng = parser.parse_args().output, DoubleWell(), np.random.default_rng(0)
    path = [np.where(rng.random(RUNS) < 0.85, 1.0, -1.0) + 0.3 * rng.standard_normal(RUNS)]
    for _ in range(STEPS):
        path.append(well.euler_maruyama(path[-1], DT, rng))
    runs = list(np.stack(path[::EVERY], axis=1)[..., None])
    x = np.concatenate(runs)

    found = ov.chain.weights(runs, LAG)
    theirs = KoopmanWeightingEstimator(LAG).fit([bumps(run) for run in runs]).fetch_model().weights(bumps(x))
    print(f"frames in the right well  {np.mean(x > 0):.3f}, in equilibrium 0.5")
    print(f"ours                      {found.expectation(lambda x: x[:, 0] > 0)!r}, Pareto k̂ {found.pareto_k:.2f}")
    negative = f"{np.mean(theirs < 0):.1%} of weights negative"
    print(f"deeptime's                {theirs @ (x[:, 0] > 0) / theirs.sum():.3f}, {negative}")

    axes = (figure := Figure(figsize=(7.2, 3.8), layout="constrained")).subplots()
    bins, fine = np.linspace(-2, 2, 41), np.linspace(-2, 2, 401)
    drawn = {"logged": (None, "C7"), "ours": (np.concatenate(found.frames), "C3"), "deeptime, Koopman": (theirs, "C0")}
    for name, (weight, colour) in drawn.items():
        axes.hist(x[:, 0], bins, weights=weight, density=True, histtype="step", color=colour, lw=1.6, label=name)
    axes.plot(fine, well.density(fine), color="k", lw=1, label="equilibrium")
    axes.set(xlabel="x", ylabel="density", title="A double well, from short runs that begin mostly on the right")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    output.mkdir(parents=True, exist_ok=True)
    figure.savefig(output / "double_well.png", dpi=150)


if __name__ == "__main__":
    main()
