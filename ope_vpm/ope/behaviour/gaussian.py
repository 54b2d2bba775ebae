"""The behaviour as one or two Gaussians in z, the target's own units, with clipped actions taken for what they are.

An action that was clipped to a bound says only that the draw lay beyond it: its likelihood is the probability of a tail
of the Gaussian, not a density. The fit is by expectation and maximisation (Dempster, Laird and Rubin 1977), the draws
beyond a bound being what is not seen.

Where logs of two policies were put together, one Gaussian fits neither. Whole episodes are then told apart, and the
clone is Σ_k g_k(s)·N(z; μ_k(s), σ_k), with g_k(s) the share of policy k among the rows near s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_ndtr

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks, group_sums
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.ope.adapter.encoding import StateFeatures
from ope_vpm.ope.adapter.pair_features import KEPT_ROWS
from ope_vpm.ope.behaviour.clone import Clone
from ope_vpm.ope.log import Precision, precision_for
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
KEPT_NUMBERS = 1 << 22
"""Linear features that are kept, 32 MB, though all features are too many: two policies are told apart in some forty
passes over them."""
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

    @cached_property
    def any_clipped(self) -> bool:
        """Whether a bound was hit anywhere."""
        return bool(self.below.any() or self.above.any())

    def at(self, rows: slice) -> Draws:
        """Some of the rows."""
        return Draws(self.z[rows], self.below[rows], self.above[rows])

    def log_density(self, mean: Floats, std: Floats) -> Floats:
        """(n,): the log-density of what was seen, with the probability of the tail where it was clipped."""
        total: Floats = clipped_log_densities((self.z - mean) / std, std, self.below, self.above).sum(axis=1)
        return total

    def expected(self, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each draw, (n, m), given what was seen of it."""
        if not self.any_clipped:
            return self.z, np.zeros(self.z.shape[1])
        centre, variance = self.z.copy(), np.zeros_like(self.z)
        for where, side in ((self.below, -1.0), (self.above, 1.0)):
            here, width = mean[where], np.broadcast_to(std, mean.shape)[where]
            edge = side * (self.z[where] - here) / width
            # φ(edge)/Φ(-edge), by logarithms: far beyond the bound both vanish
            hazard = np.exp(-0.5 * edge**2 - LOG_ROOT_TWO_PI - log_ndtr(-edge))
            centre[where] = here + side * width * hazard
            variance[where] = width**2 * np.clip(1 + edge * hazard - hazard**2, 0.0, 1.0)
        return centre, variance


@dataclass(frozen=True, eq=False)
class Design:
    """The regressors of every row: a constant, features that are linear in the state, then others."""

    length: int
    """The number of rows."""
    size: int
    """The number of features."""
    linear: int
    """How many of them are linear."""
    features: Callable[[slice], Floats]
    """All features of some rows."""
    linear_features: Callable[[slice], Floats]
    """The constant and the linear features of some rows."""
    step: int
    """How many rows are looked at together."""
    maps: tuple[Array, ...] = ()
    """What the rows are read from, where it may be on disk."""

    @classmethod
    def table(cls, features: Floats, linear: int) -> Design:
        """Features (n, D) that are there already."""
        size, plain = int(features.shape[1]), features[:, : 1 + linear]
        return cls(len(features), size, linear, features.__getitem__, plain.__getitem__, len(features))

    @classmethod
    def of_states(cls, states: StateFeatures, observations: Array, precision: Precision | None = None) -> Design:
        """Features of observed states: a table where they are few, otherwise computed whenever they are needed.

        Args:
            states: the features.
            observations: the states.
            precision: of the features; by default single where there are many.
        """
        precision = precision or precision_for(len(observations))
        if len(observations) <= KEPT_ROWS and precision is np.float64:
            return cls.table(states(observations), states.linear)

        def features(rows: slice) -> Floats:
            out = np.empty((rows.stop - rows.start, states.size), precision)
            states.fill(observations[rows], None, out)
            return out.astype(np.float64, copy=False)

        def plain(rows: slice) -> Floats:
            z = states.limited_coordinates(observations[rows])
            return np.column_stack([np.ones(len(z)), z])

        if len(observations) * (1 + states.linear) <= KEPT_NUMBERS:
            kept: list[Floats] = []  # made when it is first asked for

            def plain_table(rows: slice) -> Floats:
                if not kept:
                    kept.append(np.concatenate([plain(some) for some in chunks(len(observations), BATCH_ROWS)]))
                return kept[0][rows]

            linear: Callable[[slice], Floats] = plain_table
        else:
            linear = plain
        return cls(len(observations), states.size, states.linear, features, linear, BATCH_ROWS, (observations,))

    @property
    def plain(self) -> Design:
        """The constant and the linear features alone."""
        return replace(self, size=1 + self.linear, features=self.linear_features)

    def batches(self) -> Iterator[tuple[slice, Floats]]:
        """All rows in order, some at a time: which ones, and their features."""
        for rows in chunks(self.length, self.step, of=self.maps):
            yield rows, self.features(rows)

    def penalty(self, ridge: float) -> Floats:
        """(size,): the ridge on features that are not linear, next to nothing on the others."""
        penalty = np.full(self.size, NO_RIDGE)
        penalty[1 + self.linear :] = ridge
        return penalty

    def gram(self, weight: Floats) -> Floats:
        """Σ w φφᵀ, shape (size, size)."""
        total = np.zeros((self.size, self.size))
        for rows, features in self.batches():
            total += (features * weight[rows, None]).T @ features
        return total


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian whose mean is linear in features, with one standard deviation per coordinate."""

    coefficients: Floats
    """(k, m), of the first k features."""
    std: Floats
    """(m,)."""

    @classmethod
    def target(cls, draws: Draws) -> Gaussian:
        """N(0, 1), the target itself, where a fit begins."""
        return cls(np.zeros((1, draws.z.shape[1])), np.ones(draws.z.shape[1]))

    def mean(self, features: Floats) -> Floats:
        """(n, m), at rows with these features."""
        mean: Floats = features[:, : len(self.coefficients)] @ self.coefficients
        return mean

    def expected(self, draws: Draws, features: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of each draw given what was seen of it; see `Draws.expected`."""
        return draws.expected(self.mean(features), self.std)

    def log_density(self, draws: Draws, design: Design) -> Floats:
        """(n,): the log-density of what was seen of each draw."""
        logs = np.empty(design.length)
        for rows, features in design.batches():
            logs[rows] = draws.at(rows).log_density(self.mean(features), self.std)
        return logs


