"""The behaviour as one or two Gaussians in z, the target's own units, with clipped actions taken for what they are.

An action that was clipped to a bound says only that the draw lay beyond it: its likelihood is the probability of a tail
of the Gaussian, not a density.

Where logs of two policies were put together, one Gaussian fits neither. Whole episodes are then told apart, and the
clone is Σ_k g_k(s)·N(z; μ_k(s), σ_k), with g_k(s) the share of policy k among the rows near s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers, group_sums
from ope_vpm.ope.behaviour.draws import Draws, Seen
from ope_vpm.ope.behaviour.regression import (
    LEAST_LEFT,
    LEAST_VARIANCE,
    NO_RIDGE,
    Design,
    Expectation,
    Gaussian,
    Regression,
    expectation,
)
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.policy.continuous import LOG_ROOT_TWO_PI

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""On the coefficients of non-linear features, per row; held-out episodes choose one, or linear features alone."""
ROUNDS = 20
"""Of expectation and maximisation, with linear features from N(0, 1)."""
MIXTURE_ROUNDS = 15
"""Of expectation and maximisation over episodes, at most: whole episodes are told apart within a few."""
ROUNDS_EACH = 2
"""Of expectation and maximisation over clipped draws within each of these."""
ENOUGH = 1e-4
"""Gain in log-likelihood per row below which these rounds stop."""
LEAST_SHARE = 0.02
"""Of one policy near a state: the other's episodes are seldom told apart for certain."""
FEWEST_EPISODES = 10
"""To look for two policies: five of each."""
TINY = 1e-9
"""Weight of a row in the fit of a policy that certainly did not log it, so that no fit is without rows."""
LATER_ROUNDS = 5
"""Of expectation and maximisation, from the fit with linear features with those that were chosen."""
LEAST_GAIN = 0.02
"""In log-likelihood per row, for two policies instead of one: less changes a ratio by 2 %, below its own noise."""


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
        part, seen = draws.at(batch).chosen(chosen), features[chosen]
        total += [float(part.log_density(fit.mean(seen), fit.std).sum()) for fit in fits]
    for ridge, now in zip(RIDGES, (total / rows.judge.sum()).tolist(), strict=True):
        if now > score:
            best, score = ridge, now
    return best, score


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

    @cached_property
    def bounds(self) -> Integers:
        """(episodes + 1,): where each episode begins, and where the last one ends."""
        count = int(self.episode[-1]) + 1
        return np.searchsorted(self.episode, np.arange(count + 1))

    @property
    def long_episodes(self) -> bool:
        """Whether sums of products of linear features over each episode take no more memory than these features."""
        return (len(self.bounds) - 1) * self.plain.size <= len(self.episode)

    @cached_property
    def episode_grams(self) -> Floats:
        """Σ φφᵀ of the linear features over the rows of each episode, shape (episodes, D, D)."""
        return self.sums_of_episodes(self.plain.features(slice(0, len(self.episode))))[0]

    def gram_of_episodes(self, weight: Floats) -> Floats:
        """Σ w φφᵀ of the linear features with a weight for each episode."""
        if not self.long_episodes:
            return self.plain.gram(weight[self.episode])
        return np.tensordot(weight, self.episode_grams, axes=1)

    def sums_of_episodes(self, values: Floats) -> tuple[Floats, Floats]:
        """Σ φvᵀ and Σ v² over the rows of each episode, for linear features φ and values v, (n, m)."""
        features = self.plain.features(slice(0, len(self.episode)))
        parts = [slice(first, last) for first, last in pairwise(self.bounds.tolist())]
        products = np.stack([features[part].T @ values[part] for part in parts])
        return products, np.add.reduceat(np.square(values), self.bounds[:-1], axis=0)


