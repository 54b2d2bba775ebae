"""How much each logged episode moves an estimate: the one place where influence functions are put together.

An estimate is a sum of ratios of per-episode sums, v = Σ_k (Σ_e a_ek)/(Σ_e b_ek): exactly for the logged mean and for
weighted importance sampling, and to first order for solutions of linear equations, where an episode's influence is

    ψ_e = Σ_{its rows} share·τ·δ + κ·(V(s₀) - mean V(s₀)),   δ = r + γV(s') - Q(s, a) the Bellman residual,

κ the probability per step of beginning at an initial state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtrit

from ope_vpm.arrays import ROUNDING, Floats, Integers, chunks, group_sums
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class EpisodeSums:
    """Numerators and denominators of K ratios, summed within each episode: both (episodes, K)."""

    numerator: Floats
    denominator: Floats

    @classmethod
    def of_rows(cls, episode: Integers, count: int, numerator: Floats, denominator: Floats) -> EpisodeSums:
        """One ratio, from a numerator and a denominator per row."""
        return cls(group_sums(episode, numerator, count)[:, None], group_sums(episode, denominator, count)[:, None])

    @classmethod
    def of_influence(cls, value: float, influence: Floats) -> EpisodeSums:
        """One ratio that is a value, moved by each episode as given."""
        equal = np.full((len(influence), 1), 1 / len(influence))
        return cls(influence[:, None] + value * equal, equal)

    def beside(self, other: EpisodeSums) -> EpisodeSums:
        """The ratios of both."""
        return EpisodeSums(
            np.hstack([self.numerator, other.numerator]), np.hstack([self.denominator, other.denominator])
        )

    def in_order(self, episodes: Integers) -> EpisodeSums:
        """These sums with the episodes in another order."""
        return EpisodeSums(self.numerator[episodes], self.denominator[episodes])

    def scaled(self, factor: float) -> EpisodeSums:
        """The ratios multiplied by a factor."""
        return EpisodeSums(factor * self.numerator, self.denominator)

    def stretched(self, factor: float) -> EpisodeSums:
        """Sums with these ratios, and every deviation from them multiplied by a factor."""
        level = self.denominator * self.ratios
        return EpisodeSums(level + factor * (self.numerator - level), self.denominator)

    @property
    def ratios(self) -> Floats:
        """Each of the K ratios over all episodes; 0 where the denominator is."""
        below = self.denominator.sum(axis=0)
        return np.divide(self.numerator.sum(axis=0), below, out=np.zeros_like(below), where=below != 0)

    @property
    def influence(self) -> Floats:
        """(episodes,): how much each episode moves the estimate, to first order; they sum to 0."""
        below = self.denominator.sum(axis=0)
        moved = np.divide(
            self.numerator - self.denominator * self.ratios, below, out=np.zeros_like(self.numerator), where=below != 0
        )
        return moved.sum(axis=1)

    @property
    def standard_error(self) -> float:
        """√Σψ²: the standard error of the estimate, episodes being independent."""
        return float(np.sqrt(np.sum(self.influence**2)))


def influence_sums(
    problem: Problem,
    rows: Integers,
    share: Floats,
    mass: Floats,
    residual: Floats,
    first: Floats,
    level: float | None = None,
) -> EpisodeSums:
    """Per-episode sums of τ·(Bellman residual), and what the initial states add.

    Args:
        problem: the question.
        rows: the logged row of each step.
        share: how much each step counts in the log; these sum to 1.
        mass: how much it counts under the target, share·τ.
        residual: the Bellman residual of each step.
        first: V at the initial states, in the order of `problem.log.initial_episodes`.
        level: the value itself, where it is the self-normalised Σ mass·r / Σ mass: the sum of τ then varies, too.
    """
    data = problem.data
    above, below = (mass * residual, share) if level is None else (mass * (residual + level), mass)
    sums = EpisodeSums.of_rows(data.episode[rows], data.n_episodes, above, below)
    return sums.beside(initial_sums(problem, entry_rate(problem, rows, mass), first))


def entry_rate(problem: Problem, rows: Integers, mass: Floats) -> float:
    """The probability per step of entering an initial state: 1-γ, and where ends restart γ·(mass on them) more.

    Args:
        problem: the question.
        rows: logged rows.
        mass: the probability of each under the target; these sum to 1.
    """
    return 1 - problem.gamma + entry_rate_of_ends(problem, rows, mass)


def entry_rate_of_ends(problem: Problem, rows: Integers, mass: Floats) -> float:
    """The part of `entry_rate` that is due to restarts after ends; arguments as there."""
    restarts = problem.on_end == "restart"
    return problem.gamma * float(mass[problem.ending[rows]].sum()) if restarts else 0.0


def initial_sums(problem: Problem, rate: float, values: Floats) -> EpisodeSums:
    """Per-episode sums of rate·(V(s₀) - mean V(s₀)): one ratio, which is 0 over all episodes.

    Args:
        problem: the question.
        rate: see `entry_rate`.
        values: V at the initial states, in the order of `problem.log.initial_episodes`.
    """
    episodes, first = problem.data.n_episodes, problem.log.initial_episodes
    above, below = np.zeros((episodes, 1)), np.zeros((episodes, 1))
    if len(first) and rate > 0:
        above[first, 0] = rate * (values - values.mean()) / len(first)
        below[first, 0] = 1 / len(first)
    return EpisodeSums(above, below)


REPLICATES = 200
"""Bootstrap draws: they cost one product of matrices, and their 2.5 % quantiles are good to a tenth of their spread."""
LARGEST_DRAW = 1 << 20
"""Numbers of the replicates that are held at once, 16 MB as integers and as floats: with a million episodes all of them
would be 3.2 GB."""
LEVEL = 0.95
"""The probability with which an interval is meant to hold the truth."""

Interval = tuple[float, float]
NOTHING: Interval = (np.inf, -np.inf)
"""The limits of an interval that need not hold anything."""


@dataclass(frozen=True, kw_only=True)
class Uncertainty(ABC):
    """A way to a standard error and an interval; bias that is suspected widens both."""

    @property
    def limits(self) -> Interval:
        """Values that the interval holds at least, whatever the episodes say."""
        return NOTHING

    @property
    def sums(self) -> EpisodeSums | None:
        """How each episode moves the estimate; None where that is not known."""
        return None

    @abstractmethod
    def interval(self, value: float, log: Log, seed: int, bias: float = 0.0) -> tuple[float, Interval]:
        """The standard error and the interval of a value, from two episodes or more.

        Args:
            value: the value.
            log: that it was found on.
            seed: of draws.
            bias: that is suspected, as large as one standard error would be; the error holds it.
        """


@dataclass(frozen=True, kw_only=True)
class Bootstrap(Uncertainty):
    """Episodes drawn with replacement; nothing is fitted again, only how often each counts in the sums changes."""

    episodes: EpisodeSums

    @property
    def sums(self) -> EpisodeSums:
        """How each episode moves the estimate."""
        return self.episodes

    def interval(self, value: float, log: Log, seed: int, bias: float = 0.0) -> tuple[float, Interval]:
        """Percentiles of the replicates."""
        drawn = replicates(self.episodes.in_order(log.episodes), seed) + (value - float(self.episodes.ratios.sum()))
        count = len(self.episodes.numerator)
        spread = float(drawn.std() * np.sqrt(count / (count - 1)))
        return float(np.hypot(spread, bias)), percentile_interval(drawn, value, count, bias)


@dataclass(frozen=True, kw_only=True)
class Likelihood(Bootstrap):
    """An interval that the estimator found by likelihood; its standard error is that of the bootstrap."""

    ends: Interval

    def interval(self, value: float, log: Log, seed: int, bias: float = 0.0) -> tuple[float, Interval]:
        """The interval that was found, stretched by as much as suspected bias stretches the standard error."""
        error, _ = super().interval(value, log, seed, bias)
        spread = np.sqrt(max(error**2 - bias**2, 0.0))
        wider = error / spread if spread > 0 else 1.0
        low, high = (value + wider * (end - value) for end in self.ends)
        return error, (low, high)


@dataclass(frozen=True, kw_only=True)
class Spread(Uncertainty):
    """The spread of several models' values, each fitted to its own draw of the episodes."""

    members: Floats

    def interval(self, value: float, log: Log, seed: int, bias: float = 0.0) -> tuple[float, Interval]:
        """Student's quantiles around the mean of the members."""
        spread = float(self.members.std(ddof=1))
        quantiles = stdtrit(len(self.members) - 1, (np.arange(REPLICATES) + 0.5) / REPLICATES)
        interval = percentile_interval(value + spread * quantiles, value, log.data.n_episodes, bias)
        return float(np.hypot(spread, bias)), interval


