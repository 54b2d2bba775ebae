"""From the solution of a finite problem to an estimate: its uncertainty, and the doubts about it."""

from __future__ import annotations

from typing import Any

from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.finite.history import history
from ope_vpm.ope.finite.influence import evidence_of_rows
from ope_vpm.ope.finite.limits import RareRewards, few_rewards
from ope_vpm.ope.finite.model import FiniteSolution
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.inference.doubts import DISAGREEMENT, PAST, SUPPORT, UNSEEN, Doubts, remarks
from ope_vpm.ope.inference.estimate import RawEstimate, doubts_of_sums, reward_range, rows_worth
from ope_vpm.ope.inference.support import NO_DATA
from ope_vpm.ope.inference.uncertainty import Bootstrap, Derived, EpisodeSums, Interval
from ope_vpm.ope.problem import Problem

FEW_CUT = 0.1
"""The share of the target's episodes up to which a time limit may end them without a remark that the states do not hold
the time: what is unknown about so few hardly moves a mean over all."""

BEYOND = "the target may spend {:.0%} of its steps in regions that the log never reached"


def finite_estimate(
    problem: Problem,
    solution: FiniteSolution,
    diagnostics: dict[str, Any],
    cautions: tuple[str, ...] = (),
    *,
    asked: Problem | None = None,
    influence: EpisodeSums | None = None,
) -> RawEstimate:
    """A solution with the influence of each episode, the weights of the logged rows, and the doubts about it.

    Args:
        problem: the question, on finite states and actions.
        solution: its exact solution.
        diagnostics: for people to read.
        cautions: sentences that ask for caution.
        asked: the question whose counts were solved, if it is another one.
        influence: how each episode moves the value; None: as it moves a solution that does not know the time.
    """
    asked = asked or problem
    rows, past = evidence_of_rows(asked, solution), history(asked, solution)
    foreseen = solution.predicted and finite_problem(asked).compares_actions
    apart = None if solution.alternative is None else abs(solution.alternative - solution.value)
    doubts = (
        *doubts_of_sums(problem.data, rows.of_weights),
        *unseen_doubts(asked, solution, foreseen),
        *DISAGREEMENT.suspects(apart),
        *PAST.of(past.share, bias=past.bias),
        *few_rewards(problem.data, rows.rare),
        *remarks((*cautions, *_clock(asked, rows.cut))),
    )
    at_least = reach(problem, solution, rows.rare, without_data(asked, solution, foreseen))
    return RawEstimate(
        value=solution.value,
        uncertainty=Derived(of=Bootstrap(episodes=influence or rows.sums), limits=at_least),
        weights=rows.weights,
        rows_worth=rows_worth(rows.of_weights) if rows.weights is None else None,
        ends_worth=rows.ends_worth,
        doubts=doubts,
        diagnostics={**diagnostics, "unseen_mass": solution.unseen_mass, **left_out(problem)},
    )


def unseen_doubts(problem: Problem, solution: FiniteSolution, foreseen: bool) -> Doubts:
    """The share of the target's steps on unseen pairs that were predicted, and of those on which there are no data.

    Args:
        problem: the question.
        solution: its exact solution.
        foreseen: whether unseen pairs were predicted.
    """
    share = no_data(problem, solution, foreseen)
    sentence = BEYOND if foreseen and share == solution.beyond else NO_DATA
    return (
        *SUPPORT.of(share, sentence=sentence),
        *UNSEEN.of(solution.unseen_mass if foreseen else 0.0, bias=solution.error),
    )


def no_data(problem: Problem, solution: FiniteSolution, foreseen: bool) -> float:
    """The share of the target's steps on which there are no data.

    Predictions compare actions, so that they know nothing of one that nobody took in any state, nor of regions that the
    log never reached. Where nothing was predicted all unseen pairs are steps without data. Arguments as in
    `unseen_doubts`.
    """
    return max(untried_share(problem, solution), solution.beyond) if foreseen else solution.unseen_mass


def untried_share(problem: Problem, solution: FiniteSolution) -> float:
    """The share of the target's steps with actions that no logged step took."""
    time = solution.distribution
    return float(time @ finite_problem(problem).untried / time.sum())


def left_out(problem: Problem) -> dict[str, int]:
    """How many rows have nothing after them, and how many episodes the task ended, for people to read."""
    data = problem.data
    return {"dropped": len(data) - data.leads_on(problem.time_limit), "ended": int(problem.ends.sum())}


def _clock(problem: Problem, cut: float) -> tuple[str, ...]:
    """That a time limit restarts the task, where it ends more than a few of the target's episodes."""
    return () if cut < FEW_CUT else clock_remarks(problem.data, problem.time_limit, known=False)


def without_data(problem: Problem, solution: FiniteSolution, foreseen: bool) -> float:
    """The share of the target's steps that may pay anything: with untried actions, or with any pairs without data.

    Pairs without data are taken to be like seen ones, unless the verdict speaks of so many.
    """
    untried, share = untried_share(problem, solution), no_data(problem, solution, foreseen)
    return untried if share < SUPPORT.caution else max(untried, share)


def reach(problem: Problem, solution: FiniteSolution, rare: RareRewards | None, untried: float) -> Interval:
    """What the interval holds at least.

    That are the limits of rare rewards, what unseen pairs would do if they were like seen ones, and anything that the
    rewards allow for the share of steps without data.
    """
    allowed, (below, above) = reward_range(problem), solution.unseen_range
    if untried > 0:
        worst, best = untried * (allowed.low - solution.value), untried * (allowed.high - solution.value)
        below, above = min(below, worst), max(above, best)
    if rare is not None:
        below, above = min(below, -rare.below), max(above, rare.above)
    return solution.value + below, solution.value + above
