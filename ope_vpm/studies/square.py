"""What the two MCMC studies share: points on the square, their HMC moves, and the distance to the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions
from ope_vpm.envs.potentials import HALF_WIDTH, POTENTIALS, exact_sample, grid_law, hmc_step, uniform_points
from ope_vpm.studies.distance import histogram, log_mmd, median_distance

TRUE_SAMPLE = 2000
CELLS = 240
"""Along an axis, for the MMD; a cell is 0.05 wide, where the kernel is about 2."""
MAP_CELLS = 60
"""Along an axis, for pictures of τ."""
TRUTH_SEED = 20_000
"""Added to a run's seed: a true sample that shares nothing with the data."""

PAPER_NETWORK: dict[str, Any] = {
    "preset": "paper", "hidden": [128, 128, 128, 128], "steps": 150, "inner_steps": 10, "batch_size": 1000,
    "learning_rate": 1e-3,
}  # fmt: skip


def centres(cells: int = CELLS) -> Floats:
    """The centres of equal cells along one side of the square."""
    return (np.arange(cells, dtype=np.float64) + 0.5) * (2 * HALF_WIDTH / cells) - HALF_WIDTH


@dataclass(frozen=True)
class Truth:
    """2000 exact draws, and the kernel width of the MMD to them."""

    law: Floats
    width: float

    @classmethod
    def draw(cls, potential: str, seed: int) -> Truth:
        """Draw them for one run."""
        sample = exact_sample(POTENTIALS[potential], TRUE_SAMPLE, seed + TRUTH_SEED)
        return cls(histogram(sample, None, centres()), median_distance(sample))

    def log_mmd(self, points: Floats, weights: Floats | None = None) -> float:
        """Of weighted points to the true sample."""
        return log_mmd(histogram(points, weights, centres()), self.law, centres(), self.width)


def hmc_path(potential: str, points: int, steps: int, seed: int) -> list[Floats]:
    """Uniform points, and where each of some HMC steps takes them: steps + 1 arrays."""
    rng = np.random.default_rng(seed)
    path = [uniform_points(points, rng)]
    for _ in range(steps):
        path.append(hmc_step(POTENTIALS[potential], path[-1], rng))
    return path


def ratio_map(transitions: Transitions, ratio: Floats) -> Floats:
    """The mean of τ at the rows of each cell, for a picture; 0 where there is no row."""
    x = np.asarray(transitions.x)
    share, mass = (histogram(x, weights, centres(MAP_CELLS)) for weights in (None, ratio))
    out: Floats = np.divide(mass, share, out=np.zeros_like(mass), where=share > 0)
    return out.astype(np.float32)


def true_density(potential: str) -> Floats:
    """The law itself on the cells of a picture."""
    return grid_law(POTENTIALS[potential], MAP_CELLS).reshape(MAP_CELLS, MAP_CELLS)


def heat_map(axes: Axes, values: Floats) -> None:
    """A function on the square, as colours; the brightest hundredth of cells share one."""
    extent = (-HALF_WIDTH, HALF_WIDTH, -HALF_WIDTH, HALF_WIDTH)
    top = float(np.quantile(values, 0.995)) or 1.0
    axes.imshow(values.T, origin="lower", extent=extent, cmap="viridis", vmin=0, vmax=top)
    axes.set_xticks([])
    axes.set_yticks([])


def scatter(axes: Axes, points: Floats) -> None:
    """A sample on the square."""
    axes.plot(points[:, 0], points[:, 1], "o", markersize=1, color="C0", rasterized=True)
    axes.set_xlim(-HALF_WIDTH, HALF_WIDTH)
    axes.set_ylim(-HALF_WIDTH, HALF_WIDTH)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
