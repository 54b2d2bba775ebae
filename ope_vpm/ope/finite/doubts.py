"""Doubts that counts raise: rewards that few episodes hold, and a past that predicts what follows a pair.

A standard error from a handful of rare events is itself hardly known, and one from none is 0. Where the rewards other
than the commonest one occur in at most half of the episodes, their share of the episodes is a binomial one, which has
exact limits.

Are finite states states? In a Markov decision process the step before predicts nothing beyond the pair. All that is
needed are moments of residuals by pair and by the pair before, which are added up over parts of a log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import ldexp

import numpy as np
from scipy.special import betaincinv

from ope_vpm.arrays import ROUNDING, Bools, Floats, Integers, effective_sample_size, group_sums
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.finite.counts import LoggedSteps, SomeSteps
from ope_vpm.ope.finite.influence import RARE_SHARE, SolvedSteps, commonest_reward
from ope_vpm.ope.finite.model import FiniteSolution
from ope_vpm.ope.finite.problem import finite_problem, over_steps
from ope_vpm.ope.inference.doubts import FEW, Doubts
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.uncertainty import LEVEL, Derived
from ope_vpm.ope.problem import Problem

RARE = "the rewards that make the difference occur in few episodes, worth {:.1f}"
SURE = 4.0
"""How many standard errors the state before must predict of the next outcome to count. Bins of a continuous state had
4.5 to 130; FrozenLake, a queue and their like 2.1 at most in 52 logs."""


@dataclass(frozen=True)
class RareRewards:
    """How much rests on rewards that few episodes hold."""

    episodes: float
    """Kish's effective number of episodes with such rewards, by what each adds to the value."""
    below: float
    """How far the value may lie below the estimate, by the exact limits of a binomial share."""
    above: float
    """How far it may lie above."""


def limits_of_rewards(holding: Bools, gains: Floats, losses: Floats) -> RareRewards | None:
    """Limits of a value that rests on rare rewards; None where there are no others than one, or they are not rare.

    Args:
        holding: (episodes,): whether they hold other rewards than the commonest.
        gains: (episodes,): what those above it add to the value.
        losses: (episodes,): what those below it take from it.
    """
    if not holding.any() or holding.mean() > RARE_SHARE:
        return None
    (fewer_gains, more_gains), (fewer_losses, more_losses) = binomial_limits(gains), binomial_limits(losses)
    below, above = max(fewer_gains, more_losses), max(more_gains, fewer_losses)
    return RareRewards(effective_sample_size(gains + losses), below, above)


def rare_rewards(data: LoggedDataset, share: Floats) -> RareRewards | None:
    """How much of the value Σ share·r rests on rewards that few episodes hold; None where they are not rare.

    Args:
        data: the log, on states of any kind.
        share: (n,): how much each row counts in the value.
    """
    commonest = commonest_reward(data)
    if commonest is None:
        return None
    above = share * (data.rewards - commonest)
    columns = (data.rewards != commonest).astype(np.float64), np.maximum(above, 0), np.maximum(-above, 0)
    others, gains, losses = (group_sums(data.episode, column, data.n_episodes) for column in columns)
    return limits_of_rewards(others > 0, gains, losses)


def few_rewards(data: LoggedDataset, rare: RareRewards | None) -> Doubts:
    """The doubt about rewards that few episodes hold."""
    return FEW.of(None if rare is None else rare.episodes, data.n_episodes, sentence=RARE)


def with_rare_rewards(data: LoggedDataset, found: RawEstimate, share: Floats) -> RawEstimate:
    """An estimate whose interval and verdict know from how few episodes its rare rewards are.

    Args:
        data: the log, on states of any kind.
        found: the estimate, with an influence function.
        share: (n,): how much the reward of each row counts in its value.
    """
    rare = rare_rewards(data, share)
    if rare is None or found.uncertainty is None:
        return found
    reach = found.value - rare.below, found.value + rare.above
    uncertainty = Derived(of=found.uncertainty, limits=reach)
    return replace(found, uncertainty=uncertainty).doubted(few_rewards(data, rare))


