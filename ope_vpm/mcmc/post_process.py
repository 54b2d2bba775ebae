"""Post-processing of MCMC draws: the same draws, weighted towards the stationary distribution of their sampler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ope_vpm.arrays import Floats, effective_sample_size
from ope_vpm.chain import Transitions
from ope_vpm.chain.diagnostics import StationarityTest, pareto_k
from ope_vpm.mcmc.cells import cell_ratio, coordinate_scale
from ope_vpm.mcmc.mixing import independent_draws, mixing
from ope_vpm.mcmc.samples import as_chains
from ope_vpm.mcmc.verdict import Plain, distance_left, judge, means_drift

NORMAL_95 = 1.96
"""The 97.5 % quantile of the standard normal distribution, for two-sided 95 % intervals."""
MOST_ROWS = 20_000
"""Rows on which the stationarity residual is computed, so that it costs little beside the fit; its noise falls with the
root of this. A round number, the same as for the diagnostics of a fit."""
FIT_PARTITIONS = 3
"""Partitions per bootstrap fit, instead of the 11 of the estimate: the smallest number with a median other than the
mean, because 40 fits take their time. The median of fewer partitions is noisier, which makes intervals wider."""
FEWEST_PIECES = 20
"""The bootstrap resamples at least this many pieces; fewer chains than this are cut into segments. A round number: the
standard deviation of 20 resampled pieces is known to about 16 %."""


@dataclass(frozen=True)
class Corrected:
    """The expectation of one function of a draw, without and with the weights."""

    name: str
    """What the expectation is of, such as "x[0]"."""
    plain: float
    """The unweighted mean over all draws."""
    value: float
    """The weighted mean."""
    interval: tuple[float, float]
    """The 95 % interval by a bootstrap over chains. It does not include the bias from regions that no draw reached."""


@dataclass(frozen=True, eq=False)
class PostProcessed:
    """Weighted draws, with the evidence on whether weighting them improved anything."""

    draws: Floats
    """The draws as given, shape (chains, draws, d)."""
    weights: Floats
    """The weight of each draw, shape (chains, draws), with mean 1."""
    coordinates: tuple[Corrected, ...]
    """The expectation of each coordinate."""
    effective_sample_size: float
    """The effective sample size (Σw)²/Σw² of the weights."""
    independent_draws: Floats
    """The effective sample size of the unweighted chains for the mean of each coordinate, by their autocorrelation."""
    rhat: Floats
    """R̂ of each coordinate of the unweighted chains, split and rank-normalised (Vehtari et al. 2021): ArviZ's number,
    and defined for one chain, too. NaN for constants and chains of fewer than 4 draws. Short and slow chains have a
    large one and may be stationary nonetheless: see `ope_vpm.mcmc.mixing`."""
    residual_before: float
    """The stationarity residual of the unweighted draws: how much one more step of the sampler changes their
    distribution, on random test functions."""
    residual_after: float
    """The stationarity residual of the weighted draws."""
    noise: float
    """The value that `residual_before` has from sampling noise alone when the draws are stationary."""
    helped: bool
    """Whether the weights brought the draws nearer to stationarity."""
    verdict: str
    """Whether the weights helped, in one sentence with advice."""
    replicates: Floats
    """The weights of the bootstrap fits, shape (fits, chains·(draws - 1)): one per draw that has a successor."""

    @property
    def log_weights(self) -> Floats:
        """(chains, draws): logarithms of the weights scaled to sum to 1, as ArviZ takes them; -∞ for weight 0."""
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(self.weights / self.weights.sum())
        return logs

    @property
    def pareto_k(self) -> float:
        """The shape k̂ of the weights' upper tail: above 0.7 it is heavy; see `ope_vpm.chain.diagnostics`."""
        return pareto_k(self.weights.ravel())

    def expectation(self, f: Callable[[Floats], Floats], name: str = "f") -> Corrected:
        """Estimate the expectation of a function, without and with the weights.

        Args:
            f: takes draws of shape (n, d) and returns n numbers.
            name: what the result is called.
        """
        values = np.asarray(f(self.draws.reshape(-1, self.draws.shape[2])), dtype=np.float64)
        if values.shape != (self.weights.size,):
            raise ValueError(f"f must give one number per draw: shape {values.shape} != ({self.weights.size},)")
        if not np.isfinite(values).all():
            raise ValueError(f"f must be finite: draw {int(np.argmin(np.isfinite(values)))} is not")
        return _corrected(name, values.reshape(self.weights.shape), self.weights, self.replicates)

    def __str__(self) -> str:
        lines = [
            f"{c.name:<16} plain {c.plain:.4g}   corrected {c.value:.4g}  [{c.interval[0]:.4g}, {c.interval[1]:.4g}]"
            for c in self.coordinates
        ]
        lines += [
            f"effective sample size of the weights  {self.effective_sample_size:.0f} of {self.weights.size}",
            f"independent draws before correcting   {self.independent_draws.min():.0f} (worst coordinate)",
            f"R̂ before correcting                   {_worst(self.rhat)}",
            f"stationarity residual                 {self.residual_before:.2g} before, {self.residual_after:.2g} after "
            f"(noise: {self.noise:.2g})",
            self.verdict,
        ]
        return "\n".join(lines)


