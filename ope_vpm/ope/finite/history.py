"""Are finite states states? In a Markov decision process the step before foretells nothing beyond the pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import ROUNDING, Floats, Integers
from ope_vpm.ope.finite.influence import SolvedSteps
from ope_vpm.ope.finite.model import FiniteSolution
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.problem import Problem

SURE = 4.0
"""How many standard errors the state before must foretell of the next outcome to count. Bins of a continuous state had
4.5 to 130; FrozenLake, a queue and their like 2.1 at most in 52 logs."""


@dataclass(frozen=True)
class History:
    """What the step before foretells of an outcome, beyond its own state and action."""

    share: float
    """Of the variance of outcomes; 0 in a Markov decision process, and where noise alone may be the reason."""
    bias: float
    """What that may do to a value: rms(τ)·√share·sd(δ)."""


def history(problem: Problem, solution: FiniteSolution) -> History:
    """What the step before foretells, and what that may do; nothing is said of a log that is read in parts.

    Bins of a continuous state are no states: where a step came from tells where in its bin it is. Where changing an
    action costs something, the action before is missing in the state. What the target then does to what is missing, no
    ratio of such states shows: it may be as far from 1 as the ratio τ is from 0.
    """
    if problem.log.streamed:
        return History(0.0, 0.0)
    counts, rows = finite_problem(problem).counts, problem.steps.rows
    solved = SolvedSteps.of(problem, solution, None)
    outcome = counts.rewards + problem.gamma * solved.values[counts.next_state]
    residual, same = outcome - solved.mean[counts.pair], np.diff(problem.data.episode[rows]) == 0
    later = np.flatnonzero((np.diff(rows) == 1) & same & ~problem.ending[rows[1:]]) + 1
    left, pair, before = residual[later], counts.pair[later], counts.pair[later - 1]
    # As a multiple of a power of two, which rounds nothing: squares of 1e-160 are not held by floats.
    exponent = int(np.frexp(np.abs(left).max(initial=0.0))[1])
    left = np.ldexp(left, -exponent)
    size = float(np.ldexp(np.sqrt(np.mean(left**2)), exponent)) if len(left) else 0.0
    if size <= ROUNDING * problem.data.reward_facts.size:
        return History(0.0, 0.0)
    share = max(foretold(left, pair, each[before]) for each in (counts.state_of_pair, counts.action_of_pair))
    ratio = float(np.sqrt(counts.times @ solved.ratio**2 / counts.times.sum()))
    return History(share, ratio * float(np.sqrt(share)) * size)


def foretold(residual: Floats, pair: Integers, before: Integers) -> float:
    """The share of the variance of residuals that is between steps of one pair with different pasts.

    It is the mean of `products_by_past`, and 0 where their sum is not beyond its noise. Arguments as there.
    """
    found, noise, number = products_by_past(residual, pair, before)
    return found / number if found > SURE * noise > 0 else 0.0


def products_by_past(residual: Floats, pair: Integers, before: Integers) -> tuple[float, float, float]:
    """The products of all two different residuals with the same pair and the same past, in units of s².

    s² is the variance of the pair's residuals. Less their mean over n steps they have the product -s²/n where it does
    not matter what was before: that is made up for. Returns the sum, its standard deviation by noise alone, and
    the number of products.

    Args:
        residual: r + γV(s') of each step, less anything that depends on its pair.
        pair: the number of its pair.
        before: the number of what was before, a state or an action.
    """
    times = np.maximum(np.bincount(pair), 1).astype(np.float64)
    left = residual - (np.bincount(pair, residual) / times)[pair]
    squares = np.bincount(pair, left**2)
    variance = squares / np.maximum(times - 1, 1)
    varies = variance > ROUNDING * variance.max()
    unit = np.divide(1.0, variance, out=np.zeros_like(variance), where=varies)
    # E[e²e'²] of two different residuals of a pair, in units of s⁴: far below 1 where one outlier is all there is.
    both = unit**2 * (squares**2 - np.bincount(pair, left**4)) / np.maximum(times * (times - 1), 1)
    width = int(before.max()) + 1
    codes, group = np.unique(pair * width + before, return_inverse=True)
    size, of_pair = np.bincount(group).astype(np.float64), codes // width
    products, apart = size * (size - 1), size < times[of_pair]
    summed = np.bincount(group, left) ** 2 - np.bincount(group, left**2)
    found = float(unit[of_pair] @ summed + products @ (varies / times)[of_pair])
    noise = float(np.sqrt(2 * (products * apart) @ np.maximum(both, 0.0)[of_pair]))
    return found, noise, float(products @ varies[of_pair])