class Regression:
    """Ridge regression with weighted rows, whose matrix is factored once.

    Args:
        design: the features of all rows.
        ridge: on the squared coefficients of features that are not linear, per unit of weight.
        weight: (n,).
        gram: Σ w φφᵀ, where it is known already.
    """

    def __init__(self, design: Design, ridge: float, weight: Floats, gram: Floats | None = None) -> None:
        self.design, self.weight = design, weight
        penalty = design.penalty(ridge) * weight.sum()
        self.factor = cho_factor((design.gram(weight) if gram is None else gram) + np.diag(penalty))

    def solve(self, products: Floats) -> Floats:
        """The coefficients, from Σ w φ·value."""
        coefficients: Floats = cho_solve(self.factor, products)
        return coefficients

    def coefficients(self, values: Floats) -> Floats:
        """(size,): of the regression of a value at every row."""
        right = sum(features.T @ (self.weight[rows] * values[rows]) for rows, features in self.design.batches())
        return self.solve(np.asarray(right))

    def fit(self, draws: Draws, start: Gaussian, rounds: int) -> Gaussian:
        """A Gaussian by expectation and maximisation; where nothing was clipped one round is exact."""
        found = start
        for _ in range(rounds if draws.any_clipped else 1):
            right = expected_products(draws, found, self.design, self.weight)
            (found,) = with_deviations(draws, found, self.design, self.weight, [self.solve(right)])
        return found


def expected_products(draws: Draws, now: Gaussian, design: Design, weight: Floats) -> Floats:
    """Σ w φ·(expected draw), shape (D, m), under the Gaussian of the round before."""
    total = np.zeros((design.size, draws.z.shape[1]))
    for rows, features in design.batches():
        centre, _ = now.expected(draws.at(rows), features)
        total += features.T @ (weight[rows, None] * centre)
    return total


def with_deviations(
    draws: Draws, now: Gaussian, design: Design, weight: Floats, fits: Sequence[Floats]
) -> list[Gaussian]:
    """Gaussians with the coefficients of several fits, each with the deviations that it leaves."""
    total = np.zeros((len(fits), draws.z.shape[1]))
    for rows, features in design.batches():
        centre, variance = now.expected(draws.at(rows), features)
        for sums, coefficients in zip(total, fits, strict=True):
            sums += weight[rows] @ ((centre - features @ coefficients) ** 2 + variance)
    deviations = np.sqrt(total / weight.sum() + LEAST_VARIANCE)
    return [Gaussian(coefficients, std) for coefficients, std in zip(fits, deviations, strict=True)]


@dataclass(frozen=True)
class GaussianClone:
    """The behaviour as a function of the state: one Gaussian in the target's units, or two and a share."""

    parts: tuple[Gaussian, ...]
    waves: bool
    """Whether their means use all features of the design, or the linear ones alone."""
    gate: Floats | None
    """Coefficients of the second one's share near a state; None where there is one Gaussian."""
    held_out_log_likelihood: float

    def log_density(self, draws: Draws, design: Design) -> Floats:
        """(n,): the log-density of what was seen of each draw, at states with the features of the design."""
        logs = [part.log_density(draws, design if self.waves else design.plain) for part in self.parts]
        return logs[0] if self.gate is None else _mixed(logs, share_near(design, self.gate))


