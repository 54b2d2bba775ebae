"""From the solution of a finite problem to an estimate: its uncertainty, and the evidence for its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.finite.influence import RowEvidence, SolvedSteps, evidence_of_rows
from ope_vpm.ope.finite.limits import RareRewards, worst_case
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import FiniteSolution
from ope_vpm.ope.finite.streamed import evidence_of_parts
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.uncertainty import Interval, Reaching
from ope_vpm.ope.inference.value import NEGLIGIBLE, RawEstimate, disagreement, evidence_of_sums
from ope_vpm.ope.inference.verdict import ROUNDING, Evidence, judge
from ope_vpm.ope.log import StreamedLog
from ope_vpm.ope.problem import Problem

FEW_CUT = 0.1
"""The share of the target's episodes up to which a time limit may end them without a remark that the states do not hold
the time: what is unknown about so few hardly moves a mean over all."""

SURE = 4.0
"""How many standard errors the state before must foretell of the next outcome to count. Bins of a continuous state had
4.5 to 130; FrozenLake, a queue and their like 2.1 at most in 52 logs."""
SHARE = 0.3
"""Of rms(τ)·√share·sd(δ), as a standard error: on a mass on a spring whose place and speed were put into bins (four
behaviours, three discounts, 50 and 200 episodes) intervals need up to 0.33 of it; the same as for features."""


@dataclass(frozen=True)
class History:
    """What the state before a step foretells of its outcome, beyond its own state and action."""

    share: float
    """Of the variance of outcomes; 0 in a Markov decision process, and where noise alone may be the reason."""
    bias: float
    """What that may do to a value, as large as one standard error would be."""


def finite_estimate(
    problem: Problem,
    solution: FiniteSolution,
    diagnostics: dict[str, Any],
    doubts: tuple[str, ...] = (),
    widened: bool = False,
) -> RawEstimate:
    """A solution with the influence of each episode, the weights of the logged rows, and the evidence for its verdict.

    Args:
        problem: the question, on finite states and actions.
        solution: its exact solution.
        diagnostics: for people to read.
        doubts: reasons for caution, in sentences.
        widened: see `finite_influence`.
    """
    rows, past = row_evidence(problem, solution, widened), history(problem, solution)
    sums, rare, bias = rows.sums, rows.rare, float(np.hypot(solution.error, past.bias))
    apart = None
    if solution.alternative is not None:
        apart = disagreement(problem.data, abs(solution.alternative - solution.value), sums.standard_error)
    evidence = evidence_of_sums(
        problem.data,
        rows.of_weights,
        unseen_mass=None if solution.treatment else solution.unseen_mass,
        predicted_mass=solution.unseen_mass if solution.treatment else None,
        disagreement=apart,
        history=past.share,
        counted_error=counted_error(logged_mean(problem), problem, sums.standard_error, bias),
        rare_reward_episodes=None if rare is None else rare.episodes,
        remarks=(*doubts, *_clock(problem, rows.cut)),
    )
    return RawEstimate(
        value=solution.value,
        uncertainty=Reaching(episodes=sums, suspected_bias=bias, reach=reach(problem, solution, rare, evidence)),
        weights=rows.weights,
        ends_worth=rows.ends_worth,
        evidence=evidence,
        diagnostics={**diagnostics, "unseen_mass": solution.unseen_mass, **left_out(problem)},
    )


def left_out(problem: Problem) -> dict[str, int]:
    """How many rows have nothing after them, and how many episodes the task ended, for people to read."""
    data = problem.data
    return {"dropped": len(data) - data.leads_on(problem.time_limit), "ended": int(problem.ends.sum())}


def row_evidence(problem: Problem, solution: FiniteSolution, widened: bool) -> RowEvidence:
    """What the rows say, in memory or in parts."""
    if isinstance(problem.log, StreamedLog):
        return evidence_of_parts(problem, problem.log, solution, widened)
    return evidence_of_rows(problem, solution, widened)


def history(problem: Problem, solution: FiniteSolution) -> History:
    """What the state before foretells, and what that may do; nothing is said of a log that is read in parts.

    Bins of a continuous state are no states: where a step came from tells where in its bin it is. What the target then
    does to the places within bins, no ratio of bins shows: it may be as far from 1 as the ratio τ is from 0.
    """
    if isinstance(problem.log, StreamedLog):
        return History(0.0, 0.0)
    counts, rows = finite_problem(problem).counts, problem.steps.rows
    solved = SolvedSteps.of(problem, solution, None)
    outcome = counts.rewards + problem.gamma * solved.values[counts.next_state]
    residual, same = outcome - solved.mean[counts.pair], np.diff(problem.data.episode[rows]) == 0
    later = np.flatnonzero((np.diff(rows) == 1) & same & ~problem.ending[rows[1:]]) + 1
    left, pair, before = residual[later], counts.pair[later], counts.state_of_pair[counts.pair[later - 1]]
    size = float(np.sqrt(np.mean(left**2))) if len(left) else 0.0
    if size <= ROUNDING * problem.data.reward_facts.size:
        return History(0.0, 0.0)
    share = foretold(left, pair, before)
    ratio = float(np.sqrt(counts.times @ solved.ratio**2 / counts.times.sum()))
    return History(share, SHARE * ratio * float(np.sqrt(share)) * size)


def foretold(residual: Floats, pair: Integers, before: Integers) -> float:
    """The share of the variance of residuals that is between steps of one pair which came from different states.

    It is the mean of `products_by_past`, and 0 where their sum is not beyond its noise. Arguments as there.
    """
    found, noise, number = products_by_past(residual, pair, before)
    return found / number if found > SURE * noise > 0 else 0.0


def products_by_past(residual: Floats, pair: Integers, before: Integers) -> tuple[float, float, float]:
    """The products of all two different residuals with the same pair and the same state before, in units of s².

    s² is the variance of the pair's residuals. Less their mean over n steps they have the product -s²/n where it does
    not matter which state was before: that is made up for. Returns the sum, its standard deviation by noise alone, and
    the number of products.

    Args:
        residual: r + γV(s') of each step, less anything that depends on its pair.
        pair: the number of its pair.
        before: the number of the state before.
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


def counted_error(logged: RawEstimate, problem: Problem, error: float, bias: float) -> float | None:
    """The whole standard error in units of the logged mean's, or of a thousandth of the rewards' deviation."""
    own = logged.sums
    least = np.hypot(0.0 if own is None else own.standard_error, NEGLIGIBLE * problem.data.reward_facts.deviation)
    return float(np.hypot(error, bias) / least) if least > 0 else None


def _clock(problem: Problem, cut: float) -> tuple[str, ...]:
    """That a time limit restarts the task, where it ends more than a few of the target's episodes."""
    return () if cut < FEW_CUT else clock_remarks(problem.data, problem.time_limit, known=False)


def reach(problem: Problem, solution: FiniteSolution, rare: RareRewards | None, evidence: Evidence) -> Interval:
    """What the interval holds at least.

    That are the limits of rare rewards, what unseen pairs would do if they were like seen ones, and, where the verdict
    is bad, what is possible at all.
    """
    below, above = solution.unseen_range
    if rare is not None:
        below, above = min(below, -rare.below), max(above, rare.above)
    low, high = solution.value + below, solution.value + above
    if judge(evidence, problem.data.n_episodes, ())[0] != "unreliable":
        return low, high
    least, largest = worst_case(problem, finite_problem(problem))
    return min(low, least), max(high, largest)
