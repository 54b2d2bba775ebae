"""What a user of MCMC wants: the same draws, weighted towards the law that their chain keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.chain import VPM, StationaryEstimate, Transitions
from ope_vpm.chain.diagnostics import StationarityTest, effective_sample_size
from ope_vpm.chain.transitions import Array, Floats
from ope_vpm.mcmc.autocorrelation import independent_draws
from ope_vpm.mcmc.samples import as_chains

BEYOND_NOISE = 2.0
"""A residual so many times what chance makes it is a sign that the draws are not stationary."""
FEWEST = 100.0
"""An effective sample size below which weights are not to be trusted."""
NORMAL_95 = 1.96


@dataclass(frozen=True)
class Corrected:
    """One expectation, plain and corrected."""

    name: str
    plain: float
    """The mean over all draws."""
    value: float
    """The weighted mean."""
    interval: tuple[float, float]
    """95 %, by the chain's influence function; it does not know of bias where no draw ever went."""


@dataclass(frozen=True, eq=False)
class PostProcessed:
    """Draws with weights, and whether the weights were worth it."""

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
    """The size of such a residual by chance."""
    helped: bool
    verdict: str
    estimate: StationaryEstimate

    def expectation(self, f: Callable[[Array], Floats], name: str = "f") -> Corrected:
        """The mean of f, a function of draws of shape (n, d) that returns n numbers."""
        return _corrected(self.estimate, name, np.asarray(f(self.estimate.transitions.x), dtype=np.float64))

    def __str__(self) -> str:
        lines = [
            f"{c.name:<16} plain {c.plain:.4g}   corrected {c.value:.4g}  [{c.interval[0]:.4g}, {c.interval[1]:.4g}]"
            for c in self.coordinates
        ]
        size = self.weights.size
        lines += [
            f"effective sample size of the weights  {self.effective_sample_size:.0f} of {size}",
            f"independent draws before correcting   {self.independent_draws.min():.0f} (worst coordinate)",
            f"stationarity residual                 {self.residual_before:.2g} before, {self.residual_after:.2g} after "
            f"(chance: {self.noise:.2g})",
            self.verdict,
        ]
        return "\n".join(lines)


def post_process_mcmc(samples: Any, *, seed: int = 0, **options: Any) -> PostProcessed:
    """Weigh the draws of a Markov chain sampler by how often its stationary law visits them.

    Pairs of consecutive draws are transitions of the sampler, whatever it is; no density is needed. Many short
    chains from a wide start gain most. Long chains that have mixed gain nothing, and the verdict says so.

    Args:
        samples: draws of shape (chains, draws, d), or ArviZ's `InferenceData`.
        seed: makes everything random repeatable.
        options: for `VPM`, such as solver="neural".
    """
    chains, names = as_chains(samples)
    transitions = Transitions.from_paths(list(chains))
    estimate = VPM(seed=seed, **options).fit(transitions)
    weights = np.maximum(estimate.ratio(chains.reshape(-1, chains.shape[2])), 0)
    weights = (weights / weights.mean()).reshape(chains.shape[:2])
    test = StationarityTest.draw(transitions, 1.0, np.random.default_rng([seed, 1]))
    before, noise = test.residual(_constant), test.noise(_constant)
    after = test.residual(estimate.ratio)
    size = effective_sample_size(weights.ravel())
    helped, verdict = judge(before, after, noise, max(noise, test.noise(estimate.ratio)), size)
    return PostProcessed(
        weights=weights,
        coordinates=tuple(_corrected(estimate, name, transitions.x[:, i]) for i, name in enumerate(names)),
        effective_sample_size=size,
        independent_draws=np.array([independent_draws(chains[:, :, i]) for i in range(chains.shape[2])]),
        residual_before=before,
        residual_after=after,
        noise=noise,
        helped=helped,
        verdict=verdict,
        estimate=estimate,
    )


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


def _corrected(estimate: StationaryEstimate, name: str, values: Floats) -> Corrected:
    value = estimate.expectation(values)
    margin = NORMAL_95 * value.standard_error
    return Corrected(name, float(values.mean()), float(value), (float(value) - margin, float(value) + margin))


def _constant(x: Array) -> Floats:
    return np.ones(len(x))