def binomial_limits(amounts: Floats) -> tuple[float, float]:
    """How far below and above the sum of rare amounts its expectation may lie, as if all of them were equal.

    With K effective events in as many effective episodes as have the same share of them, the exact limits of that
    share are quantiles of Beta(K, n - K + 1) and Beta(K + 1, n - K) (Clopper and Pearson 1934); for few events in many
    episodes these are the limits of a Poisson number.

    Args:
        amounts: (episodes,): what each episode adds, not negative.
    """
    total, events = float(amounts.sum()), effective_sample_size(amounts)
    if total <= 0 or not events > 0:
        return 0.0, 0.0
    share, tail = float(np.mean(amounts > 0)), (1 - LEVEL) / 2
    others = events / share - events
    low = float(betaincinv(events, others + 1, tail))
    high = float(betaincinv(events + 1, others, 1 - tail)) if others > 0 else 1.0
    return total * (1 - low / share), total * (high / share - 1)


@dataclass(frozen=True)
class History:
    """What the step before predicts of an outcome, beyond its own state and action."""

    share: float
    """The share of the variance of outcomes; 0 in a Markov decision process, and where noise alone may be the
    reason."""
    bias: float
    """What that may do to a value: rms(τ)·√share·sd(δ)."""


def history(problem: Problem, solution: FiniteSolution) -> History:
    """What the step before predicts, and what that may do.

    Bins of a continuous state are no states: where a step came from tells where in its bin it is. Where changing an
    action costs something, the action before is missing in the state. What the target then does to what is missing, no
    ratio of such states shows: it may be as far from 1 as the ratio τ is from 0.
    """
    counts, size = finite_problem(problem).counts, problem.data.reward_facts.size
    solved = SolvedSteps.of(problem, solution, None)
    # Residuals as multiples of a power of two, which rounds nothing: powers of 1e-160 are not held by floats.
    exponent = int(np.frexp(size)[1])
    found, earlier = (over_steps(problem, Pasts.of, solved, exponent, lag) for lag in (1, 2))
    number, _, square = found.moments[:3].sum(axis=1)
    rms = ldexp(float(np.sqrt(square / number)), exponent) if number else 0.0
    if rms <= ROUNDING * size:
        return History(0.0, 0.0)
    asked = (found, counts.state_of_pair), (found, counts.action_of_pair), (earlier, counts.action_of_pair)
    share = max(pasts.predicted(kind) for pasts, kind in asked)
    ratio = float(np.sqrt(counts.times @ solved.ratio**2 / counts.times.sum()))
    return History(share, ratio * float(np.sqrt(share)) * rms)


@dataclass(frozen=True, eq=False)
class Pasts:
    """Moments of residuals by pair and by the pair one or two steps before; those of parts are merged."""

    pairs: int
    """How many there are."""
    lag: int
    """How many steps before."""
    code: Integers
    """pair · pairs + the pair before, rising."""
    moments: Floats
    """(5, codes): Σ eᵏ, k from 0 to 4, over the steps of each code."""
    ends: tuple[Floats, ...]
    """The first and the last steps, `lag` of them, as columns of row, episode, pair and residual."""

    @classmethod
    def of(cls, logged: LoggedSteps, solved: SolvedSteps, exponent: int, lag: int = 1) -> Pasts:
        """Over the steps of a log, or of one part."""
        pieces = (cls.of_some(some, logged.first, solved, exponent, lag) for some in logged.pieces)
        none = cls(len(solved.ratio), lag, np.zeros(0, dtype=np.int64), np.zeros((5, 0)), (np.zeros((4, 0)),) * 2)
        return reduce(Pasts.merge, pieces, none)

    @classmethod
    def of_some(cls, some: SomeSteps, first: int, solved: SolvedSteps, exponent: int, lag: int) -> Pasts:
        """Over some steps, without those that ended the task: what follows them is another episode."""
        outcome = some.rewards + solved.gamma * solved.values[some.after]
        left = np.ldexp(outcome - solved.mean[some.pair], -exponent)
        steps = np.array([some.row, first + some.episode, some.pair, left])[:, ~some.end]
        pairs = len(solved.ratio)
        return cls._added(pairs, lag, [_followed(pairs, lag, steps)], (steps[:, :lag], steps[:, -lag:]))

    def merge(self, other: Pasts) -> Pasts:
        """The moments of two parts, one after another: an episode may go on from one into the other."""
        border = np.hstack([self.ends[1], other.ends[0]])
        first, last = (np.hstack([mine, its]) for mine, its in zip(self.ends, other.ends, strict=True))
        tables = [(each.code, each.moments) for each in (self, other)]
        ends = first[:, : self.lag], last[:, -self.lag :]
        return self._added(self.pairs, self.lag, [*tables, _followed(self.pairs, self.lag, border)], ends)

    @classmethod
    def _added(cls, pairs: int, lag: int, tables: list[tuple[Integers, Floats]], ends: tuple[Floats, ...]) -> Pasts:
        codes, moments = (np.concatenate(some, axis=-1) for some in zip(*tables, strict=True))
        return cls(pairs, lag, *_summed(codes, moments), ends)

    def predicted(self, kind: Integers) -> float:
        """The share of the variance of residuals that is between steps of one pair with different pasts.

        It is the mean of `products_by_past`, and 0 where their sum is not beyond its noise.

        Args:
            kind: (pairs,): what is asked of the pair before, its state or its action.
        """
        pair, before = np.divmod(self.code, self.pairs)
        found, noise, number = products_by_past(pair, kind[before], self.moments)
        return found / number if found > SURE * noise > 0 else 0.0


