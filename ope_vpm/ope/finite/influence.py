"""What the logged steps say of an exact solution on counts: weights, influence of episodes, ends, rare rewards.

All of it are sums over steps: see `over_steps`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.linear.passes import WeightSums, added
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.finite.counts import LoggedSteps, PairCounts, SomeSteps
from ope_vpm.ope.finite.model import FiniteSolution, Mixture
from ope_vpm.ope.finite.problem import finite_problem, over_steps
from ope_vpm.ope.inference.uncertainty import EpisodeSums, initial_sums
from ope_vpm.ope.problem import Problem

MORE_THAN_ONCE = 1.5
"""Pairs with larger counts were seen more than once; the copies of a restart make counts fractions."""
MOST_WIDENING = 10.0
"""The most by which pairs seen more than once widen an interval for the others: where hardly any was seen more than
once, nothing is known about how outcomes vary, and a larger factor would only pretend to know it."""


@dataclass(frozen=True, eq=False)
class RowEvidence:
    """What the logged rows say of a solution."""

    sums: EpisodeSums
    """How each episode moves the value."""
    weights: Floats | None
    """(rows,): the ratio at each logged row, 0 for rows that are not used; None where rows are read in parts."""
    of_weights: WeightSums
    """Their sums."""
    paid: tuple[Bools, Floats, Floats]
    """(episodes,) each: whether it pays other rewards than the commonest, what higher ones add and lower ones take."""
    cut: float
    """The share of the target's ends that are a time limit's; 1 where it reaches none."""
    ends_worth: float
    """Kish's effective number of ends, by the ratio at their rows."""


@dataclass(frozen=True, eq=False)
class SolvedSteps:
    """A solution as functions of a step: what is looked up for each of them."""

    gamma: float
    total: float
    """The weight of all steps."""
    ratio: Floats
    """(pairs,): τ."""
    mean: Floats
    """(pairs,): the mean outcome r + γV(s')."""
    stretch: Floats
    """(pairs,): by how much residuals around that mean are too small."""
    known: Bools
    """(pairs,): whether the pair was seen more than once."""
    values: Floats
    """(states + 1,): V, and 0 for the place -1, where nothing follows."""
    state_of_pair: Integers
    commonest: float | None
    """The commonest reward, where others may be rare."""
    mixture: Mixture | None

    @classmethod
    def of(cls, problem: Problem, solution: FiniteSolution, commonest: float | None) -> SolvedSteps:
        """Look everything up that the rows do not change."""
        finite = finite_problem(problem)
        counts = finite.counts
        return cls(
            problem.gamma,
            float(counts.times.sum()),
            ratio_of_pairs(problem, solution),
            finite.q(solution.values, 0.0),
            leverage(counts.times),
            counts.times > MORE_THAN_ONCE,
            np.append(solution.values, 0.0),
            counts.state_of_pair,
            commonest,
            solution.mixture,
        )

    def influence_of_mixture(self, mixture: Mixture, steps: SomeSteps) -> Floats:
        """ψ of each step: see `model`."""
        gain, pair = np.append(mixture.gain, 0.0), steps.pair
        begins = steps.after if mixture.begins_after else self.state_of_pair[pair]
        led = gain[steps.after] - mixture.gain_after[pair]
        psi: Floats = gain[begins] - mixture.value + mixture.ratio[pair] * self.stretch[pair] * led
        return psi


COLUMNS = ("residual", "mass", "share", "positive", "holding", "gains", "losses", "mixture")
"""Sums by episode: mass·residual, mass, share in the log, max(τ, 0), rows that pay other rewards than the commonest,
what these add to the value and take from it, share·ψ of a mixture of closed classes."""
_RESIDUAL, _MASS, _SHARE, _POSITIVE, _HOLDING, _GAINS, _LOSSES, _MIXTURE = range(len(COLUMNS))


