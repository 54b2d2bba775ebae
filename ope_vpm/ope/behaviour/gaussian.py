"""The behaviour as one or two Gaussians in z, the target's own units, with clipped actions taken for what they are.

An action that was clipped to a bound says only that the draw lay beyond it: its likelihood is the probability of a tail
of the Gaussian, not a density. The fit is by expectation and maximisation (Dempster, Laird and Rubin 1977), the draws
beyond a bound being what is not seen.

Where logs of two policies were put together, one Gaussian fits neither. Whole episodes are then told apart, and the
clone is Σ_k g_k(s)·N(z; μ_k(s), σ_k), with g_k(s) the share of policy k among the rows near s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_ndtr

from ope_vpm.arrays import Bools, Floats, Integers, group_sums
from ope_vpm.ope.behaviour.clone import Clone
from ope_vpm.policy.continuous import LOG_ROOT_TWO_PI, clipped_log_densities

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""On the coefficients of non-linear features, per row; held-out episodes choose one, or linear features alone."""
NO_RIDGE = 1e-8
"""On the constant and on linear features: it only keeps collinear states from a singular matrix."""
ROUNDS, LATER_ROUNDS = 20, 5
"""Of expectation and maximisation: with linear features from N(0, 1), and from there with the chosen features."""
MIXTURE_ROUNDS = 15
"""Of expectation and maximisation over episodes, at most: whole episodes are told apart within a few."""
ENOUGH = 1e-4
"""Gain in log-likelihood per row below which these rounds stop."""
LEAST_SHARE = 0.02
"""Of one policy near a state: the other's episodes are seldom told apart for certain."""
LEAST_GAIN = 0.02
"""In log-likelihood per row, for two policies instead of one: less changes a ratio by 2 %, below its own noise."""
FEWEST_EPISODES = 10
"""To look for two policies: five of each."""
TINY = 1e-9
"""Weight of a row in the fit of a policy that certainly did not log it, so that no fit is without rows."""
LEAST_VARIANCE = 1e-12
"""Added to a variance, so that constant actions have a density."""