def _followed(pairs: int, lag: int, steps: Floats) -> tuple[Integers, Floats]:
    """Codes and moments of those steps, (4, steps), that come so many steps after one of their episode."""
    apart = steps[:2, lag:] - steps[:2, :-lag]
    later = np.flatnonzero((apart[0] == lag) & (apart[1] == 0)) + lag
    pair = steps[2].astype(np.int64)
    return pair[later] * pairs + pair[later - lag], steps[3, later] ** np.arange(5)[:, None]


def _summed(code: Integers, moments: Floats) -> tuple[Integers, Floats]:
    """Every code once, rising, with its moments."""
    different, place = np.unique(code, return_inverse=True)
    return different, np.stack([group_sums(place, each, len(different)) for each in moments])


def products_by_past(pair: Integers, before: Integers, moments: Floats) -> tuple[float, float, float]:
    """The products of all two different residuals with the same pair and the same past, in units of s².

    s² is the variance of the pair's residuals. Less their mean over n steps they have the product -s²/n where it does
    not matter what was before: that is made up for. Returns the sum, its standard deviation by noise alone, and
    the number of products.

    Args:
        pair: (groups,): the number of each group's pair.
        before: the number of what was before, a state or an action; a pair and a past may be those of several groups.
        moments: (5, groups): Σ eᵏ, k from 0 to 4, e being r + γV(s') of each step, less anything that depends on its
            pair.
    """
    width, pairs = int(before.max(initial=0)) + 1, int(pair.max(initial=0)) + 1
    codes, sums = _summed(pair * width + before, moments)
    of_pair = codes // width
    times, first, second, third, fourth = (group_sums(of_pair, each, pairs) for each in sums)
    number = np.maximum(times, 1)
    mean = first / number
    squares = np.maximum(second - first * mean, 0)
    fourths = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * first * mean**3
    variance = squares / np.maximum(times - 1, 1)
    varies = variance > ROUNDING * np.maximum(variance.max(initial=0), mean**2)
    unit = np.divide(1.0, variance, out=np.zeros_like(variance), where=varies)
    # E[e²e'²] of two different residuals of a pair, in units of s⁴: far below 1 where one outlier is all there is.
    both = unit**2 * (squares**2 - fourths) / np.maximum(times * (times - 1), 1)
    size, own = sums[0], mean[of_pair]
    products, apart = size * (size - 1), size < times[of_pair]
    summed = (sums[1] - size * own) ** 2 - (sums[2] - 2 * own * sums[1] + size * own**2)
    found = float(unit[of_pair] @ summed + products @ (varies / number)[of_pair])
    noise = float(np.sqrt(2 * (products * apart) @ np.maximum(both, 0.0)[of_pair]))
    return found, noise, float(products @ varies[of_pair])