@dataclass(frozen=True, eq=False)
class StepSums:
    """Sums over steps; those of parts are merged."""

    first: int
    """The number of the first episode."""
    episodes: Floats
    """(episodes, columns): see `COLUMNS`."""
    squares: Floats
    """Σ mass² over all steps, and over those whose pair was seen more than once."""
    ends: Floats
    """Over ending rows: their mass, Σ max(τ, 0), its squares, that of truncated ones, and the mass of passes."""

    @classmethod
    def of(cls, logged: LoggedSteps, solved: SolvedSteps) -> StepSums:
        """Over the steps of a log, or of one part."""
        sums = cls(logged.first, np.zeros((logged.data.n_episodes, len(COLUMNS))), np.zeros(2), np.zeros(5))
        if solved.commonest is not None:  # rows that are no steps are counted, too
            sums.add_rows(_HOLDING, logged.data.episode, (logged.data.rewards != solved.commonest).astype(np.float64))
        for steps in logged.pieces:
            sums.add(solved, steps)
        return sums

    def merge(self, other: StepSums) -> StepSums:
        """The sums of two parts, one after another; an episode may have rows in both."""
        mine = slice(0, len(self.episodes))
        theirs = slice(other.first - self.first, other.first - self.first + len(other.episodes))
        episodes = added(self.episodes, other.episodes, mine, theirs)
        return StepSums(self.first, episodes, self.squares + other.squares, self.ends + other.ends)

    def add(self, solved: SolvedSteps, steps: SomeSteps) -> None:
        """Add some steps."""
        pair, weight = steps.pair, steps.weight
        ratio, share = solved.ratio[pair], weight / solved.total
        mass, positive = share * ratio, weight * np.maximum(ratio, 0)
        outcome = steps.rewards + solved.gamma * solved.values[steps.after]
        residual = solved.stretch[pair] * (outcome - solved.mean[pair])
        by_step = {_RESIDUAL: mass * residual, _MASS: mass, _SHARE: share, _POSITIVE: positive}
        if solved.commonest is not None:
            gains = mass * (steps.rewards - solved.commonest)
            by_step |= {_GAINS: np.maximum(gains, 0), _LOSSES: np.maximum(-gains, 0)}
        if solved.mixture is not None:
            by_step[_MIXTURE] = share * solved.influence_of_mixture(solved.mixture, steps)
            self.ends[4] += share[steps.end] @ solved.mixture.ratio[pair[steps.end]]
        for column, values in by_step.items():
            self.add_rows(column, steps.episode, values)
        square = mass**2
        self.squares[:] += square.sum(), square[solved.known[pair]].sum()
        if steps.end.any():
            ending = positive[steps.end]
            alone = ending @ np.maximum(ratio[steps.end], 0)  # the copies of a row have its square together
            self.ends[:4] += mass[steps.end].sum(), ending.sum(), alone, positive[steps.cut].sum()

    def add_rows(self, column: int, episode: Integers, values: Floats) -> None:
        """Add values of rows to the sums of their episodes, whose rows follow one another."""
        first = np.flatnonzero(np.diff(episode, prepend=-1))
        self.episodes[episode[first], column] += np.add.reduceat(values, first)

    def evidence(self, problem: Problem, solution: FiniteSolution, weights: Floats | None) -> RowEvidence:
        """What these sums say, once they are over all steps; arguments as in `evidence_of_rows`."""
        counts, columns = finite_problem(problem).counts, self.episodes.T
        ratio, positive = ratio_of_pairs(problem, solution), columns[_POSITIVE]
        _, ending, squares, cut, _ = self.ends.tolist()
        return RowEvidence(
            self._influence(problem, solution, counts),
            weights,
            WeightSums(positive.sum(), counts.times @ np.maximum(ratio, 0) ** 2, positive),
            (columns[_HOLDING] > 0, columns[_GAINS], columns[_LOSSES]),
            cut / ending if ending > 0 else 1.0,
            ending**2 / squares if squares > 0 else 0.0,
        )

    def _influence(self, problem: Problem, solution: FiniteSolution, counts: PairCounts) -> EpisodeSums:
        """How each episode moves the value."""
        residual, mass, share = (self.episodes[:, k, None] for k in (_RESIDUAL, _MASS, _SHARE))
        residual = residual * widening_of(*self.squares.tolist())
        # At γ = 1 the value is the self-normalised Σ mass·r / Σ mass, so that the sum of τ varies, too.
        above, below = (residual, share) if problem.gamma < 1 else (residual + solution.value * mass, mass)
        restarts = problem.gamma if problem.on_end == "restart" else 0.0
        rate, passes = self.ends[0].item(), self.ends[4].item()
        first = initial_sums(problem, 1 - problem.gamma + restarts * rate, solution.values[counts.initial_states])
        found = EpisodeSums(above, below).beside(first)
        if solution.mixture is None:
            return found
        gain = solution.mixture.gain[counts.initial_states]
        mixed = EpisodeSums(self.episodes[:, _MIXTURE, None], share)
        return found.beside(mixed.beside(initial_sums(problem, restarts * passes, gain)))


