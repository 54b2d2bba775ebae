"""The estimate where a time limit is part of the task: what an episode pays, how long it lasts, and their quotient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.finite.choice import chosen_solution
from ope_vpm.ope.finite.episodes import Course, Predicted, Total, course_of, ongoing, total, with_rewards
from ope_vpm.ope.finite.estimate import (
    counted_error,
    left_out,
    reach,
    row_evidence,
    seen,
    unseen_doubts,
    untried_share,
    without_data,
)
from ope_vpm.ope.finite.halves import bias_left, by_halves
from ope_vpm.ope.finite.history import history
from ope_vpm.ope.finite.influence import MORE_THAN_ONCE, widening_of
from ope_vpm.ope.finite.preference import Preference
from ope_vpm.ope.finite.problem import FiniteProblem, finite_problem
from ope_vpm.ope.finite.regression import Regression
from ope_vpm.ope.finite.solve import FiniteSolution, HalfLog
from ope_vpm.ope.finite.timed import TimedSteps, timed_sums
from ope_vpm.ope.inference.doubts import COUNTED_ERROR, HISTORY, RARE_REWARDS
from ope_vpm.ope.inference.estimate import RawEstimate, doubts_of_sums
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.returns import with_counted_ends, with_rate_doubt
from ope_vpm.ope.inference.uncertainty import Bootstrap, Derived, EpisodeSums
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, eq=False, kw_only=True)
class LimitedSolution(FiniteSolution):
    """A completed model followed for as many steps as the time limit leaves."""

    by: str
    """The treatment of unseen pairs."""
    length: float
    """The steps of an episode on average."""

    @property
    def treatment(self) -> str:
        """Its name."""
        return self.by

    @property
    def details(self) -> dict[str, Any]:
        """How long episodes are."""
        return {"episode_length": self.length}


def limited_estimate(problem: Problem, steps: int) -> RawEstimate:
    """What the target is worth in episodes of at most so many steps, with the return of an episode at γ = 1."""
    finite = finite_problem(ongoing(problem))
    counts, chosen = finite.counts, chosen_solution(finite_problem(problem))
    course = course_of(finite, steps, chosen)
    values = course.values(np.stack([counts.reward, np.ones(counts.pairs)], axis=1))
    sums = timed_sums(problem, TimedSteps.of(course, values))
    moved = _influence(problem, course, values, sums.moved)
    pays = total(finite, course, values[..., 0])
    restarts = problem.on_end == "restart"
    length = course.length if restarts else 1 / (1 - problem.gamma)
    value = pays.value / length
    halves = by_halves(finite, partial(_totals, steps=steps, chosen=chosen, length=None if restarts else length))
    charge = value if restarts else 0.0
    charged = total(with_rewards(finite, counts.rewards - charge), course, values[..., 0] - charge * values[..., 1])
    solution = _solution(course, value, charged, length, halves)
    found = _estimate(problem, solution, (moved[:, 0] - charge * moved[:, 1]) / length)
    if problem.gamma < 1:
        return found
    rate_error = float(np.sqrt(np.sum(moved[:, 1] ** 2))) / length
    if halves is not None:
        left = bias_left(pays.value - halves[2], solution.unseen_mass, halves[1])
        pays = replace(pays, error=float(np.hypot(pays.error, left)))
    found_return = with_rate_doubt(_return(problem, found, pays, moved[:, 0]), rate_error)
    found_return = replace(found_return, ends_worth=sums.ends_worth)
    return replace(found, per_episode=with_counted_ends(problem, found, 1 / length, found_return))


def _totals(half: FiniteProblem, steps: int, chosen: FiniteSolution, length: float | None) -> Floats:
    """The value, the unseen mass and the return by half of the episodes; `length`: None where episodes tell it."""
    course = course_of(half, steps, chosen)
    pays = float(course.passes @ half.counts.reward)
    return np.array([pays / (length or course.length), course.unseen_share, pays])


def _solution(course: Course, value: float, charged: Total, length: float, halves: Floats | None) -> LimitedSolution:
    """The solution; `halves` as `_totals` has them."""
    visits, error, (low, high) = course.visits, charged.error / length, charged.reach
    half = None if halves is None else HalfLog(float(halves[0]), float(halves[1]))
    if half is not None:
        error = float(np.hypot(error, bias_left(value - half.value, course.unseen_share, half.unseen_mass)))
    return LimitedSolution(
        value=value,
        distribution=visits / course.length,
        mass=course.passes / course.length,
        values=charged.first,
        q=course.problem.counts.reward,
        unseen_mass=course.unseen_share,
        error=error,
        half=half,
        unseen_range=(low / length, high / length),
        by=Regression.name if isinstance(course.target, Predicted) else Preference.name,
        length=course.length,
    )


def _influence(problem: Problem, course: Course, values: Floats, moved: Floats) -> Floats:
    """(episodes, 2): how each logged episode moves what an episode pays, and how long it lasts.

    By its steps, and by where it begins. Pairs seen more than once speak for the others, see `widening_of`, unless a
    regression says how far single pairs may be off.

    Args:
        problem: the question.
        course: the target's episodes.
        values: V of rewards and of steps.
        moved: (episodes, 2): what the steps do.
    """
    counts = course.problem.counts
    if not isinstance(course.target, Predicted):
        square = course.passes**2 / counts.times
        moved = moved * widening_of(float(square.sum()), float(square[counts.times > MORE_THAN_ONCE].sum()))
    first = values[0][counts.initial_states]
    moved[problem.log.initial_episodes] += (first - first.mean(axis=0)) / len(first)
    return moved


def _estimate(problem: Problem, solution: LimitedSolution, influence: Floats) -> RawEstimate:
    asked = ongoing(problem)
    sums = EpisodeSums.of_influence(solution.value, influence)
    rows = row_evidence(asked, solution, widened=False)  # but for its influence, which does not know the time
    rare, past = rows.rare, history(asked, solution)
    bias, foreseen = float(np.hypot(solution.error, past.bias)), finite_problem(asked).compares_actions
    doubts = (
        *doubts_of_sums(problem.data, rows.of_weights),
        *unseen_doubts(asked, solution, foreseen),
        *HISTORY.of(past.share, bias=past.bias),
        *COUNTED_ERROR.of(counted_error(logged_mean(problem), problem, sums.standard_error, bias)),
        *RARE_REWARDS.of(None if rare is None else rare.episodes, problem.data.n_episodes),
    )
    counted = {"solver": "counts", "unseen": solution.by, **seen(solution)}
    at_least = reach(problem, solution, rare, without_data(doubts, untried_share(asked, solution)))
    return RawEstimate(
        value=solution.value,
        uncertainty=Derived(of=Bootstrap(episodes=sums, suspected_bias=bias), limits=at_least),
        weights=rows.weights,
        doubts=doubts,
        diagnostics={**counted, **left_out(problem), **solution.details},
    )


def _return(problem: Problem, found: RawEstimate, pays: Total, influence: Floats) -> RawEstimate:
    """The return of an episode."""
    sums, (low, high) = EpisodeSums.of_influence(pays.value, influence), pays.reach
    logged = logged_mean(problem).per_episode
    error = None if logged is None else counted_error(logged, problem, sums.standard_error, pays.error)
    of = Bootstrap(episodes=sums, suspected_bias=pays.error)
    uncertainty = Derived(of=of, limits=(pays.value + low, pays.value + high))
    return replace(found.doubting(COUNTED_ERROR, error), value=pays.value, uncertainty=uncertainty)