class EpisodeDraws:
    """Draws of whole episodes, each with a weight, and Gaussians of linear features that are fitted to them.

    Args:
        draws: actions in units of the target.
        rows: the log's.
    """

    def __init__(self, draws: Draws, rows: CloneRows) -> None:
        self.draws, self.rows = draws, rows
        self._looked_at: dict[int, tuple[Gaussian, list[Seen]]] = {}

    def fit(self, number: int, weight: Floats, start: Gaussian) -> Gaussian:
        """The Gaussian of one of the policies, `number`, from weights of episodes and that of the round before."""
        episodes, looked_at = self.rows.episode, None
        if number in self._looked_at and self._looked_at[number][0] is start:
            looked_at = self._looked_at[number][1]
        gram = self.rows.gram_of_episodes(weight)
        found = Regression(self.rows.plain, NO_RIDGE, weight[episodes], gram)
        return found.fit(self.draws, start, ROUNDS_EACH, looked_at)

    def log_density(self, number: int, fit: Gaussian) -> Floats:
        """(episodes,): of each episode's draws; what was looked up for it serves the fit that starts there."""
        looked_at = fit.looked_at(self.draws, self.rows.plain)
        self._looked_at[number] = fit, looked_at
        logs = np.concatenate([seen.log_density() for seen in looked_at])
        return group_sums(self.rows.episode, logs, len(self.rows.bounds) - 1)


class SummedEpisodes(EpisodeDraws):
    """Draws of whole episodes where nothing was clipped: Gaussians then need sums over each episode's rows alone.

    Where a Gaussian leaves next to nothing of the draws, differences of sums have lost its digits, and rows are taken.
    """

    def __init__(self, draws: Draws, rows: CloneRows) -> None:
        super().__init__(draws, rows)
        self.products, self.squares = rows.sums_of_episodes(draws.z)

    def fit(self, number: int, weight: Floats, start: Gaussian) -> Gaussian:
        """As in `EpisodeDraws`, without a pass over rows."""
        gram = self.rows.gram_of_episodes(weight)
        found = Regression(self.rows.plain, NO_RIDGE, weight[self.rows.episode], gram)
        products = np.tensordot(weight, self.products, axes=1)
        return found.maximised(self.draws, start, Expectation(products, weight @ self.squares))

    def log_density(self, number: int, fit: Gaussian) -> Floats:
        """(episodes,): of each episode's draws."""
        count = np.diff(self.rows.bounds)[:, None]
        if (fit.std**2 - LEAST_VARIANCE < LEAST_LEFT * self.squares.sum(axis=0) / count.sum()).any():
            return super().log_density(number, fit)
        beta = fit.coefficients
        explained = np.sum(beta * (2 * self.products - self.rows.episode_grams @ beta), axis=1)
        logs: Floats = -0.5 * (self.squares - explained) / fit.std**2 - count * (np.log(fit.std) + LOG_ROOT_TWO_PI)
        return np.asarray(logs.sum(axis=1))


def tell_apart(draws: Draws, rows: CloneRows) -> Floats | None:
    """(episodes,): the probability that each is by the second of two policies; None where one policy explains them.

    Two must gain more log-likelihood than the Bayesian information criterion (Schwarz 1978) asks for.

    Args:
        draws: actions in units of the target.
        rows: those of the log, whose linear features are used.
    """
    episode, count, plain = rows.episode, len(rows.bounds) - 1, rows.plain
    if count < FEWEST_EPISODES:
        return None
    size = group_sums(episode, np.einsum("nm,nm->n", draws.z, draws.z), count) / np.diff(rows.bounds)
    second = np.where(size > np.median(size), 0.9, 0.1)  # a guess to begin with: who is farther from the target
    whole = rows.regression(None, everywhere=True).fit(draws, Gaussian.target(draws), ROUNDS)
    one = group_sums(episode, whole.log_density(draws, plain), count)
    found = SummedEpisodes(draws, rows) if rows.long_episodes and not draws.any_clipped else EpisodeDraws(draws, rows)
    fits, total = [whole, whole], -np.inf
    for _ in range(MIXTURE_ROUNDS):
        fits = [found.fit(k, weight + TINY, fits[k]) for k, weight in enumerate((1 - second, second))]
        prior = float(np.clip(second.mean(), LEAST_SHARE, 1 - LEAST_SHARE))
        logs = [found.log_density(k, fit) for k, fit in enumerate(fits)]
        logs = [logs[0] + np.log(1 - prior), logs[1] + np.log(prior)]
        both = np.logaddexp(*logs)
        second = np.exp(logs[1] - both)
        before, total = total, float(both.sum())
        if total - before < ENOUGH * len(episode):
            break
    parameters = draws.z.shape[1] * (plain.size + 1) + 1
    better = total - float(one.sum()) > 0.5 * parameters * np.log(len(episode))
    return second if better and LEAST_SHARE < second.mean() < 1 - LEAST_SHARE else None