def post_process_mcmc(
    samples: Any,
    *,
    chains: int | None = None,
    var_names: str | Sequence[str] | None = None,
    bootstrap: int = 40,
    seed: int = 0,
) -> PostProcessed:
    """Weight the draws of a Markov chain sampler towards the sampler's stationary distribution.

    Consecutive draws are transitions (x, x') of the sampler, whichever it is, so that no density is needed. The weights
    are the ratio τ = μ/p of the stationary distribution to that of the draws, estimated by VPM on random cells
    (`cell_ratio`). Many short chains from a wide start gain most; long chains that have mixed gain nothing, and the
    verdict says so. It also says where chains do not mix: how much weight each of several modes has is then not in
    the draws, neither plain nor weighted. A mode that no chain has reached cannot be known of at all.

    Args:
        samples: draws of shape (chains, draws, d), (chains, draws) or (draws,); a dictionary of such arrays, as NumPyro
            gives it by chain; or ArviZ's `InferenceData` or `DataTree`.
        chains: how many chains there are; needed where an array has more chains than draws, which is also what emcee's
            (steps, walkers, d) looks like: `chains=` the number of walkers takes those.
        var_names: the variables to take, of those that have names; None: all of them.
        bootstrap: the number of fits to resampled chains (segments of them, where chains are few) for the intervals;
            intervals are NaN with fewer than 2.
        seed: makes everything random repeatable.

    Returns:
        The weights, expectations without and with them, and a verdict on whether they helped.

    ```python
    import numpy as np
    import ope_vpm as ov

    rng, x = np.random.default_rng(0), np.full((200, 1), 3.0)  # chains around 0 that all begin at 3
    draws = [x := 0.5 * x + rng.standard_normal((200, 1)) for _ in range(6)]
    found = ov.post_process_mcmc(np.stack(draws, axis=1), chains=200, bootstrap=0)
    (mean,) = found.coordinates
    assert found.helped and abs(mean.value) < abs(mean.plain) / 2
    ```
    """
    for name, number in (("bootstrap", bootstrap), ("seed", seed)):
        if not isinstance(number, int | np.integer) or number < 0:
            raise ValueError(f"{name} must be a whole number, 0 or more: got {number!r}")
    draws, names = as_chains(samples, chains, var_names)
    number, _, size = draws.shape
    transitions = Transitions.from_paths(list(draws))
    ratio = cell_ratio(transitions, seed=seed)
    weights = _with_last(ratio.reshape(number, -1), draws)
    before, noise = stationarity(transitions, np.ones(len(transitions)), seed)
    noise = min(noise, plain_noise(noise, number, len(transitions)))
    after, noise_after = stationarity(transitions, ratio, seed)
    mixed = mixing(draws, seed)
    independent = np.array([independent_draws(draws[:, :, i]) for i in range(size)])
    effective = effective_sample_size(weights.ravel())
    plain = Plain(number, float(independent.min()), means_drift(draws), mixed.apart, mixed.differ)
    left = distance_left(draws, ratio)
    helped, verdict = judge(before, after, noise, noise_after, effective, plain, left)
    replicates = bootstrap_weights(transitions, number, bootstrap, seed)
    return PostProcessed(
        draws=draws,
        weights=weights,
        coordinates=tuple(_corrected(name, draws[:, :, i], weights, replicates) for i, name in enumerate(names)),
        effective_sample_size=effective,
        independent_draws=independent,
        rhat=mixed.rhat,
        residual_before=before,
        residual_after=after,
        noise=noise,
        helped=helped,
        verdict=verdict,
        replicates=replicates,
    )


