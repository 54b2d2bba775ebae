"""The answer of counts: the one estimate of all estimators that are exact on finite states and actions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.finite.doubts import RareRewards, few_rewards, history, limits_of_rewards
from ope_vpm.ope.finite.episodes import (
    Course,
    TimedSteps,
    TimedSums,
    Total,
    course_of,
    limited_steps,
    ongoing,
    total,
    with_rewards,
)
from ope_vpm.ope.finite.fit import Fit
from ope_vpm.ope.finite.influence import MORE_THAN_ONCE, evidence_of_rows, widening_of
from ope_vpm.ope.finite.learnt import learnt_doubts
from ope_vpm.ope.finite.model import FiniteSolution
from ope_vpm.ope.finite.problem import finite_problem, over_steps
from ope_vpm.ope.finite.treatments import DEFAULT, Pooled, treatment
from ope_vpm.ope.inference.doubts import DISAGREEMENT, PAST, SUPPORT, UNSEEN, Doubts, remarks, scaled
from ope_vpm.ope.inference.estimate import NO_DATA, RawEstimate, doubts_of_sums, reward_range, rows_worth
from ope_vpm.ope.inference.returns import with_counted_ends, with_rate_doubt, with_return
from ope_vpm.ope.inference.uncertainty import Bootstrap, Derived, EpisodeSums, Interval
from ope_vpm.ope.problem import Problem

FEW_CUT = 0.1
"""The share of the target's episodes up to which a time limit may end them without a remark that the states do not hold
the time: what is unknown about so few hardly moves a mean over all."""
BEYOND = "the target may spend {:.0%} of its steps in regions that the log never reached"


def counted_estimate(problem: Problem, unseen: str = DEFAULT) -> RawEstimate:
    """The exact solution of the counted model, with a treatment of unseen pairs by name."""
    found, learnt = _counted_estimate(problem, unseen), learnt_doubts(problem)
    of_return = found.per_episode
    return replace(found.doubted(learnt), per_episode=None if of_return is None else of_return.doubted(learnt))


def _counted_estimate(problem: Problem, unseen: str) -> RawEstimate:
    """The same without the doubt that the target was learnt from the log.

    Where a time limit is part of the task, the default treatment follows its clock; the others take the limit for an
    end that may come in any state, and say so. The return of an episode is first guessed without slopes: what
    these predict of when a task ends is far noisier than what they predict of how, and a rate of ends near 0, by which
    a return is divided, makes it anything.
    """
    steps = limited_steps(problem) if unseen == DEFAULT and problem.limit is not None else None
    if steps is not None:
        return limited_estimate(problem, steps)
    found = counted_value(problem, unseen)
    if unseen != DEFAULT or not problem.episodic:
        return found
    return with_return(
        problem, found, partial(counted_value, unseen=unseen), partial(counted_value, unseen=Pooled.name)
    )


def counted_value(problem: Problem, unseen: str) -> RawEstimate:
    """The value per step, or discounted, with a treatment of unseen pairs by name."""
    solution = counted_solution(problem, unseen)
    notes = {"solver": "counts", "unseen": unseen, **solution.details}
    return finite_estimate(problem, solution, notes, solution.doubts)


def counted_solution(problem: Problem, unseen: str = DEFAULT) -> FiniteSolution:
    """The exact solution with a treatment of unseen pairs by name."""
    return treatment(unseen).solved(finite_problem(problem))


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
    rare = limits_of_rewards(*rows.paid)
    foreseen = solution.predicted and finite_problem(asked).compares_actions
    apart = None if solution.alternative is None else abs(solution.alternative - solution.value)
    doubts = (
        *doubts_of_sums(problem.data, rows.of_weights),
        *unseen_doubts(asked, solution, foreseen),
        *DISAGREEMENT.suspects(apart),
        *PAST.of(past.share, bias=past.bias),
        *few_rewards(problem.data, rare),
        *remarks((*cautions, *_clock(asked, rows.cut))),
    )
    at_least = reach(problem, solution, rare, without_data(asked, solution, foreseen))
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


def limited_estimate(problem: Problem, steps: int) -> RawEstimate:
    """What the target is worth in episodes of at most so many steps, with the return of an episode at γ = 1."""
    finite = finite_problem(ongoing(problem))
    counts = finite.counts
    course, fit = course_of(finite, steps)
    values = course.values(np.stack([counts.reward, np.ones(counts.pairs)], axis=1))
    sums = over_steps(ongoing(problem), TimedSums.of, TimedSteps.of(course, values), ended=problem.ends)
    moved = _influence(problem, course, values, sums.moved)
    pays = total(finite, course, fit, values[..., 0])
    restarts = problem.on_end == "restart"
    length = course.length if restarts else 1 / (1 - problem.gamma)
    value = pays.value / length
    charge = value if restarts else 0.0
    charged_values = values[..., 0] - charge * values[..., 1]
    charged = total(with_rewards(finite, counts.rewards - charge), course, fit, charged_values)
    solution = _solution(course, fit, value, charged, length)
    influence = EpisodeSums.of_influence(value, (moved[:, 0] - charge * moved[:, 1]) / length)
    notes = {"solver": "counts", "unseen": DEFAULT, **solution.details}
    found = finite_estimate(problem, solution, notes, asked=ongoing(problem), influence=influence)
    if problem.gamma < 1:
        return found
    rate_error = float(np.sqrt(np.sum(moved[:, 1] ** 2))) / length
    found_return = with_rate_doubt(_return(found, pays, moved[:, 0], length), rate_error)
    found_return = replace(found_return, ends_worth=sums.ends_worth)
    return replace(found, per_episode=with_counted_ends(problem, found, 1 / length, found_return))


def _solution(course: Course, fit: Fit | None, value: float, charged: Total, length: float) -> FiniteSolution:
    """The solution, whose error is that of charged rewards over the length of an episode."""
    low, high = charged.reach
    return FiniteSolution(
        value=value,
        distribution=course.visits / course.length,
        mass=course.passes / course.length,
        values=charged.first,
        q=course.problem.counts.reward,
        unseen_mass=course.unseen_share,
        beyond=0.0 if fit is None else fit.beyond(course.problem, course.visits, course.held(fit)),
        error=charged.error / length,
        unseen_range=(low / length, high / length),
        predicted=fit is not None,
        details={"episode_length": course.length},
    )


def _influence(problem: Problem, course: Course, values: Floats, moved: Floats) -> Floats:
    """(episodes, 2): how each logged episode moves what an episode pays, and how long it lasts.

    By its steps, and by where it begins. Pairs seen more than once speak for the others, see `widening_of`.

    Args:
        problem: the question.
        course: the target's episodes.
        values: V of rewards and of steps.
        moved: (episodes, 2): what the steps do.
    """
    counts = course.problem.counts
    square = course.passes**2 / counts.times
    moved = moved * widening_of(float(square.sum()), float(square[counts.times > MORE_THAN_ONCE].sum()))
    first = values[0][counts.initial_states]
    moved[problem.log.initial_episodes] += (first - first.mean(axis=0)) / len(first)
    return moved


def _return(found: RawEstimate, pays: Total, influence: Floats, length: float) -> RawEstimate:
    """The return of an episode, of so many steps on average."""
    sums, (low, high) = EpisodeSums.of_influence(pays.value, influence), pays.reach
    uncertainty = Derived(of=Bootstrap(episodes=sums), limits=(pays.value + low, pays.value + high))
    others = tuple(each for each in scaled(found.doubts, length) if each.code != UNSEEN.code)
    doubts = (*others, *UNSEEN.of(found.size(UNSEEN), bias=pays.error))
    return replace(found, value=pays.value, uncertainty=uncertainty, doubts=doubts)