@dataclass(frozen=True, kw_only=True)
class Derived(Uncertainty):
    """The uncertainty of shift + factor·v, from that of v."""

    of: Uncertainty
    """The uncertainty of v."""
    at: float | None = None
    """v; None: the value that is asked about, which is then v itself."""
    shift: float = 0.0
    factor: float = 1.0
    """A positive factor."""
    limits: Interval = NOTHING
    """Values that the interval holds at least."""
    log: Log | None = None
    """The log that v was found on; None: the one that is asked about."""

    @property
    def sums(self) -> EpisodeSums | None:
        """How each episode moves it; None where that is not known of v."""
        sums = self.of.sums
        return sums if sums is None or self.factor == 1 else sums.scaled(self.factor)

    def interval(self, value: float, log: Log, seed: int, bias: float = 0.0) -> tuple[float, Interval]:
        """The interval of v, moved and stretched, and the limits."""
        at = value if self.at is None else self.at
        error, ends = self.of.interval(at, self.log or log, seed, bias / self.factor)
        low, high = (self.shift + self.factor * end for end in ends)
        return self.factor * error, (min(low, self.limits[0]), max(high, self.limits[1]))


def replicates(sums: EpisodeSums, seed: int, number: int = REPLICATES) -> Floats:
    """The estimate on `number` draws of as many episodes, with replacement.

    A draw in which a ratio has no denominator takes that ratio from all episodes.
    """
    rng = np.random.default_rng(seed)
    episodes = len(sums.numerator)
    columns = sums.numerator.shape[1]
    above, below = np.empty((number, columns)), np.empty((number, columns))
    equal = np.full(episodes, 1 / episodes)
    for some in chunks(number, max(1, LARGEST_DRAW // episodes)):
        times = rng.multinomial(episodes, equal, size=some.stop - some.start).astype(np.float64)
        above[some], below[some] = times @ sums.numerator, times @ sums.denominator
    ratio = np.divide(above, below, out=np.broadcast_to(sums.ratios, above.shape).copy(), where=below > 0)
    return ratio.sum(axis=1)


def percentile_interval(drawn: Floats, value: float, episodes: int, bias: float) -> Interval:
    """Percentiles of the replicates around the value, honest about few episodes and about bias.

    With E episodes a percentile interval is too short by about √((E-1)/E), and because the normal quantile is below
    Student's. Both are mended by wider percentiles, Φ(-√(E/(E-1))·t_{E-1}) (Hesterberg, What Teachers Should Know About
    the Bootstrap, 2015, section 5.2). A suspected bias b widens both sides by √(1 + (b/se)²): as if b were one more
    standard error.
    """
    quantile = stdtrit(episodes - 1, 0.5 + LEVEL / 2)
    tail = float(ndtr(-np.sqrt(episodes / (episodes - 1)) * quantile))
    low, high = np.quantile(drawn - value, [tail, 1 - tail])
    spread = float(drawn.std())
    if spread <= ROUNDING * (abs(value) + abs(bias)):
        return float(value + low - quantile * bias), float(value + high + quantile * bias)
    factor = float(np.sqrt(1 + (bias / spread) ** 2))
    return float(value + factor * low), float(value + factor * high)
