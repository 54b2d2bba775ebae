"""Distances between an estimated distribution and the true one, and the square on which MCMC is measured by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.spatial.distance import pdist

from ope_vpm.arrays import Floats
from ope_vpm.chain import Transitions
from ope_vpm.envs.potentials import HALF_WIDTH, POTENTIALS, exact_sample, grid_probabilities, hmc_step, uniform_sample

FLOOR = 1e-3
"""The weight of the uniform distribution that is mixed into an estimate before log KL(true‖estimate), because zeros
would make it infinite. A round number, small beside the errors that are compared."""


def log_kl(first: Floats, second: Floats) -> float:
    """Return log KL(first‖second), the logarithm of Σ first·log(first/second) over states where `first` is positive.

    The divergence is taken as at least 1e-13, the size of rounding errors, so that the logarithm is at least -30.
    """
    on = first > 0
    divergence = float(np.sum(first[on] * np.log(first[on] / second[on])))
    return float(np.log(max(divergence, 1e-13)))


def log_kl_both_ways(truth: Floats, estimate: Floats) -> tuple[float, float]:
    """Return log KL(truth ‖ 0.999·estimate + 0.001·uniform) and log KL(estimate ‖ truth)."""
    mixed = (1 - FLOOR) * estimate + FLOOR / len(estimate)
    return log_kl(truth, mixed), log_kl(estimate, truth)


def median_distance(sample: Floats) -> float:
    """Return the kernel width of the paper's MMD: the median pairwise distance, of the first 1000 draws.

    A sample median of half a million pairs varies little, and all pairs of a larger sample would take much memory.
    """
    return float(np.median(pdist(sample[:1000].reshape(min(len(sample), 1000), -1))))


def median_distance_of_draws(centres: Floats, probabilities: Floats) -> float:
    """Return the median distance between two independent draws from a distribution on cells along a line."""
    gap = np.abs(centres[:, None] - centres).ravel()
    order = np.argsort(gap, kind="stable")
    cumulative = np.cumsum(np.outer(probabilities, probabilities).ravel()[order])
    return float(gap[order][np.searchsorted(cumulative, 0.5 * cumulative[-1])])


def log_mmd(first: Floats, second: Floats, centres: Floats, width: float) -> float:
    """Return the logarithm of the maximum mean discrepancy (MMD) of two distributions, with a Gaussian kernel.

    In two dimensions the kernel is a product of one-dimensional ones, so MMD² = Σ δ·(GδG), where δ is the difference of
    the cells' probabilities and G the kernel between cell centres: exact up to the size of a cell. MMD² is taken as at
    least 1e-26, the size of rounding errors.

    Args:
        first: probabilities of the cells, shape (m,) or (m, m).
        second: those of the other distribution, on the same cells.
        centres: the m cell centres along one axis.
        width: σ of the kernel exp(-‖x-y‖²/2σ²).
    """
    kernel = np.exp(-((centres[:, None] - centres) ** 2) / (2 * width**2))
    difference = first - second
    smooth = kernel @ difference if first.ndim == 1 else kernel @ difference @ kernel
    return float(np.log(max(np.sum(difference * smooth), 1e-26)) / 2)


def histogram(sample: Floats, weights: Floats | None, centres: Floats) -> Floats:
    """Return the share of a weighted sample in each cell; values outside all cells count in the nearest one.

    Args:
        sample: shape (n,) for cells along a line, (n, 2) for cells of a square.
        weights: of the sample; None: equal weights.
        centres: of equally wide cells along one axis.
    """
    step = centres[1] - centres[0]
    number = np.clip(np.rint((sample - centres[0]) / step).astype(int), 0, len(centres) - 1)
    shape = (len(centres),) * (1 if sample.ndim == 1 else sample.shape[1])
    flat = number if sample.ndim == 1 else np.ravel_multi_index(tuple(number.T), shape)
    counts = np.bincount(flat, weights=weights, minlength=int(np.prod(shape)))
    return counts.reshape(shape) / counts.sum()


TRUE_SAMPLE = 2000
"""The paper's size of the true sample. Ours is drawn exactly, the paper's by 2000 HMC steps."""
CELLS = 240
"""Cells along an axis for the MMD: a cell is 0.05 wide, while the kernel's width is about 2."""
MAP_CELLS = 60
"""Cells along an axis for heat maps of τ: at 50 000 uniform rows a cell has 14 of them."""
TRUTH_SEED = 20_000
"""Added to a run's seed, for a true sample that is independent of the data."""

