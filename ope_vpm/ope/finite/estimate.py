"""From the solution of a finite problem to an estimate: weights of the logged rows, influence function, evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ope_vpm.arrays import Bools, Floats, group_sums
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.finite.limits import RareRewards, rare_rewards, worst_case
from ope_vpm.ope.finite.mixture import mixture_sums
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import FiniteSolution
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.uncertainty import EpisodeSums, Interval, Reaching, influence_sums
from ope_vpm.ope.inference.value import NEGLIGIBLE, RawEstimate, disagreement, evidence_of_weights
from ope_vpm.ope.inference.verdict import Evidence, judge
from ope_vpm.ope.problem import Problem

MORE_THAN_ONCE = 1.5
"""Pairs with larger counts were seen more than once; the copies of a restart make counts fractions."""
MOST_WIDENING = 10.0
"""The most by which pairs seen more than once widen an interval for the others: where hardly any was seen more than
once, nothing is known about how outcomes vary, and a larger factor would only pretend to know it."""

FEW_CUT = 0.1
"""The share of the target's episodes up to which a time limit may end them without a remark that the states do not hold
the time: what is unknown about so few hardly moves a mean over all."""


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
    sums = finite_influence(problem, solution, widened)
    apart = None
    if solution.alternative is not None:
        apart = disagreement(problem.data, abs(solution.alternative - solution.value), sums.standard_error)
    weights = row_weights(problem, solution)
    rare = rare_rewards(problem, weights)
    evidence = evidence_of_weights(
        problem.data,
        weights,
        unseen_mass=None if solution.treatment else solution.unseen_mass,
        predicted_mass=solution.unseen_mass if solution.treatment else None,
        disagreement=apart,
        counted_error=counted_error(logged_mean(problem), problem, sums.standard_error, solution.error),
        rare_reward_episodes=None if rare is None else rare.episodes,
        remarks=(*doubts, *_clock(problem, weights)),
    )
    return RawEstimate(
        value=solution.value,
        uncertainty=Reaching(
            episodes=sums, suspected_bias=solution.error, reach=reach(problem, solution, rare, evidence)
        ),
        weights=weights,
        evidence=evidence,
        diagnostics={**diagnostics, **_about(problem, solution)},
    )


def _about(problem: Problem, solution: FiniteSolution) -> dict[str, Any]:
    """What is left out, for people to read."""
    steps = problem.steps
    return {"unseen_mass": solution.unseen_mass, "dropped": steps.dropped, "ended": steps.ended}


def counted_error(logged: RawEstimate, problem: Problem, error: float, bias: float) -> float | None:
    """The whole standard error in units of the logged mean's, or of a thousandth of the rewards' deviation."""
    own = logged.sums
    least = np.hypot(0.0 if own is None else own.standard_error, NEGLIGIBLE * float(problem.data.rewards.std()))
    return float(np.hypot(error, bias) / least) if least > 0 else None


def _clock(problem: Problem, weights: Floats) -> tuple[str, ...]:
    """That a time limit restarts the task, where it ends more than a few of the target's episodes."""
    ending = np.maximum(weights, 0)[problem.ending]
    cut = float(ending @ problem.data.truncated[problem.ending])
    if cut < FEW_CUT * float(ending.sum()):
        return ()
    return clock_remarks(problem.data, problem.time_limit, known=False)


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
    whole, part = float(square.sum()), float(square[known].sum())
    return min(float(np.sqrt(whole / part)), MOST_WIDENING) if part > 0 else MOST_WIDENING
