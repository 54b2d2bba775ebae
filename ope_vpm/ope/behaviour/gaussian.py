"""The behaviour as one or two Gaussians in z, the target's own units, that know of clipping.

An action that was clipped to a bound says only that the draw lay beyond it: its chance is a tail of the Gaussian,
not a density. The fit is by expectation and maximisation, the draws beyond a bound being what is not seen.

Where logs of two policies were put together, one Gaussian fits neither. Whole episodes are then told apart, and the
clone is Σ_k g_k(s)·N(z; μ_k(s), σ_k), g_k(s) the share that policy k has of the rows near s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_ndtr

from ope_vpm.arrays import Bools, Floats, Integers, group_sums

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""On the non-linear features' coefficients, per row; held-out episodes choose, or a plain linear regression."""
ROUNDS, LATER_ROUNDS = 20, 5
"""Of expectation and maximisation, with linear features and then with those chosen."""
MIXTURE_ROUNDS = 15
LEAST_SHARE = 0.02
"""Of one policy near a state: the other's episodes are seldom told apart for certain."""
LEAST_GAIN = 0.02
"""In log-likelihood per row, for two policies instead of one."""
FEWEST_EPISODES = 10
"""To look for two policies."""
LOG_ROOT = 0.5 * np.log(2 * np.pi)


