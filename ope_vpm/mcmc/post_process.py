"""What a user of MCMC wants: the same draws, weighted towards the law that their chain keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ope_vpm.arrays import Floats, effective_sample_size
from ope_vpm.chain import Transitions
from ope_vpm.chain.diagnostics import StationarityTest
from ope_vpm.mcmc.autocorrelation import independent_draws
from ope_vpm.mcmc.cells import cell_ratio, coordinate_scale
from ope_vpm.mcmc.samples import as_chains

BEYOND_NOISE = 2.0
"""A residual so many times what chance makes it is a sign that the draws are not stationary."""
FEWEST = 100.0
"""An effective sample size below which weights are not to be trusted."""
NORMAL_95 = 1.96
MOST_ROWS = 20_000
"""Rows that the stationarity residual looks at."""
FIT_PARTITIONS = 3
FEWEST_PIECES = 20
"""Fewer chains than this are cut into pieces, to have something to resample."""


@dataclass(frozen=True)
class Corrected:
    """One expectation, plain and corrected."""

    name: str
    plain: float
    """The mean over all draws."""
    value: float
    """The weighted mean."""
    interval: tuple[float, float]
    """95 %, by bootstrap over chains; it does not know of bias where no draw ever went."""


@dataclass(frozen=True, eq=False)
class PostProcessed:
    """Draws with weights, and whether the weights were worth it."""

    draws: Floats
    """As they came, (chains, draws, d)."""
    weights: Floats
    """One for each draw, (chains, draws), with mean 1."""
    coordinates: tuple[Corrected, ...]
    """The mean of each coordinate."""
    effective_sample_size: float
    """Of the weights: (Σw)²/Σw²."""
    independent_draws: Floats
    """How many independent draws the uncorrected chains are worth, for the mean of each coordinate."""
    residual_before: float
    """How far the plain draws are from being kept by their own transitions."""
    residual_after: float
    noise: float
    """The size of `residual_before` by chance."""
    helped: bool
    verdict: str
    replicates: Floats
    """Weights of bootstrap fits, (fits, chains·(draws - 1)): each draw that has a successor."""

    def expectation(self, f: Callable[[Floats], Floats], name: str = "f") -> Corrected:
        """The mean of f, a function of draws of shape (n, d) that returns n numbers."""
        values = np.asarray(f(self.draws.reshape(-1, self.draws.shape[2])), dtype=np.float64)
        if values.shape != (self.weights.size,):
            raise ValueError(f"f must give one number a draw: shape {values.shape} != ({self.weights.size},)")
        return _corrected(name, values.reshape(self.weights.shape), self.weights, self.replicates)

    def __str__(self) -> str:
        lines = [
            f"{c.name:<16} plain {c.plain:.4g}   corrected {c.value:.4g}  [{c.interval[0]:.4g}, {c.interval[1]:.4g}]"
            for c in self.coordinates
        ]
        lines += [
            f"effective sample size of the weights  {self.effective_sample_size:.0f} of {self.weights.size}",
            f"independent draws before correcting   {self.independent_draws.min():.0f} (worst coordinate)",
            f"stationarity residual                 {self.residual_before:.2g} before, {self.residual_after:.2g} after "
            f"(chance: {self.noise:.2g})",
            self.verdict,
        ]
        return "\n".join(lines)


def post_process_mcmc(samples: Any, *, bootstrap: int = 40, seed: int = 0) -> PostProcessed:
    """Weigh the draws of a Markov chain sampler by how often its stationary law visits them.

    Pairs of consecutive draws are transitions of the sampler, whatever it is; no density is needed. The weights
    come from VPM on random cells (`cell_ratio`). Many short chains from a wide start gain most. Long chains that
    have mixed gain nothing, and the verdict says so.

    Args:
        samples: draws of shape (chains, draws, d), or ArviZ's `InferenceData`.
        bootstrap: how many fits to resampled chains (pieces of them, where they are few) make the intervals.
        seed: makes everything random repeatable.
    """
    chains, names = as_chains(samples)
    transitions = Transitions.from_paths(list(chains))
    ratio = cell_ratio(transitions, seed=seed)
    weights = _with_last(ratio.reshape(len(chains), -1), chains)
    before, noise = stationarity(transitions, np.ones(len(transitions)), seed)
    after, noise_after = stationarity(transitions, ratio, seed)
    size = effective_sample_size(weights.ravel())
    helped, verdict = judge(before, after, noise, noise_after, size)
    replicates = bootstrap_weights(transitions, len(chains), bootstrap, seed)
    return PostProcessed(
        draws=chains,
        weights=weights,
        coordinates=tuple(_corrected(name, chains[:, :, i], weights, replicates) for i, name in enumerate(names)),
        effective_sample_size=size,
        independent_draws=np.array([independent_draws(chains[:, :, i]) for i in range(chains.shape[2])]),
        residual_before=before,
        residual_after=after,
        noise=noise,
        helped=helped,
        verdict=verdict,
        replicates=replicates,
    )


def stationarity(transitions: Transitions, ratio: Floats, seed: int) -> tuple[float, float]:
    """How far the weighted rows are from stationary, on random test functions, and how far by chance alone."""
    rng = np.random.default_rng([seed, 1])
    rows = np.sort(rng.permutation(len(transitions))[:MOST_ROWS])
    test = StationarityTest.draw(transitions.select(rows), 1.0, rng)
    return test.residual(lambda x: ratio[rows]), test.noise(lambda x: ratio[rows])


def bootstrap_weights(transitions: Transitions, chains: int, fits: int, seed: int) -> Floats:
    """Weights of the rows in fits to resampled pieces of the chains, shape (fits, rows).

    Each fit has a few random partitions of its own, so that the spread of the fits holds the noise of the cells too.
    """
    rng = np.random.default_rng([seed, 2])
    rows = np.arange(len(transitions)).reshape(chains, -1)
    cuts = max(1, min(rows.shape[1], -(-FEWEST_PIECES // chains)))
    pieces = [piece for chain in rows for piece in np.array_split(chain, cuts)]
    weights = np.empty((fits, len(transitions)))
    for fit in range(fits):
        drawn = np.concatenate([pieces[number] for number in rng.integers(len(pieces), size=len(pieces))])
        ratio = cell_ratio(transitions.select(drawn), partitions=FIT_PARTITIONS, seed=int(rng.integers(2**31)))
        weights[fit] = np.bincount(drawn, weights=ratio, minlength=len(transitions))
    return weights


def judge(before: float, after: float, noise: float, noise_after: float, size: float) -> tuple[bool, str]:
    """Whether correcting helped, from the data alone, in one sentence.

    Args:
        before: the stationarity residual of the plain draws.
        after: that of the weighted draws.
        noise: what `before` would be by chance.
        noise_after: what `after` would be by chance.
        size: the effective sample size of the weights.
    """
    if before <= BEYOND_NOISE * noise:
        return False, "not needed: the draws are already as stationary as they can tell; use them as they are"
    if size < FEWEST:
        return False, f"not trusted: the weights rest on {size:.0f} draws; start wider, or run the chains longer"
    if after <= BEYOND_NOISE * noise_after:
        return True, "helped: the plain draws are not stationary, the weighted ones are, as far as the data tells"
    if after < before / 2:
        return True, "helped in part: the weighted draws are closer to stationary, and not there yet; run longer"
    return False, "did not help: the weighted draws are as far from stationary as the plain ones; run longer"


def _corrected(name: str, values: Floats, weights: Floats, replicates: Floats) -> Corrected:
    """The weighted mean of values of shape (chains, draws), with the bootstrap's spread."""
    value = float(np.average(values, weights=weights))
    rows = values[:, :-1].ravel()
    spread = (replicates @ rows / replicates.sum(axis=1)).std(ddof=1) if len(replicates) > 1 else np.nan
    margin = NORMAL_95 * float(spread)
    return Corrected(name, float(values.mean()), value, (value - margin, value + margin))


def _with_last(ratio: Floats, chains: Floats) -> Floats:
    """Weights of all draws: a chain's last one, which has no successor, takes the weight of its nearest neighbour."""
    rows = chains[:, :-1].reshape(-1, chains.shape[2])
    scale = coordinate_scale(rows)
    _, nearest = cKDTree(rows / scale).query(chains[:, -1] / scale)
    weights = np.hstack([ratio, ratio.ravel()[nearest][:, None]])
    scaled: Floats = weights / weights.mean()
    return scaled
