"""How cells were chosen for diffusions: our settings and deeptime's on five processes that no study reports.

`python -m benchmarks cells [--runs N]`: seeds 100, 101, …; pairs as in the study of diffusions. It printed the figures
beside `OUR_VPM` in ope_vpm/studies/sde.py and `KOOPMAN_CELLS` in benchmarks/_peers.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks import _peers
from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions
from ope_vpm.mcmc import cell_ratio
from ope_vpm.studies.distance import histogram, log_mmd, median_distance_of_draws
from ope_vpm.studies.sde import PARTICLES, lagged_pairs

STEPS, FIRST_SEED, DT = (100, 300, 1000), 100, 0.001
Weights = Callable[[Transitions, int], Floats]


@dataclass(frozen=True)
class Langevin:
    """dX = -U'(X)dt + σdB, whose stationary density is ∝ exp(-2U/σ²)."""

    potential: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    sigma: float
    low: float
    high: float
    """Bounds that hold all but a negligible share of the stationary distribution."""

    def path(self, steps: int, seed: int) -> Floats:
        """Particles that begin evenly spaced over [0, 1], as in the study."""
        rng = np.random.default_rng(seed)
        path = np.empty((steps + 1, PARTICLES))
        path[0] = np.linspace(0, 1, PARTICLES)
        for step in range(steps):
            noise = self.sigma * np.sqrt(DT) * rng.standard_normal(PARTICLES)
            path[step + 1] = path[step] - self.slope(path[step]) * DT + noise
        return path

    def truth(self) -> tuple[Floats, Floats, float]:
        """Centres of cells, their probabilities, and the width of the MMD's kernel."""
        centres = np.linspace(self.low, self.high, 2001)
        energy = self.potential(centres)
        probabilities = np.exp(-2 * (energy - energy.min()) / self.sigma**2)
        probabilities /= probabilities.sum()
        return centres, probabilities, median_distance_of_draws(centres, probabilities)


PROCESSES = {
    "quartic": Langevin(
        lambda x: (x - 1.5) ** 4 + (x - 1.5) ** 2 / 2, lambda x: 4 * (x - 1.5) ** 3 + (x - 1.5), 2.0, -3, 6
    ),
    "tilted wells": Langevin(lambda x: (x**2 - 1) ** 2 - x, lambda x: 4 * x * (x**2 - 1) - 1, 1.2, -4, 4),
    "Gumbel": Langevin(lambda x: 2 * (x - 1.5 + np.exp(1.5 - x)), lambda x: 2 - 2 * np.exp(1.5 - x), 1.5, -3, 9),
    "Student": Langevin(lambda x: 3 * np.log(1 + (x + 1) ** 2), lambda x: 6 * (x + 1) / (1 + (x + 1) ** 2), 1.5, -9, 8),
    "waves": Langevin(lambda x: 0.6 * x**2 - 4 / 3 * np.cos(3 * x), lambda x: 1.2 * x + 4 * np.sin(3 * x), 2.0, -6, 6),
}
"""One well with steep walls, two unequal wells, a skewed one, heavy tails, and several wells in a row."""


def _ours(rows: int, partitions: int, steps: int | None) -> Weights:
    return lambda data, seed: cell_ratio(data, rows_per_cell=rows, partitions=partitions, steps=steps, seed=seed)


METHODS: dict[str, Weights] = {
    "ours, rows a cell 100": _ours(100, 5, None),
    "ours, 50": _ours(50, 5, None),
    "ours, 30": _ours(30, 5, None),
    "ours, 25": _ours(25, 5, None),
    "ours, 15": _ours(15, 5, None),
    "ours, 30, 11 partitions": _ours(30, 11, None),
    "ours, 30, 300 power steps": _ours(30, 5, 300),
} | {
    f"deeptime, {cells} cells": partial(lambda cells, data, seed: _peers.koopman_cell_weights(data, cells), cells)
    for cells in (30, 100, 200, 400)
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=4)
    seeds = range(FIRST_SEED, FIRST_SEED + parser.parse_args().runs)
    truths = {name: process.truth() for name, process in PROCESSES.items()}
    paths = {(name, seed): PROCESSES[name].path(max(STEPS), seed) for name in PROCESSES for seed in seeds}
    print(
        "| mean log MMD over processes | " + " | ".join(map(str, STEPS)) + " | all | CPU s |\n|---|---|---|---|---|---|"
    )
    for label, method in METHODS.items():
        scores: dict[int, list[float]] = {steps: [] for steps in STEPS}
        seconds = 0.0
        for (name, seed), path in paths.items():
            for steps in STEPS:
                data = lagged_pairs(path[: steps + 1])
                centres, probabilities, width = truths[name]
                start = time.process_time()
                weights = method(data, seed)
                seconds += time.process_time() - start
                sample = histogram(data.x[:, 0], weights, centres)
                scores[steps].append(log_mmd(sample, probabilities, centres, width))
        means = [float(np.mean(scores[steps])) for steps in STEPS]
        shown = " | ".join(f"{mean:.2f}" for mean in (*means, float(np.mean(means))))
        print(f"| {label} | {shown} | {seconds / (len(paths) * len(STEPS)):.3f} |", flush=True)


if __name__ == "__main__":
    main()
