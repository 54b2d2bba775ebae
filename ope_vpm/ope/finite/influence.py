"""What the logged rows say of an exact solution on counts: weights, influence of episodes, ends, rare rewards.

Of a log in memory these come from its rows; of one that is read in parts, from sums over them: see `streamed`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Bools, Floats, effective_sample_size, group_sums
from ope_vpm.linear.moments import WeightSums
from ope_vpm.ope.finite.limits import RareRewards, rare_rewards
from ope_vpm.ope.finite.mixture import mixture_sums
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import FiniteSolution
from ope_vpm.ope.inference.uncertainty import EpisodeSums, influence_sums
from ope_vpm.ope.inference.value import weight_sums
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
    rare: RareRewards | None
    """What rests on rewards that few episodes hold; None where there are none, or they are not few."""
    cut: float
    """The share of the target's ends that are a time limit's; 1 where it reaches none."""
    ends_worth: float
    """Kish's effective number of ends, by the ratio at their rows."""


def evidence_of_rows(problem: Problem, solution: FiniteSolution, widened: bool) -> RowEvidence:
    """From the rows of a log in memory; arguments as in `finite_influence`."""
    weights, data = row_weights(problem, solution), problem.data
    ending = np.maximum(weights, 0)[problem.ending]
    total = float(ending.sum())
    return RowEvidence(
        finite_influence(problem, solution, widened),
        weights,
        weight_sums(data, weights),
        rare_rewards(problem, weights),
        float(ending @ data.truncated[problem.ending]) / total if total > 0 else 1.0,
        effective_sample_size(ending),
    )


def ratio_of_pairs(problem: Problem, solution: FiniteSolution) -> Floats:
    """(pairs,): the ratio τ of the target's mass on each seen pair to the log's."""
    times = finite_problem(problem).counts.times
    ratio: Floats = solution.mass * times.sum() / times
    return ratio


def row_weights(problem: Problem, solution: FiniteSolution) -> Floats:
    """(rows,): the ratio at each logged row, 0 for rows that are not used."""
    counts = finite_problem(problem).counts
    tau = ratio_of_pairs(problem, solution)[counts.pair]
    return group_sums(problem.steps.rows, tau * counts.weight, len(problem.data))


def finite_influence(problem: Problem, solution: FiniteSolution, widened: bool = False) -> EpisodeSums:
    """How each episode moves an exact solution on counts, to first order.

    A step contributes τ·(r + γV(s') - Q(s, a)), where Q is the mean of r + γV(s') over the steps of its pair; where
    there are several closed classes, also to how they are mixed: see `mixture`.

    Args:
        problem: the question.
        solution: its solution.
        widened: whether pairs seen more than once speak for those seen once: see `widening`.
    """
    counts, gamma = finite_problem(problem).counts, problem.gamma
    share = counts.weight / counts.weight.sum()
    mass = share * ratio_of_pairs(problem, solution)[counts.pair]
    outcome = counts.rewards + gamma * counts.value_after(solution.values)
    mean = group_sums(counts.pair, counts.weight * outcome, counts.pairs) / counts.times
    residual = leverage(counts.times)[counts.pair] * (outcome - mean[counts.pair])
    if widened:
        residual = residual * widening(mass, counts.times[counts.pair] > MORE_THAN_ONCE)
    level = solution.value if gamma == 1 else None
    first = solution.values[counts.initial_states]
    sums = influence_sums(problem, problem.steps.rows, share, mass, residual, first, level)
    if solution.mixture is None:
        return sums
    mixture = replace(solution.mixture, ratio=solution.mixture.ratio * leverage(counts.times))
    psi, gain = mixture.influence(counts), mixture.gain[counts.initial_states]
    return sums.beside(mixture_sums(problem, psi, solution.mixture.ratio[counts.pair], gain))


def leverage(times: Floats) -> Floats:
    """√(n/(n-1)): residuals around the mean of n numbers are too small by its inverse; 1 for numbers that are alone."""
    return np.sqrt(np.divide(times, times - 1, out=np.ones_like(times), where=times > MORE_THAN_ONCE))


def widening(mass: Floats, known: Bools) -> float:
    """By how much the residuals of pairs seen more than once must grow to speak for the others, too.

    The residual of a pair seen once is 0 and says nothing. If its outcomes vary as those of other pairs do, then the
    variance Σ mass²·residual² over the known ones is too small by their share of Σ mass².

    Args:
        mass: of each step under the target.
        known: whether its pair was seen more than once.
    """
    square = mass**2
    return widening_of(float(square.sum()), float(square[known].sum()))


def widening_of(whole: float, known: float) -> float:
    """The same from Σ mass² over all steps and over those whose pair was seen more than once."""
    return min(float(np.sqrt(whole / known)), MOST_WIDENING) if known > 0 else MOST_WIDENING
