"""The behaviour as one or two Gaussians in z, the target's own units, with clipped actions taken for what they are.

An action that was clipped to a bound says only that the draw lay beyond it: its likelihood is the probability of a tail
of the Gaussian, not a density. So the mean, linear in features, is fitted by expectation and maximisation (Dempster,
Laird and Rubin 1977). With G = Σ w φφᵀ, P = Σ w φ·E[draw] and S = Σ w E[draw²] the coefficients are (G + ridge)⁻¹P, and
the squares that they leave S - 2βᵀP + βᵀGβ: a round passes over the rows once.

Where logs of two policies were put together, one Gaussian fits neither. Whole episodes are then told apart, and the
clone is Σ_k g_k(s)·N(z; μ_k(s), σ_k), with g_k(s) the share of policy k among the rows near s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ope_vpm.arrays import Bools, Floats, Integers, group_sums
from ope_vpm.ope.behaviour.rows import NO_RIDGE, Design, Draws, Gaussian
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.threads import cached_property

LEAST_VARIANCE = 1e-12
"""Added to a variance, so that constant actions have a density."""
LEAST_LEFT = 1e-6
"""The share of Σ w E[draw²] below which what a fit leaves is summed up over rows: a difference of sums would have lost
ten of sixteen digits there."""
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""On the coefficients of non-linear features, per row; held-out episodes choose one, or linear features alone."""
ROUNDS = 20
"""Rounds of expectation and maximisation, with linear features from N(0, 1)."""
MIXTURE_ROUNDS = 15
"""Rounds of expectation and maximisation over episodes, at most: whole episodes are told apart within a few."""
ROUNDS_EACH = 2
"""Rounds of expectation and maximisation over clipped draws within each of these."""
ENOUGH = 1e-4
"""Gain in log-likelihood per row below which these rounds stop."""
LEAST_SHARE = 0.02
"""The least share of one policy near a state: the other's episodes are seldom told apart for certain."""
FEWEST_EPISODES = 10
"""To look for two policies: five of each."""
TINY = 1e-9
"""Weight of a row in the fit of a policy that certainly did not log it, so that no fit is without rows."""
LATER_ROUNDS = 5
"""Rounds of expectation and maximisation, from the fit with linear features with those that were chosen."""
LEAST_GAIN = 0.02
"""In log-likelihood per row, for two policies instead of one: less changes a ratio by 2 %, below its own noise."""


def fit_gaussians(draws: Draws, rows: CloneRows) -> tuple[GaussianClone, Floats]:
    """The clone with the ridge that fits held-out rows best, and its log-densities of the draws.

    Args:
        draws: actions in units of the target.
        rows: those of the log, with features of the states; linear ones are not penalised.
    """
    design, episode = rows.design, rows.episode
    first = rows.regression(None, everywhere=False).fit(draws, Gaussian.target(draws), ROUNDS)
    ridge, score = _choose_ridge(draws, first, rows)
    used = rows.plain if ridge is None else design
    whole = rows.regression(ridge, everywhere=True).fit(draws, first, LATER_ROUNDS)
    one, logs = GaussianClone((whole,), ridge is not None, None, score), whole.log_density(draws, used)
    second = tell_apart(draws, rows)
    if second is None:
        return one, logs
    share = second[episode]
    gate = rows.regression(RIDGES[1], everywhere=True).coefficients(share)
    penalty = NO_RIDGE if ridge is None else ridge
    parts = [Regression(used, penalty, part + TINY).fit(draws, whole, ROUNDS) for part in (1 - share, share)]
    mixed = _mixed([part.log_density(draws, used) for part in parts], share_near(design, gate))
    gain = float(np.mean(mixed - logs))
    two = GaussianClone((parts[0], parts[1]), ridge is not None, gate, score + gain)
    return (two, mixed) if gain > LEAST_GAIN else (one, logs)


@dataclass(frozen=True)
class GaussianClone:
    """The behaviour as a function of the state: one Gaussian in the target's units, or two and a share."""

    parts: tuple[Gaussian, ...]
    fourier: bool
    """Whether their means use all features of the design, or the linear ones alone."""
    gate: Floats | None
    """Coefficients of the second one's share near a state; None where there is one Gaussian."""
    held_out_log_likelihood: float

    def log_density(self, draws: Draws, design: Design) -> Floats:
        """(n,): the log-density of what was seen of each draw, at states with the features of the design."""
        logs = [part.log_density(draws, design if self.fourier else design.plain) for part in self.parts]
        return logs[0] if self.gate is None else _mixed(logs, share_near(design, self.gate))