PAPER_NETWORK: dict[str, Any] = {
    "preset": "paper", "hidden": [128, 128, 128, 128], "steps": 150, "inner_steps": 10, "batch_size": 1000,
    "learning_rate": 1e-3,
}  # fmt: skip
"""The settings of the paper's appendix."""


def centres(cells: int = CELLS) -> Floats:
    """Return the centres of equal cells along one side of the square."""
    return (np.arange(cells, dtype=np.float64) + 0.5) * (2 * HALF_WIDTH / cells) - HALF_WIDTH


@dataclass(frozen=True)
class Truth:
    """A true sample of 2000 exact draws, as a histogram, and the kernel width of the MMD to it."""

    distribution: Floats
    """The share of the true sample in each cell of the square, shape (240, 240)."""
    width: float
    """The median pairwise distance of the true sample."""

    @classmethod
    def draw(cls, potential: str, seed: int) -> Truth:
        """Draw the true sample of one run."""
        sample = exact_sample(POTENTIALS[potential], TRUE_SAMPLE, seed + TRUTH_SEED)
        return cls(histogram(sample, None, centres()), median_distance(sample))

    def log_mmd(self, sample: Floats, weights: Floats | None = None) -> float:
        """Return the logarithm of the MMD between a weighted sample and the true one."""
        return log_mmd(histogram(sample, weights, centres()), self.distribution, centres(), self.width)


def hmc_path(potential: str, n: int, steps: int, seed: int) -> list[Floats]:
    """Draw states uniformly on the square and move them by HMC; return the steps + 1 arrays of states.

    Args:
        potential: the name of the potential.
        n: the number of states.
        steps: the number of HMC steps.
        seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    path = [uniform_sample(n, rng)]
    for _ in range(steps):
        path.append(hmc_step(POTENTIALS[potential], path[-1], rng))
    return path


def ratio_map(transitions: Transitions, ratio: Floats) -> Floats:
    """Return the mean of τ over the rows in each cell of a heat map; 0 where there is no row."""
    x = np.asarray(transitions.x)
    share, mass = (histogram(x, weights, centres(MAP_CELLS)) for weights in (None, ratio))
    out: Floats = np.divide(mass, share, out=np.zeros_like(mass), where=share > 0)
    return out.astype(np.float32)


def true_density(potential: str) -> Floats:
    """Return the true probability of each cell of a heat map."""
    return grid_probabilities(POTENTIALS[potential], MAP_CELLS).reshape(MAP_CELLS, MAP_CELLS)


def heat_map(axes: Axes, values: Floats) -> None:
    """Draw a function on the square as a heat map; the highest 0.5 % of cells have the same colour."""
    extent = (-HALF_WIDTH, HALF_WIDTH, -HALF_WIDTH, HALF_WIDTH)
    top = float(np.quantile(values, 0.995)) or 1.0
    axes.imshow(values.T, origin="lower", extent=extent, cmap="viridis", vmin=0, vmax=top)
    axes.set_xticks([])
    axes.set_yticks([])


def scatter(axes: Axes, sample: Floats) -> None:
    """Draw a sample on the square."""
    axes.plot(sample[:, 0], sample[:, 1], "o", markersize=1, color="C0", rasterized=True)
    axes.set_xlim(-HALF_WIDTH, HALF_WIDTH)
    axes.set_ylim(-HALF_WIDTH, HALF_WIDTH)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
