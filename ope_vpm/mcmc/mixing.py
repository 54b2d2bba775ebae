"""Whether several chains draw from one distribution: R̂ beyond what autocorrelation explains, and separate regions.

Chains that are stuck in modes of their own are each stationary, so that no residual of stationarity shows it; how much
weight each mode has is then not in the draws, whatever is computed from them. Two things show it:

1. R̂ (Vehtari et al. 2021) compares the variance of all draws with the variance within chains. It is far above 1 also
   where chains are merely short or slow. They may then still be a sample of the stationary distribution, which
   transitions can tell and R̂ cannot, so that R̂ counts only beyond what the chains' own autocorrelation explains.
2. Chains that have no region in common (`chain_groups`): no draw led from one region to the other.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from scipy.special import chdtri, ndtri

from ope_vpm.arrays import Floats, Integers, mean_ranks
from ope_vpm.mcmc.cells import PARTITIONS, ROWS_PER_CELL, coordinate_scale

RHAT_LIMIT = 1.01
"""The largest R̂ of chains that have mixed: the recommendation of Vehtari, Gelman, Simpson, Carpenter and Bürkner,
"Rank-normalization, folding, and localization: an improved R̂", Bayesian Analysis 16 (2021)."""
NOISE_LEVEL = 0.001
"""The probability, over all coordinates, that R̂ of chains that have mixed is beyond its sampling noise, if noise is
as `rhat_noise` says. Low, as that of the test for drifting means, for the same reason."""
FEWEST_TIMES = 20.0
"""Chains shorter than so many of their own autocorrelation times do not know that time well enough to judge R̂ by it.
With 10, 30 of 600 sets of AR(1) chains with autocorrelation 0.9 (4 x 200, 4 x 100 and 20 x 100 draws) were said not to
mix; with 20, 1 of 600."""
SMALLEST_SHARE = 0.05
"""Groups of chains with a smaller share of the draws do not count: among many short chains one that began far outside
often has its region for itself, and that region has little weight. A round number; one chain in twenty counts."""


@dataclass(frozen=True)
class Mixing:
    """Convergence diagnostics of several chains: R̂, effective sample sizes, overlap."""

    chains: int
    """How many there are."""
    rhat: Floats
    """R̂ of each coordinate; NaN where it is constant, or where chains have fewer than 4 draws."""
    noise: Floats
    """The largest R̂ that sampling noise explains, of each coordinate; ∞ where chains are too short to tell."""
    groups: int
    """How many groups of chains there are that have no region in common."""

    @property
    def apart(self) -> str | None:
        """What to say of chains without a region in common; None where there are none."""
        if self.groups == 1:
            return None
        return (
            f"the chains are in at least {self.groups} groups without a region in common, and no draw led from one to "
            "another"
        )

    @property
    def differ(self) -> str | None:
        """What to say of chains that differ by more than their autocorrelation explains; None where none do."""
        beyond = self.rhat > np.maximum(self.noise, RHAT_LIMIT)
        if not beyond.any():
            return None
        who = "chains, or halves of them," if self.chains > 1 else "the two halves of the chain"
        largest = self.rhat[beyond].max()
        return f"{who} differ by more than autocorrelation explains (R̂ = {largest:.3g}; mixed chains: {RHAT_LIMIT})"


def mixing(chains: Floats, seed: int) -> Mixing:
    """Compute the convergence diagnostics of chains.

    Args:
        chains: shape (chains, draws, d).
        seed: of the regions.
    """
    number, _, size = chains.shape
    columns = [chains[:, :, i] for i in range(size)]
    level = NOISE_LEVEL / size
    return Mixing(
        chains=number,
        rhat=np.array([rhat(column) for column in columns]),
        noise=np.array([rhat_noise(column, level) for column in columns]),
        groups=chain_groups(chains, np.random.default_rng([seed, 3])),
    )


def rhat(chains: Floats) -> float:
    """Return R̂ of one coordinate: the larger one of rank-normalised draws and of their folded form.

    Each chain is cut into halves. Ranks make R̂ defined for any distribution, and folding, |x - median|, shows chains
    that differ in scale and not in location. NaN where all draws are equal, ∞ where no chain moves and they differ.

    Args:
        chains: shape (chains, draws).
    """
    if chains.shape[1] < 4:
        return float("nan")
    return float(max(_rhat(_rank_normalised(each)) for each in _bulk_and_folded(chains)))


def rhat_noise(chains: Floats, level: float) -> float:
    """Return the R̂ of one coordinate that chains which have mixed exceed with probability `level` or less.

    The means of M half chains of n draws vary by W·t/n, with W the variance and t the autocorrelation time within
    chains; so R̂² - 1 is about t/n·χ²/(M - 1), with M - 1 degrees of freedom. The two forms of R̂ share the level.

    Args:
        chains: shape (chains, draws).
        level: of the test.
    """
    if chains.shape[1] < 4:
        return float("inf")
    half, draws = chains.shape[1] // 2, chains.shape[1]
    time = 1.0
    for each in _bulk_and_folded(chains):
        ranked = _rank_normalised(each).reshape(2, len(chains), half).transpose(1, 0, 2).reshape(len(chains), -1)
        moving = np.ptp(ranked, axis=1, keepdims=True) > 0  # deviations of equal numbers need not be 0, by rounding
        time = max(time, autocorrelation_time((ranked - ranked.mean(axis=1, keepdims=True)) * moving))
    if draws < FEWEST_TIMES * time:
        return float("inf")
    freedom = 2 * len(chains) - 1
    return float(np.sqrt(1 + time / half * chdtri(freedom, level / 2) / freedom))


def chain_groups(chains: Floats, rng: np.random.Generator) -> int:
    """Count the groups of chains that have no region in common, over the median of random partitions into regions.

    Regions are the Voronoi cells of draws taken at random, as many as `cell_ratio` has. Chains that visit one cell are
    in one group, and so are those linked by others. Within a group transitions tell how much weight each part has;
    between groups nothing does.

    Args:
        chains: shape (chains, draws, d).
        rng: draws the regions.
    """
    number, draws, size = chains.shape
    if number == 1:
        return 1
    rows = chains.reshape(-1, size)
    rows = rows / coordinate_scale(rows)
    cells = max(2, len(rows) // ROWS_PER_CELL)
    owner = np.repeat(np.arange(number), draws)
    found = []
    for _ in range(PARTITIONS):
        centres = rows[rng.choice(len(rows), size=min(cells, len(rows)), replace=False)]
        found.append(_groups(owner, np.asarray(cKDTree(centres).query(rows)[1]), number))
    return int(np.median(found))


def _groups(chain: Integers, cell: Integers, chains: int) -> int:
    """Count the connected components of chains and cells that hold a share of the draws worth counting."""
    size = chains + int(cell.max()) + 1
    visits = sparse.coo_array((np.ones(len(chain)), (chain, chains + cell)), shape=(size, size))
    _, component = connected_components(visits, directed=False)
    share = np.bincount(component[chain]) / len(chain)
    return max(1, int((share >= SMALLEST_SHARE).sum()))


def _bulk_and_folded(chains: Floats) -> tuple[Floats, Floats]:
    """Return half chains, first halves first, as they are and folded at their median, without an odd middle draw."""
    half = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :half], chains[:, -half:]])
    return halves, np.abs(halves - np.median(halves))


def _rank_normalised(values: Floats) -> Floats:
    """Replace values by normal quantiles of their ranks, (rank - 3/8)/(n + 1/4); equal values share their mean rank."""
    ranks = mean_ranks(values).reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))


def _rhat(halves: Floats) -> float:
    """Return √(((n-1)/n·W + B/n) / W) with W the mean variance within chains and B/n the variance of their means."""
    draws = halves.shape[1]
    moving = np.ptp(halves, axis=1) > 0  # the variance of equal numbers need not be 0, by rounding
    within = float((halves.var(axis=1, ddof=1) * moving).mean())
    between = float(halves.mean(axis=1).var(ddof=1)) if np.ptp(halves) > 0 else 0.0
    if within > 0:
        return float(np.sqrt((draws - 1) / draws + between / within))
    return float("inf") if between > 0 else float("nan")


def independent_draws(chains: Floats) -> float:
    """Return the effective sample size N / (1 + 2Σρ_k): the number of independent draws of equal precision.

    N is the number of all draws, and ρ_k the autocorrelation at lag k. Deviations are taken from the mean of all
    chains, so that chains with different means count as correlated (Gelman et al., Bayesian Data Analysis).

    Args:
        chains: one coordinate, shape (chains, draws).
    """
    return float(min(chains.size, chains.size / autocorrelation_time(chains - chains.mean())))


def autocorrelation_time(deviations: Floats) -> float:
    """Return the integrated autocorrelation time 1 + 2Σρ_k: how many successive draws tell as much as one independent.

    The sum ends where two successive ρ_k first add up to 0 or less (Geyer 1992). It is 1 for draws without variance.

    Args:
        deviations: of one coordinate from its mean, shape (chains, draws).
    """
    draws = deviations.shape[1]
    size = 2 ** int(np.ceil(np.log2(2 * draws)))
    power = np.abs(np.fft.rfft(deviations, size, axis=1)) ** 2
    covariance = np.fft.irfft(power, size, axis=1)[:, :draws].mean(axis=0) / draws
    if covariance[0] <= 0:
        return 1.0
    rho = covariance / covariance[0]
    whole = (draws - 1) // 2
    pairs = rho[1 : 2 * whole : 2] + rho[2 : 2 * whole + 1 : 2]
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(1 + 2 * pairs[:stop].sum())
