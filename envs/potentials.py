"""Four potentials U on the square [-6, 6]² with density ∝ e^{-U}, and a Hamiltonian Monte Carlo step on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.optional import torch

HALF_WIDTH = 6.0
"""Half the side of the square, as in the paper: x is drawn from Unif[-6, 6]²."""
LEAPFROG_STEP = 0.5
"""The size of the one leapfrog step of the paper's HMC operator."""
Potential = Callable[["torch.Tensor"], "torch.Tensor"]


def two_gaussians(z: torch.Tensor) -> torch.Tensor:
    """Return the potential of two equal Gaussians at ±(2, 2) with variance 0.64; the paper does not specify its own."""
    to_plus, to_minus = ((z - 2) ** 2).sum(1), ((z + 2) ** 2).sum(1)
    return -torch.logaddexp(-to_plus / (2 * 0.64), -to_minus / (2 * 0.64))


def funnel(z: torch.Tensor) -> torch.Tensor:
    """Return the potential of z₁ ~ N(0, 2²), z₂ | z₁ ~ N(0, e^{-z₁}).

    The conditional variance is capped at 10: the paper truncates its potentials numerically.
    """
    variance = torch.exp(-z[:, 0]).clamp(max=10.0)
    return z[:, 0] ** 2 / 8 + z[:, 1] ** 2 / (2 * variance) + variance.log() / 2


def kidney(z: torch.Tensor) -> torch.Tensor:
    """Return the potential of a ring of radius 2 whose density is highest at z₁ = ±2."""
    ring = ((z.norm(dim=1) - 2) / 0.4) ** 2 / 2
    sides = torch.logaddexp(-(((z[:, 0] - 2) / 0.6) ** 2) / 2, -(((z[:, 0] + 2) / 0.6) ** 2) / 2)
    return ring - sides


def banana(z: torch.Tensor) -> torch.Tensor:
    """Return the potential of z₁ ~ N(0, 1), z₂ | z₁ ~ N(z₁² - 1, 1)."""
    return z[:, 0] ** 2 / 2 + (z[:, 1] - z[:, 0] ** 2 + 1) ** 2 / 2


POTENTIALS: dict[str, Potential] = {"2gauss": two_gaussians, "funnel": funnel, "kidney": kidney, "banana": banana}
"""The potentials by the paper's names."""


def uniform_sample(n: int, rng: np.random.Generator) -> Floats:
    """Draw from the paper's probe distribution, uniform on the square; shape (n, 2)."""
    return rng.uniform(-HALF_WIDTH, HALF_WIDTH, size=(n, 2))


def hmc_step(potential: Potential, x: Floats, rng: np.random.Generator) -> Floats:
    """Take one Hamiltonian Monte Carlo step: fresh momentum, one leapfrog step, and a Metropolis test.

    Proposals outside the square are rejected, which truncates the density to it.
    """
    start, momentum = torch.from_numpy(x), torch.from_numpy(rng.standard_normal(x.shape))
    energy, slope = _with_gradient(potential, start)
    half = momentum - LEAPFROG_STEP / 2 * slope
    proposal = start + LEAPFROG_STEP * half
    new_energy, new_slope = _with_gradient(potential, proposal)
    new_momentum = half - LEAPFROG_STEP / 2 * new_slope
    gain = energy - new_energy + ((momentum**2).sum(1) - (new_momentum**2).sum(1)) / 2
    inside = proposal.abs().amax(1) <= HALF_WIDTH
    accepted = inside.numpy() & (np.log(rng.uniform(size=len(x))) < gain.numpy())
    return np.where(accepted[:, None], proposal.numpy(), x)


def grid(cells: int) -> Floats:
    """Return the centres of cells² equal cells of the square, shape (cells², 2)."""
    centre = (np.arange(cells) + 0.5) * (2 * HALF_WIDTH / cells) - HALF_WIDTH
    first, second = np.meshgrid(centre, centre, indexing="ij")
    return np.stack([first.ravel(), second.ravel()], axis=1)


def grid_probabilities(potential: Potential, cells: int) -> Floats:
    """Return the probability of each cell of `grid`, by the density at its centre."""
    energy = potential(torch.from_numpy(grid(cells))).numpy()
    density = np.exp(energy.min() - energy)
    return density / density.sum()


SAMPLED = 1200
"""Cells along a side for exact draws: each is 0.01 wide, far below the width of any feature of the densities."""


def exact_sample(potential: Potential, n: int, seed: int) -> Floats:
    """Draw n independent states from the density: a cell of a fine grid by its probability, then uniform within it.

    Args:
        potential: U.
        n: the number of draws.
        seed: of the draws.
    """
    rng, cells = np.random.default_rng(seed), SAMPLED
    cell = rng.choice(cells * cells, size=n, p=grid_probabilities(potential, cells))
    jitter = (rng.uniform(size=(n, 2)) - 0.5) * (2 * HALF_WIDTH / cells)
    return grid(cells)[cell] + jitter


def _with_gradient(potential: Potential, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = z.detach().requires_grad_(True)
    energy = potential(z)
    (slope,) = torch.autograd.grad(energy.sum(), z)
    return energy.detach(), slope