def share_near(design: Design, gate: Floats) -> Floats:
    """(n,): the share of the second policy among rows near each state."""
    share = np.concatenate([features @ gate for _, features in design.batches()])
    return np.asarray(np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE))


def _mixed(logs: Sequence[Floats], near: Floats) -> Floats:
    return np.logaddexp(logs[0] + np.log(1 - near), logs[1] + np.log(near))


def _choose_ridge(draws: Draws, first: Gaussian, rows: CloneRows) -> tuple[float | None, float]:
    """The ridge with the highest likelihood of held-out rows, None for linear features alone; and that likelihood."""
    score = float(np.mean(first.log_density(draws, rows.plain)[rows.judge]))
    best: float | None = None
    if not rows.splits:
        return best, score
    expected = expectation(draws, first, rows.design, rows.train)
    fits = [rows.regression(ridge, everywhere=False).maximised(draws, first, expected) for ridge in RIDGES]
    total = np.zeros(len(fits))
    for batch, features in rows.design.batches():
        chosen = rows.judge[batch]
        part, seen = draws.at(batch.start, batch.stop).chosen(chosen), features[chosen]
        total += [float(part.log_density(fit.mean(seen), fit.std).sum()) for fit in fits]
    for ridge, now in zip(RIDGES, (total / rows.judge.sum()).tolist(), strict=True):
        if now > score:
            best, score = ridge, now
    return best, score


def tell_apart(draws: Draws, rows: CloneRows) -> Floats | None:
    """(episodes,): the probability that each is by the second of two policies; None where one policy explains them.

    Two must gain more log-likelihood than the Bayesian information criterion (Schwarz 1978) asks for.

    Args:
        draws: actions in units of the target.
        rows: those of the log, whose linear features are used.
    """
    episode, count, plain = rows.episode, int(rows.episode[-1]) + 1, rows.plain
    if count < FEWEST_EPISODES:
        return None
    size = group_sums(episode, np.einsum("nm,nm->n", draws.z, draws.z), count) / np.bincount(episode)
    second = np.where(size > np.median(size), 0.9, 0.1)  # a guess to begin with: who is farther from the target
    whole = rows.regression(None, everywhere=True).fit(draws, Gaussian.target(draws), ROUNDS)
    one = group_sums(episode, whole.log_density(draws, plain), count)
    fits, total = [whole, whole], -np.inf
    for _ in range(MIXTURE_ROUNDS):
        weights = [(weight + TINY)[episode] for weight in (1 - second, second)]
        fits = [Regression(plain, NO_RIDGE, weights[k]).fit(draws, fits[k], ROUNDS_EACH) for k in (0, 1)]
        prior = float(np.clip(second.mean(), LEAST_SHARE, 1 - LEAST_SHARE))
        logs = [group_sums(episode, fit.log_density(draws, plain), count) for fit in fits]
        logs = [logs[0] + np.log(1 - prior), logs[1] + np.log(prior)]
        both = np.logaddexp(*logs)
        second = np.exp(logs[1] - both)
        before, total = total, float(both.sum())
        if total - before < ENOUGH * len(episode):
            break
    parameters = draws.z.shape[1] * (plain.size + 1) + 1
    better = total - float(one.sum()) > 0.5 * parameters * np.log(len(episode))
    return second if better and LEAST_SHARE < second.mean() < 1 - LEAST_SHARE else None