def evidence_of_rows(problem: Problem, solution: FiniteSolution) -> RowEvidence:
    """What the rows of a log say of a solution.

    A step moves it by τ·(r + γV(s') - Q(s, a)) to first order, where Q is the mean of r + γV(s') over the steps of its
    pair; where there are several closed classes, also by how they are mixed: see `model`.

    Args:
        problem: the question.
        solution: its solution.
    """
    log = problem.log
    commonest = log.facts.rewards.commonest if log.streamed else commonest_reward(problem.data)
    solved = SolvedSteps.of(problem, solution, commonest)
    sums, weights = over_steps(problem, StepSums.of, solved), None
    if not log.streamed:
        weights = np.zeros(len(problem.data))
        weights[problem.steps.rows] = solved.ratio[finite_problem(problem).counts.pair]
    return sums.evidence(problem, solution, weights)


def ratio_of_pairs(problem: Problem, solution: FiniteSolution) -> Floats:
    """(pairs,): the ratio τ of the target's mass on each seen pair to the log's."""
    times = finite_problem(problem).counts.times
    ratio: Floats = solution.mass * times.sum() / times
    return ratio


def leverage(times: Floats) -> Floats:
    """√(n/(n-1)): residuals around the mean of n numbers are too small by its inverse; 1 for numbers that are alone."""
    return np.sqrt(np.divide(times, times - 1, out=np.ones_like(times), where=times > MORE_THAN_ONCE))


def widening(mass: Floats, known: Bools) -> float:
    """`widening_of` from the mass of each step and whether its pair was seen more than once."""
    square = mass**2
    return widening_of(float(square.sum()), float(square[known].sum()))


def widening_of(whole: float, known: float) -> float:
    """By how much the residuals of pairs seen more than once must grow to speak for the others, too.

    The residual of a pair seen once is 0 and says nothing. If its outcomes vary as those of other pairs do, then the
    variance Σ mass²·residual² over the known ones is too small by their share of Σ mass².

    Args:
        whole: Σ mass² over all steps, each step's mass being that under the target.
        known: the same over those whose pair was seen more than once.
    """
    return min(float(np.sqrt(whole / known)), MOST_WIDENING) if known > 0 else MOST_WIDENING


RARE_SHARE = 0.5
"""A share of the episodes: rewards that more of them hold are not rare, and their mean is near normal."""


def commonest_reward(data: LoggedDataset) -> float | None:
    """The reward that most rows pay, the least of several; None where others are not rare.

    Others are rare where at least half of the episodes pay nothing else. Whether so many pay one reward all along is
    known without counting rewards, which takes long where there are many.
    """
    least, largest = (extreme.reduceat(data.rewards, data.starts) for extreme in (np.minimum, np.maximum))
    if np.mean(least == largest) < 1 - RARE_SHARE:
        return None
    known, times = np.unique(data.rewards, return_counts=True)
    return float(known[np.argmax(times)])