@dataclass(frozen=True)
class Draws:
    """Actions in units of the target, and where each was clipped."""

    z: Floats
    """(n, m); at a clipped entry the bound."""
    below: Bools
    """(n, m): clipped to the lower bound."""
    above: Bools

    @classmethod
    def unclipped(cls, z: Floats) -> Draws:
        """Draws that no bound touched."""
        nowhere = np.zeros(z.shape, dtype=np.bool_)
        return cls(z, nowhere, nowhere)

    @property
    def clipped(self) -> Bools:
        """Where either bound was hit."""
        return self.below | self.above

    def log_density(self, mean: Floats, std: Floats) -> Floats:
        """(n,): the density of what was seen, with the chance of the tail where it was clipped."""
        score = (self.z - mean) / std
        logs = -0.5 * score**2 - LOG_ROOT - np.log(std)
        logs[self.below] = log_ndtr(score[self.below])
        logs[self.above] = log_ndtr(-score[self.above])
        total: Floats = logs.sum(axis=1)
        return total

    def expected(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each draw, given what was seen of it."""
        centre, variance = self.z.copy(), np.zeros_like(self.z)
        for where, side in ((self.below, -1.0), (self.above, 1.0)):
            here, width = mean[where], np.broadcast_to(std, mean.shape)[where]
            edge = side * (self.z[where] - here) / width
            # φ/Φ(-edge), by logarithms: far beyond the bound both vanish
            hazard = np.exp(-0.5 * edge**2 - LOG_ROOT - log_ndtr(-edge))
            centre[where] = here + side * width * hazard
            variance[where] = width**2 * np.clip(1 + edge * hazard - hazard**2, 0.0, 1.0)
        return centre, variance


@dataclass(frozen=True)
class Gaussian:
    """Fitted means at every row, and one deviation for each coordinate."""

    mean: Floats
    std: Floats

    @classmethod
    def target(cls, draws: Draws) -> Gaussian:
        """N(0, 1), where a fit begins."""
        return cls(np.zeros_like(draws.z), np.ones(draws.z.shape[1]))


class Regression:
    """Ridge regression on some features with weighted rows: the matrix is factored once."""

    def __init__(self, features: Floats, penalty: Floats, weight: Floats) -> None:
        self.features, self.weight = features, weight
        self.weighted = features * weight[:, None]
        self.factor = cho_factor(self.weighted.T @ features + np.diag(penalty * weight.sum()))

    def __call__(self, values: Floats) -> Floats:
        """Fitted values at every row."""
        fitted: Floats = self.features @ cho_solve(self.factor, self.weighted.T @ values)
        return fitted

    def fit(self, draws: Draws, start: Gaussian, rounds: int) -> Gaussian:
        """Expectation and maximisation; one round where nothing was clipped."""
        found, share = start, self.weight / self.weight.sum()
        for _ in range(rounds if draws.clipped.any() else 1):
            centre, variance = draws.expected(found.mean, found.std)
            mean = self(centre)
            found = Gaussian(mean, np.sqrt(share @ ((centre - mean) ** 2 + variance) + 1e-12))
        return found


def fit_clone(draws: Draws, features: Floats, linear: int, held_out: Bools, episode: Integers) -> tuple[Floats, float]:
    """The log-density of each draw under the clone, and its mean over held-out rows.

    Args:
        draws: actions in units of the target.
        features: (n, D), a constant first, then `linear` linear ones, which are not penalised.
        linear: how many.
        held_out: rows to choose by.
        episode: the number of each row's episode.
    """
    every = np.ones(len(episode))
    plain = features[:, : 1 + linear]
    train = every * ~held_out if held_out.any() and not held_out.all() else every
    first = Regression(plain, _penalty(plain, linear, 0.0), train).fit(draws, Gaussian.target(draws), ROUNDS)
    ridge, score = _choose_ridge(draws, first, features, linear, held_out, train)
    used = plain if ridge is None else features
    penalty = _penalty(used, linear, ridge or 0.0)
    whole = Regression(used, penalty, every).fit(draws, first, LATER_ROUNDS)
    logs = draws.log_density(whole.mean, whole.std)
    chance = tell_apart(draws, plain, episode)
    if chance is None:
        return logs, score
    share = chance[episode]
    near = Regression(features, _penalty(features, linear, RIDGES[1]), every)(share[:, None])[:, 0]
    near = np.clip(near, LEAST_SHARE, 1 - LEAST_SHARE)
    parts = [Regression(used, penalty, part + 1e-9).fit(draws, whole, ROUNDS) for part in (1 - share, share)]
    densities = [draws.log_density(part.mean, part.std) for part in parts]
    mixed: Floats = np.logaddexp(densities[0] + np.log(1 - near), densities[1] + np.log(near))
    gain = float(np.mean(mixed - logs))
    return (mixed, score + gain) if gain > LEAST_GAIN else (logs, score)


def tell_apart(draws: Draws, plain: Floats, episode: Integers) -> Floats | None:
    """The chance of each episode to be by the second of two policies; None where one explains them as well.

    Judged by Bayes' information criterion.
    """
    count = int(episode[-1]) + 1
    if count < FEWEST_EPISODES:
        return None
    lengths = np.bincount(episode, minlength=count)
    size = group_sums(episode, np.sum(draws.z**2, axis=1), count) / lengths
    chance = np.where(size > np.median(size), 0.9, 0.1)
    penalty = np.full(plain.shape[1], 1e-8)
    whole = Regression(plain, penalty, np.ones(len(episode))).fit(draws, Gaussian.target(draws), ROUNDS)
    one = group_sums(episode, draws.log_density(whole.mean, whole.std), count)
    fits = [whole, whole]
    total = -np.inf
    for _ in range(MIXTURE_ROUNDS):
        weights = [(1 - chance)[episode] + 1e-9, chance[episode] + 1e-9]
        fits = [Regression(plain, penalty, w).fit(draws, fit, 2) for w, fit in zip(weights, fits, strict=True)]
        prior = float(np.clip(chance.mean(), LEAST_SHARE, 1 - LEAST_SHARE))
        logs = [group_sums(episode, draws.log_density(fit.mean, fit.std), count) for fit in fits]
        first, second = logs[0] + np.log(1 - prior), logs[1] + np.log(prior)
        both = np.logaddexp(first, second)
        chance = np.exp(second - both)
        before, total = total, float(both.sum())
        if total - before < 1e-4 * len(episode):
            break
    parameters = draws.z.shape[1] * (plain.shape[1] + 1) + 1
    better = total - float(one.sum()) > 0.5 * parameters * np.log(len(episode))
    return chance if better and LEAST_SHARE < chance.mean() < 1 - LEAST_SHARE else None


def _choose_ridge(
    draws: Draws, first: Gaussian, features: Floats, linear: int, held_out: Bools, train: Floats
) -> tuple[float | None, float]:
    """The ridge that fits held-out rows best, None for linear features alone; and how well it does."""
    judge = held_out if held_out.any() else np.ones(len(held_out), dtype=np.bool_)
    score = float(np.mean(draws.log_density(first.mean, first.std)[judge]))
    best: float | None = None
    if not (train == 0).any():
        return best, score
    completed, variance = draws.expected(first.mean, first.std)
    for ridge in RIDGES:
        fitted = Regression(features, _penalty(features, linear, ridge), train)(completed)
        std = np.sqrt(train @ ((completed - fitted) ** 2 + variance) / train.sum() + 1e-12)
        now = float(np.mean(draws.log_density(fitted, std)[judge]))
        if now > score:
            best, score = ridge, now
    return best, score


def _penalty(features: Floats, linear: int, ridge: float) -> Floats:
    penalty = np.full(features.shape[1], 1e-8)
    penalty[1 + linear :] = ridge
    return penalty
