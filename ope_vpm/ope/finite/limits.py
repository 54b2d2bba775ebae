"""What an influence function does not know about counts: rewards that were hardly seen, and pairs that never were.

A standard error from a handful of rare events is itself hardly known, and one from none is 0. Where the rewards other
than the commonest one occur in at most half of the episodes, their number is close to a Poisson number, which has exact
limits. Where the target goes to pairs that were never seen, its rewards there are only known to lie within the range of
all rewards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from ope_vpm.arrays import Floats, effective_sample_size, group_sums
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.ope.finite.model import CompletedModel
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.inference.uncertainty import LEVEL, Interval
from ope_vpm.ope.inference.verdict import rewards_hull
from ope_vpm.ope.problem import Problem

RARE_SHARE = 0.5
"""Of the episodes: with more of them the number of episodes that hold another reward is no longer near Poisson."""


@dataclass(frozen=True)
class RareRewards:
    """How much rests on rewards that few episodes hold."""

    episodes: float
    """Kish's effective number of episodes with such rewards, by what each adds to the value."""
    below: float
    """How far the value may lie below the estimate, by the exact limits of a Poisson number."""
    above: float
    """How far it may lie above."""


def rare_rewards(problem: Problem, weights: Floats) -> RareRewards | None:
    """Limits of a value that rests on rare rewards; None where there are no others than one, or they are not rare.

    Args:
        problem: the question.
        weights: (rows,): the ratio of each logged row, the log's steps having sum 1 in the value's denominator.
    """
    data = problem.data
    known, times = np.unique(data.rewards, return_counts=True)
    other = data.rewards - known[np.argmax(times)]
    holding = group_sums(data.episode, (other != 0).astype(np.float64), data.n_episodes) > 0
    if not holding.any() or holding.mean() > RARE_SHARE:
        return None
    added = weights * other / problem.steps.weight.sum()
    gains = group_sums(data.episode, np.maximum(added, 0), data.n_episodes)
    losses = group_sums(data.episode, np.maximum(-added, 0), data.n_episodes)
    (fewer_gains, more_gains), (fewer_losses, more_losses) = poisson_limits(gains), poisson_limits(losses)
    below, above = max(fewer_gains, more_losses), max(more_gains, fewer_losses)
    return RareRewards(effective_sample_size(gains + losses), below, above)


def poisson_limits(amounts: Floats) -> tuple[float, float]:
    """How far below and above the sum of rare amounts its expectation may lie, as if all of them were equal.

    With K effective events the exact limits of their expected number are half the χ² quantiles with 2K and 2K + 2
    degrees of freedom (Garwood 1936).
    """
    total, events = float(amounts.sum()), effective_sample_size(amounts)
    if total <= 0 or not events > 0:
        return 0.0, 0.0
    tail = (1 - LEVEL) / 2
    low, high = stats.chi2.ppf(tail, 2 * events) / 2, stats.chi2.ppf(1 - tail, 2 * events + 2) / 2
    return total * (1 - float(low) / events), total * (float(high) / events - 1)


def worst_case(problem: Problem, finite: FiniteProblem) -> Interval:
    """The least and the largest value if nothing is known from the first unseen pair on but the range of the rewards.

    At γ = 1 that is the whole range: a chain that is never seen again may stay away for ever.
    """
    hull, gamma = rewards_hull(problem), finite.gamma
    if finite.all_seen:
        return np.inf, -np.inf
    if gamma == 1:
        return hull.low, hull.high
    counts = finite.counts
    seen = CompletedModel.of_seen(finite)
    kept = FiniteChain.plain((seen.policy @ counts.transitions).tocsr()).distribution(counts.initial, gamma)
    known = float(kept @ (seen.policy @ counts.reward))
    lost = min(float(kept @ finite.unseen) / (1 - gamma), 1.0)
    return known + lost * hull.low, known + lost * hull.high
