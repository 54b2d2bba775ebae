"""Whether weights helped MCMC draws, decided from the draws alone and said in one sentence.

Whether the means of chains still move is asked of the plain draws from first to last, and of the weighted draws in one
step. A slow chain moves little in one step, however far it has to go: with autocorrelation 0.99 a mean that is two
standard deviations off moves by 0.02 of them. So a change in one step counts times the steps over which the chain
forgets.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from ope_vpm.arrays import Floats

DRIFT_LEVEL = 0.001
"""The level of the test for drifting means, of all coordinates together. Low, because a false alarm would recommend
weights that nobody needs; there was one in 840 sets of stationary autoregressive chains."""
FEWEST_CHAINS = 5
"""Chains that the test for drifting means needs: with fewer, the spread between them is hardly known."""


def means_drift(chains: Floats) -> bool:
    """Test whether the chains' last draws differ from their first ones in the mean, by Student's t over chains.

    A slow drift of all chains is seen here long before the residual of bounded functions shows it.

    Args:
        chains: shape (chains, draws, d).
    """
    number, _, size = chains.shape
    if number < FEWEST_CHAINS:
        return False
    change = chains[:, -1] - chains[:, 0]
    error = change.std(axis=0, ddof=1) / np.sqrt(number)
    limit = stdtrit(number - 1, 1 - DRIFT_LEVEL / (2 * size))
    return bool((np.abs(change.mean(axis=0)) > limit * error).any())


def distance_left(chains: Floats, ratio: Floats) -> float:
    """Return how far a weighted mean may still be from the stationary one, in the weighted draws' standard deviations.

    With the regression x' = c + Ax + e over all rows, a weighted mean whose next step is E_w[x' - x] has the distance
    b = (I - A)⁻¹E_w[x' - x] left to go, and the standard error s that the weighted (I - A)⁻¹e have. Returned is the
    largest √(b² + s²) over coordinates; ∞ where the regression shows no way back to any mean.

    Args:
        chains: shape (chains, draws, d).
        ratio: the weight of each draw that has a successor, shape (chains·(draws - 1),).
    """
    size = chains.shape[2]
    moving = np.ptp(chains, axis=(0, 1)) > 0
    x, after = (part.reshape(-1, size)[:, moving] for part in (chains[:, :-1], chains[:, 1:]))
    scale, centre = x.std(axis=0), x.mean(axis=0)
    if len(x) <= 2 * x.shape[1] or not (scale > 0).all():
        return 0.0  # too few rows to tell
    x, after = (x - centre) / scale, (after - centre) / scale
    slope = np.linalg.lstsq(x, after - after.mean(axis=0), rcond=None)[0]
    if np.linalg.eigvals(slope).real.max() >= 1:
        return float("inf")
    forgets = np.linalg.inv(np.eye(len(slope)) - slope)
    weight = (ratio / ratio.sum())[:, None]
    mean, step = (weight * x).sum(axis=0), (weight * (after - x)).sum(axis=0)
    noise = (after - x - step - (x - mean) @ (slope - np.eye(len(slope)))) @ forgets
    error = np.square(weight * noise).sum(axis=0)
    variance = (weight * (x - mean) ** 2).sum(axis=0)
    return float(np.sqrt(((step @ forgets) ** 2 + error) / variance).max())


BEYOND_NOISE = 2.0
"""A residual above this multiple of its sampling noise is taken as evidence that the draws are not stationary. Two, as
in a test at about the 5 % level; the residual is a root mean square, so this is a rule of thumb and not a level: of 840
sets of stationary autoregressive chains none was above it."""
FEWEST = 100.0
"""An effective sample size below which weights are not trusted: with it a mean has a standard error of a tenth of the
deviation. A round number; the verdicts of `ov.evaluate` begin to warn at the same one."""
FARTHEST = 0.5
"""Standard deviations by which a weighted mean may be off (`distance_left`) where weights are said to have helped.
On ten sets each of 13 kinds of chains it was at most 0.39 where the error was 0.07 to 0.28 in root mean square, and at
least 0.69 where the error was 0.76 to 1.83."""
USE_THEM = "use them as they are"
"""The advice on draws that need no weights and are enough."""
ONE_CHAIN = "one chain cannot show modes that it has not reached: run several, from starts far apart"
"""What is added where there is a single chain, which may be stuck without showing it."""
NOT_MIXED = (
    "how much weight each of these regions has cannot be known from such draws, plain or weighted: run longer, or use "
    "a sampler that crosses between modes (tempering)"
)
"""What follows from chains that do not mix."""


@dataclass(frozen=True)
class Plain:
    """Diagnostics of the unweighted chains beside the stationarity residual."""

    chains: int = 2
    """How many there are."""
    independent: float = np.inf
    """Their effective sample size by autocorrelation, of the worst coordinate."""
    drifts: bool = False
    """Whether their means differ between their first and their last draws."""
    apart: str | None = None
    """What is said of chains without a region in common."""
    differ: str | None = None
    """What is said of chains that differ by more than their autocorrelation explains."""


def judge(
    before: float,
    after: float,
    noise: float,
    noise_after: float,
    size: float,
    plain: Plain | None = None,
    left: float = 0.0,
) -> tuple[bool, str]:
    """Decide from the data alone whether the weights helped, and say so in one sentence.

    Chains that have no region in common are never said to be helped, for no weights can correct that. Chains that
    differ by R̂ alone are not said to need nothing; but many short chains on their way are expected to differ, and
    weights may help them.

    Args:
        before: the stationarity residual of the unweighted draws.
        after: the stationarity residual of the weighted draws.
        noise: the sampling noise of `before`.
        noise_after: the sampling noise of `after`.
        size: the effective sample size of the weights.
        plain: what the chains tell about themselves.
        left: how far a weighted mean may still be from the stationary one, in standard deviations.
    """
    plain = plain or Plain()
    stationary = before <= BEYOND_NOISE * noise and not plain.drifts
    apart = plain.apart or (plain.differ if stationary else None)
    if apart is not None:
        return False, f"do not mix: {apart}; {NOT_MIXED}"
    if stationary:
        return False, f"not needed: the draws are already as stationary as they can tell; {_as_they_are(plain)}"
    if size < FEWEST:
        return False, f"not trusted: the weights rest on {size:.0f} draws; start wider, or run the chains longer"
    stationary = after <= BEYOND_NOISE * noise_after
    if left > FARTHEST and (stationary or after < before / 2):
        far = f"by {left:.2g} standard deviations" if np.isfinite(left) else "by any distance"
        return False, (
            "not enough: the weighted draws are closer to stationary, but the chains forget so slowly that a mean may "
            f"still be off {far}; run longer, or start wider"
        )
    if stationary:
        return True, "helped: the plain draws are not stationary, the weighted ones are, as far as the data tells"
    if after < before / 2:
        return True, "helped in part: the weighted draws are closer to stationary, and not there yet; run longer"
    return False, "did not help: the weighted draws are as far from stationary as the plain ones; run longer"


def _as_they_are(plain: Plain) -> str:
    """The advice for draws that need no weights, and what their diagnostics cannot see."""
    few = plain.independent < FEWEST
    advice = f"they are worth about {plain.independent:.0f} independent ones, so run longer" if few else USE_THEM
    return advice if plain.chains > 1 else f"{advice} ({ONE_CHAIN})"