def share_near(design: Design, gate: Floats) -> Floats:
    """(n,): the share of the second policy among rows near each state."""
    share = np.concatenate([features @ gate for _, features in design.batches()])
    return np.asarray(np.clip(share, LEAST_SHARE, 1 - LEAST_SHARE))


def _mixed(logs: Sequence[Floats], near: Floats) -> Floats:
    mixed: Floats = np.logaddexp(logs[0] + np.log(1 - near), logs[1] + np.log(near))
    return mixed


def fit_clone(draws: Draws, design: Design, held_out: Bools, episode: Integers) -> Clone:
    """The clone's log-densities of the draws; arguments as in `fit_gaussians`."""
    clone, logs = fit_gaussians(draws, design, held_out, episode)
    return Clone(logs, clone.held_out_log_likelihood)


def fit_gaussians(draws: Draws, design: Design, held_out: Bools, episode: Integers) -> tuple[GaussianClone, Floats]:
    """The clone with the ridge that fits held-out rows best, and its log-densities of the draws.

    Args:
        draws: actions in units of the target.
        design: features of the states; linear ones are not penalised.
        held_out: rows to choose the ridge by.
        episode: the number of each row's episode.
    """
    every = np.ones(len(episode))
    plain = design.plain
    train = every * ~held_out if held_out.any() and not held_out.all() else every
    first = Regression(plain, NO_RIDGE, train).fit(draws, Gaussian.target(draws), ROUNDS)
    ridge, score = _choose_ridge(draws, first, design, held_out, train)
    used, penalty = (plain, NO_RIDGE) if ridge is None else (design, ridge)
    whole = Regression(used, penalty, every).fit(draws, first, LATER_ROUNDS)
    one, logs = GaussianClone((whole,), ridge is not None, None, score), whole.log_density(draws, used)
    second = tell_apart(draws, plain, episode)
    if second is None:
        return one, logs
    share = second[episode]
    gate = Regression(design, RIDGES[1], every).coefficients(share)
    parts = [Regression(used, penalty, part + TINY).fit(draws, whole, ROUNDS) for part in (1 - share, share)]
    mixed = _mixed([part.log_density(draws, used) for part in parts], share_near(design, gate))
    gain = float(np.mean(mixed - logs))
    two = GaussianClone((parts[0], parts[1]), ridge is not None, gate, score + gain)
    return (two, mixed) if gain > LEAST_GAIN else (one, logs)


def tell_apart(draws: Draws, plain: Design, episode: Integers) -> Floats | None:
    """(episodes,): the probability that each is by the second of two policies; None where one policy explains them.

    Two must gain more log-likelihood than the Bayesian information criterion (Schwarz 1978) asks for.

    Args:
        draws: actions in units of the target.
        plain: a constant and linear features.
        episode: the number of each row's episode.
    """
    count = int(episode[-1]) + 1
    if count < FEWEST_EPISODES:
        return None
    lengths = np.bincount(episode, minlength=count)
    size = group_sums(episode, np.einsum("nm,nm->n", draws.z, draws.z), count) / lengths
    second = np.where(size > np.median(size), 0.9, 0.1)  # a guess to begin with: who is farther from the target
    whole = Regression(plain, NO_RIDGE, np.ones(len(episode))).fit(draws, Gaussian.target(draws), ROUNDS)
    one = group_sums(episode, whole.log_density(draws, plain), count)
    fits = [whole, whole]
    total = -np.inf
    for _ in range(MIXTURE_ROUNDS):
        weights = [(1 - second)[episode] + TINY, second[episode] + TINY]
        fits = [Regression(plain, NO_RIDGE, w).fit(draws, fit, 2) for w, fit in zip(weights, fits, strict=True)]
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


def _choose_ridge(
    draws: Draws, first: Gaussian, design: Design, held_out: Bools, train: Floats
) -> tuple[float | None, float]:
    """The ridge with the highest likelihood of held-out rows, None for linear features alone; and that likelihood."""
    judge = held_out if held_out.any() else np.ones(len(held_out), dtype=np.bool_)
    score = float(np.mean(first.log_density(draws, design.plain)[judge]))
    best: float | None = None
    if not (train == 0).any():
        return best, score
    gram, right = design.gram(train), expected_products(draws, first, design, train)
    solved = [Regression(design, ridge, train, gram).solve(right) for ridge in RIDGES]
    fits = with_deviations(draws, first, design, train, solved)
    total = np.zeros(len(fits))
    for rows, features in design.batches():
        chosen = judge[rows]
        part = Draws(draws.z[rows][chosen], draws.below[rows][chosen], draws.above[rows][chosen])
        total += [float(part.log_density(fit.mean(features[chosen]), fit.std).sum()) for fit in fits]
    for ridge, now in zip(RIDGES, (total / judge.sum()).tolist(), strict=True):
        if now > score:
            best, score = ridge, now
    return best, score