class CloneRows:
    """The rows of a log as regressions of all policies share them: nothing in it depends on a policy.

    Args:
        design: features of the states.
        held_out: rows to choose a ridge by.
        episode: the number of each row's episode, rising.
    """

    def __init__(self, design: Design, held_out: Bools, episode: Integers) -> None:
        self.design, self.held_out, self.episode = design, held_out, episode
        self.memory = Memory()

    @cached_property
    def plain(self) -> Design:
        """The constant and the linear features alone."""
        return self.design.plain

    @cached_property
    def every(self) -> Floats:
        """(n,): the weight 1."""
        return np.ones(len(self.episode))

    @property
    def splits(self) -> bool:
        """Whether some rows are held out, and not all."""
        return bool(self.held_out.any() and not self.held_out.all())

    @cached_property
    def train(self) -> Floats:
        """(n,): 0 for rows that are held out, 1 for the others; 1 everywhere where all are one or the other."""
        return self.every * ~self.held_out if self.splits else self.every

    @cached_property
    def judge(self) -> Bools:
        """(n,): the rows that are held out; all where none is."""
        return self.held_out if self.held_out.any() else np.ones(len(self.held_out), dtype=np.bool_)

    @remembered
    def regression(self, ridge: float | None, everywhere: bool) -> Regression:
        """The regression with a ridge, None for linear features alone, on all rows or on those that train."""
        plain, weight = ridge is None, self.every if everywhere else self.train
        gram = self._gram(plain, everywhere)
        return Regression(self.plain if plain else self.design, NO_RIDGE if ridge is None else ridge, weight, gram)

    @remembered
    def _gram(self, plain: bool, everywhere: bool) -> Floats:
        """Σ w φφᵀ, which all ridges share."""
        return (self.plain if plain else self.design).gram(self.every if everywhere else self.train)


class Regression:
    """Ridge regression with weighted rows, whose matrix is factored once.

    Args:
        design: the features of all rows.
        ridge: on the squared coefficients of features that are not linear, per unit of weight.
        weight: (n,).
        gram: Σ w φφᵀ, where it is known already.
    """

    def __init__(self, design: Design, ridge: float, weight: Floats, gram: Floats | None = None) -> None:
        self.design, self.weight, self.total = design, weight, float(weight.sum())
        self.gram = design.gram(weight) if gram is None else gram
        self.factor = cho_factor(self.gram + np.diag(design.penalty(ridge) * self.total))

    def solve(self, products: Floats) -> Floats:
        """The coefficients, from Σ w φ·value."""
        return cho_solve(self.factor, products)

    def coefficients(self, values: Floats) -> Floats:
        """(size,): of the regression of a value at every row."""
        right = sum(features.T @ (self.weight[rows] * values[rows]) for rows, features in self.design.batches())
        return self.solve(np.asarray(right))

    def fit(self, draws: Draws, start: Gaussian, rounds: int) -> Gaussian:
        """A Gaussian by expectation and maximisation; where nothing was clipped one round is exact.

        Args:
            draws: the draws.
            start: the Gaussian of the first expectation.
            rounds: how often.
        """
        found = start
        for _ in range(rounds if draws.any_clipped else 1):
            found = self.maximised(draws, found, expectation(draws, found, self.design, self.weight))
        return found

    def maximised(self, draws: Draws, now: Gaussian, expected: Expectation) -> Gaussian:
        """The likeliest Gaussian for what is expected under the one of the round before."""
        coefficients = self.solve(expected.products)
        explained = np.sum(coefficients * (2 * expected.products - self.gram @ coefficients), axis=0)
        left = expected.squares - explained
        if (left < LEAST_LEFT * expected.squares).any():
            left = left_squares(draws, now, self.design, self.weight, coefficients)
        return Gaussian(coefficients, np.sqrt(left / self.total + LEAST_VARIANCE))


@dataclass(frozen=True)
class Expectation:
    """Sums over rows of what is expected of each draw."""

    products: Floats
    """Σ w φ·E[draw], shape (D, m)."""
    squares: Floats
    """Σ w E[draw²], shape (m,)."""


def expectation(draws: Draws, now: Gaussian, design: Design, weight: Floats) -> Expectation:
    """The E step: expected draws and squares, under the Gaussian of the round before.

    Args:
        draws: the draws.
        now: the Gaussian.
        design: the features.
        weight: of each row.
    """
    columns = draws.z.shape[1]
    products, squares = np.zeros((design.size, columns)), np.zeros(columns)
    for rows, features in design.batches():
        seen = now.seen(draws.at(rows.start, rows.stop), features)
        products += features.T @ (weight[rows, None] * seen.centre)
        squares += weight[rows] @ np.square(seen.centre) + seen.variances(weight[rows])
    return Expectation(products, squares)


def left_squares(draws: Draws, now: Gaussian, design: Design, weight: Floats, coefficients: Floats) -> Floats:
    """Σ w E[(draw - φᵀβ)²], shape (m,), row by row, the expectation being under the Gaussian of the round before."""
    total = np.zeros(draws.z.shape[1])
    for rows, features in design.batches():
        seen = now.seen(draws.at(rows.start, rows.stop), features)
        total += weight[rows] @ np.square(seen.centre - features @ coefficients) + seen.variances(weight[rows])
    return total
