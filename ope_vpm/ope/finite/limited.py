"""The estimate where a time limit is part of the task: what an episode pays, how long it lasts, and their quotient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.finite.episodes import Course, Total, course_of, ongoing, total, with_rewards
from ope_vpm.ope.finite.estimate import finite_estimate
from ope_vpm.ope.finite.fit import Fit
from ope_vpm.ope.finite.influence import MORE_THAN_ONCE, widening_of
from ope_vpm.ope.finite.model import FiniteSolution
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.streamed import over_steps
from ope_vpm.ope.finite.timed import TimedSteps, TimedSums
from ope_vpm.ope.finite.treatments import DEFAULT
from ope_vpm.ope.inference.doubts import UNSEEN, scaled
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.returns import with_counted_ends, with_rate_doubt
from ope_vpm.ope.inference.uncertainty import Bootstrap, Derived, EpisodeSums
from ope_vpm.ope.problem import Problem


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