@dataclass(frozen=True)
class Draws:
    """Actions in units of the target, and which of their coordinates were clipped."""

    z: Floats
    """(n, m); at a clipped entry that of the bound."""
    below: Bools
    """(n, m): clipped to the lower bound."""
    above: Bools
    """(n, m): clipped to the upper bound."""

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
        """(n,): the log-density of what was seen, with the probability of the tail where it was clipped."""
        total: Floats = clipped_log_densities((self.z - mean) / std, std, self.below, self.above).sum(axis=1)
        return total

    def expected(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each draw, (n, m), given what was seen of it."""
        centre, variance = self.z.copy(), np.zeros_like(self.z)
        for where, side in ((self.below, -1.0), (self.above, 1.0)):
            here, width = mean[where], np.broadcast_to(std, mean.shape)[where]
            edge = side * (self.z[where] - here) / width
            # φ(edge)/Φ(-edge), by logarithms: far beyond the bound both vanish
            hazard = np.exp(-0.5 * edge**2 - LOG_ROOT_TWO_PI - log_ndtr(-edge))
            centre[where] = here + side * width * hazard
            variance[where] = width**2 * np.clip(1 + edge * hazard - hazard**2, 0.0, 1.0)
        return centre, variance


@dataclass(frozen=True)
class Gaussian:
    """A fitted Gaussian: its mean at every row, and one standard deviation per coordinate."""

    mean: Floats
    """(n, m)."""
    std: Floats
    """(m,)."""

    @classmethod
    def target(cls, draws: Draws) -> Gaussian:
        """N(0, 1), the target itself, where a fit begins."""
        return cls(np.zeros_like(draws.z), np.ones(draws.z.shape[1]))


class Regression:
    """Ridge regression with weighted rows, whose matrix is factored once.

    Args:
        features: (n, D).
        penalty: (D,), on the squared coefficients, per unit of weight.
        weight: (n,).
    """

    def __init__(self, features: Floats, penalty: Floats, weight: Floats) -> None:
        self.features, self.weight = features, weight
        self.weighted = features * weight[:, None]
        self.factor = cho_factor(self.weighted.T @ features + np.diag(penalty * weight.sum()))

    def __call__(self, values: Floats) -> Floats:
        """Fitted values at every row, for one or several columns."""
        fitted: Floats = self.features @ cho_solve(self.factor, self.weighted.T @ values)
        return fitted

    def fit(self, draws: Draws, start: Gaussian, rounds: int) -> Gaussian:
        """A Gaussian by expectation and maximisation; where nothing was clipped one round is exact."""
        found, share = start, self.weight / self.weight.sum()
        for _ in range(rounds if draws.clipped.any() else 1):
            centre, variance = draws.expected(found.mean, found.std)
            mean = self(centre)
            found = Gaussian(mean, np.sqrt(share @ ((centre - mean) ** 2 + variance) + LEAST_VARIANCE))
        return found


def fit_clone(draws: Draws, features: Floats, linear: int, held_out: Bools, episode: Integers) -> Clone:
    """The clone's log-densities of the draws, with the ridge that fits held-out rows best.

    Args:
        draws: actions in units of the target.
        features: (n, D), a constant first, then `linear` linear ones, which are not penalised.
        linear: how many.
        held_out: rows to choose the ridge by.
        episode: the number of each row's episode.
    """
    every = np.ones(len(episode))
    plain = features[:, : 1 + linear]
    train = every * ~held_out if held_out.any() and not held_out.all() else every
    first = Regression(plain, _penalty(plain, linear, NO_RIDGE), train).fit(draws, Gaussian.target(draws), ROUNDS)
    ridge, score = _choose_ridge(draws, first, features, linear, held_out, train)
    used = plain if ridge is None else features
    penalty = _penalty(used, linear, NO_RIDGE if ridge is None else ridge)
    whole = Regression(used, penalty, every).fit(draws, first, LATER_ROUNDS)
    logs = draws.log_density(whole.mean, whole.std)
    second = tell_apart(draws, plain, episode)
    if second is None:
        return Clone(logs, score)
    share = second[episode]
    near = Regression(features, _penalty(features, linear, RIDGES[1]), every)(share[:, None])[:, 0]
    near = np.clip(near, LEAST_SHARE, 1 - LEAST_SHARE)
    parts = [Regression(used, penalty, part + TINY).fit(draws, whole, ROUNDS) for part in (1 - share, share)]
    densities = [draws.log_density(part.mean, part.std) for part in parts]
    mixed: Floats = np.logaddexp(densities[0] + np.log(1 - near), densities[1] + np.log(near))
    gain = float(np.mean(mixed - logs))
    return Clone(mixed, score + gain) if gain > LEAST_GAIN else Clone(logs, score)


def tell_apart(draws: Draws, plain: Floats, episode: Integers) -> Floats | None:
    """(episodes,): the probability that each is by the second of two policies; None where one policy explains them.

    Two must gain more log-likelihood than the Bayesian information criterion (Schwarz 1978) asks for.

    Args:
        draws: actions in units of the target.
        plain: (n, D), a constant and linear features.
        episode: the number of each row's episode.
    """
    count = int(episode[-1]) + 1
    if count < FEWEST_EPISODES:
        return None
    lengths = np.bincount(episode, minlength=count)
    size = group_sums(episode, np.sum(draws.z**2, axis=1), count) / lengths
    second = np.where(size > np.median(size), 0.9, 0.1)  # a guess to begin with: who is farther from the target
    penalty = _penalty(plain, plain.shape[1], NO_RIDGE)
    whole = Regression(plain, penalty, np.ones(len(episode))).fit(draws, Gaussian.target(draws), ROUNDS)
    one = group_sums(episode, draws.log_density(whole.mean, whole.std), count)
    fits = [whole, whole]
    total = -np.inf
    for _ in range(MIXTURE_ROUNDS):
        weights = [(1 - second)[episode] + TINY, second[episode] + TINY]
        fits = [Regression(plain, penalty, w).fit(draws, fit, 2) for w, fit in zip(weights, fits, strict=True)]
        prior = float(np.clip(second.mean(), LEAST_SHARE, 1 - LEAST_SHARE))
        logs = [group_sums(episode, draws.log_density(fit.mean, fit.std), count) for fit in fits]
        logs = [logs[0] + np.log(1 - prior), logs[1] + np.log(prior)]
        both = np.logaddexp(*logs)
        second = np.exp(logs[1] - both)
        before, total = total, float(both.sum())
        if total - before < ENOUGH * len(episode):
            break
    parameters = draws.z.shape[1] * (plain.shape[1] + 1) + 1
    better = total - float(one.sum()) > 0.5 * parameters * np.log(len(episode))
    return second if better and LEAST_SHARE < second.mean() < 1 - LEAST_SHARE else None


def _choose_ridge(
    draws: Draws, first: Gaussian, features: Floats, linear: int, held_out: Bools, train: Floats
) -> tuple[float | None, float]:
    """The ridge with the highest likelihood of held-out rows, None for linear features alone; and that likelihood."""
    judge = held_out if held_out.any() else np.ones(len(held_out), dtype=np.bool_)
    score = float(np.mean(draws.log_density(first.mean, first.std)[judge]))
    best: float | None = None
    if not (train == 0).any():
        return best, score
    completed, variance = draws.expected(first.mean, first.std)
    for ridge in RIDGES:
        fitted = Regression(features, _penalty(features, linear, ridge), train)(completed)
        std = np.sqrt(train @ ((completed - fitted) ** 2 + variance) / train.sum() + LEAST_VARIANCE)
        now = float(np.mean(draws.log_density(fitted, std)[judge]))
        if now > score:
            best, score = ridge, now
    return best, score


def _penalty(features: Floats, linear: int, ridge: float) -> Floats:
    """(D,): the ridge on non-linear features, next to nothing on the others."""
    penalty = np.full(features.shape[1], NO_RIDGE)
    penalty[1 + linear :] = ridge
    return penalty