def stationarity(transitions: Transitions, ratio: Floats, seed: int) -> tuple[float, float]:
    """Compute the stationarity residual of weighted rows on random test functions, and its sampling noise."""
    rng = np.random.default_rng([seed, 1])
    rows = np.sort(rng.permutation(len(transitions))[:MOST_ROWS])
    test = StationarityTest.draw(transitions.select(rows), 1.0, rng)
    return test.residual(lambda x: ratio[rows]), test.noise(lambda x: ratio[rows])


def plain_noise(noise: float, chains: int, rows: int) -> float:
    """Bound the sampling noise of the unweighted draws' residual, where chains are stationary and independent.

    Unweighted, the differences g(x') - g(x) along a chain add up to g(last) - g(first), whose variance is at most
    2·Var(g) unless the two ends are anticorrelated. A cosine of random phase has Var(g) ≤ ½, so that the mean over n
    rows of C chains has at most the standard error √C/n, far below that of independent rows where chains are long.

    Args:
        noise: the noise as if rows were independent; that of a sample of the rows, where there are many.
        chains: how many there are.
        rows: of all chains together.
    """
    left_out = max(0.0, 1 - MOST_ROWS / rows)  # the rows of a sample do not add up
    return float(np.sqrt(left_out * noise**2 + chains / rows**2))


def bootstrap_weights(transitions: Transitions, chains: int, fits: int, seed: int) -> Floats:
    """Return the weights of the rows in fits to resampled segments of the chains, shape (fits, rows).

    Each fit draws partitions of its own, so that the spread over fits includes the randomness of the cells.
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


def _worst(rhat: Floats) -> str:
    """Say the largest R̂ that is defined; with fewer than 4 draws per chain none is."""
    known = rhat[~np.isnan(rhat)]
    return f"{known.max():.3g} (worst coordinate)" if known.size else "unknown (chains have fewer than 4 draws)"


def _corrected(name: str, values: Floats, weights: Floats, replicates: Floats) -> Corrected:
    """Compute the weighted mean of values of shape (chains, draws), with an interval from the bootstrap fits."""
    value = float(np.average(values, weights=weights))
    rows = values[:, :-1].ravel()
    spread = (replicates @ rows / replicates.sum(axis=1)).std(ddof=1) if len(replicates) > 1 else np.nan
    margin = NORMAL_95 * float(spread)
    return Corrected(name, float(values.mean()), value, (value - margin, value + margin))


def _with_last(ratio: Floats, chains: Floats) -> Floats:
    """Return weights of all draws: a chain's last one, which has no successor, takes its nearest neighbour's weight."""
    rows = chains[:, :-1].reshape(-1, chains.shape[2])
    scale = coordinate_scale(rows)
    _, nearest = cKDTree(rows / scale).query(chains[:, -1] / scale)
    weights = np.hstack([ratio, ratio.ravel()[nearest][:, None]])
    return weights / weights.mean()
