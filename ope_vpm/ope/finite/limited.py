"""The estimate where a time limit is part of the task: what an episode pays, how long it lasts, and their quotient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.ope.finite.choice import chosen_solution
from ope_vpm.ope.finite.episodes import Course, Predicted, Total, course_of, ongoing, total, with_rewards
from ope_vpm.ope.finite.estimate import MORE_THAN_ONCE, counted_error, leverage, reach, row_weights, widening
from ope_vpm.ope.finite.limits import rare_rewards
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import FiniteSolution
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.returns import with_counted_ends, with_rate_doubt
from ope_vpm.ope.inference.uncertainty import EpisodeSums, Reaching
from ope_vpm.ope.inference.value import RawEstimate, evidence_of_weights
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
    asked = ongoing(problem)
    finite = finite_problem(asked)
    course = course_of(problem, steps, chosen_solution(finite_problem(problem)))
    pays = total(finite, course)
    restarts = problem.on_end == "restart"
    length = course.length if restarts else 1 / (1 - problem.gamma)
    value = pays.value / length
    charged = total(with_rewards(finite, finite.counts.rewards - value), course) if restarts else pays
    widened = not isinstance(course.target, Predicted)
    solution = _solution(course, value, charged, length, "preference" if widened else "regression")
    found = _estimate(problem, solution, _influence(problem, course, charged, widened) / length)
    if problem.gamma < 1:
        return found
    of_return = _return(problem, found, pays, _influence(problem, course, pays, widened))
    lasting = total(with_rewards(finite, np.ones(len(finite.counts.rewards))), course)
    rate_error = float(np.sqrt(np.sum(_influence(problem, course, lasting, widened) ** 2))) / length
    per_episode = with_counted_ends(problem, found, 1 / length, with_rate_doubt(of_return, rate_error))
    return replace(found, per_episode=per_episode)


def _solution(course: Course, value: float, charged: Total, length: float, by: str) -> LimitedSolution:
    visits, unseen = course.visits, course.problem.unseen
    low, high = charged.reach
    return LimitedSolution(
        value=value,
        distribution=visits / course.length,
        mass=course.passes / course.length,
        values=charged.first,
        q=course.problem.counts.reward,
        unseen_mass=float(visits @ unseen) / course.length,
        error=charged.error / length,
        unseen_range=(low / length, high / length),
        by=by,
        length=course.length,
    )


def _influence(problem: Problem, course: Course, of: Total, widened: bool) -> Floats:
    """(episodes,): how each logged episode moves a total: by its steps, and by where it begins."""
    asked = ongoing(problem)
    counts, data = course.problem.counts, problem.data
    moved = leverage(counts.times)[counts.pair] * of.step
    if widened:
        known = counts.times > MORE_THAN_ONCE
        moved = moved * widening((course.passes / counts.times)[counts.pair], known[counts.pair])
    influence = group_sums(data.episode[asked.steps.rows], moved, data.n_episodes)
    first = of.first[counts.initial_states]
    influence[problem.log.initial_episodes] += (first - first.mean()) / len(first)
    return influence


def _estimate(problem: Problem, solution: LimitedSolution, influence: Floats) -> RawEstimate:
    asked = ongoing(problem)
    sums = EpisodeSums.of_influence(solution.value, influence)
    weights = row_weights(asked, solution)
    rare = rare_rewards(asked, weights)
    evidence = evidence_of_weights(
        problem.data,
        weights,
        predicted_mass=solution.unseen_mass,
        counted_error=counted_error(logged_mean(problem), problem, sums.standard_error, solution.error),
        rare_reward_episodes=None if rare is None else rare.episodes,
    )
    steps = asked.steps
    counted = {"solver": "counts", "unseen": solution.by, "unseen_mass": solution.unseen_mass}
    return RawEstimate(
        value=solution.value,
        uncertainty=Reaching(
            episodes=sums, suspected_bias=solution.error, reach=reach(problem, solution, rare, evidence)
        ),
        weights=weights,
        evidence=evidence,
        diagnostics={**counted, "dropped": steps.dropped, "ended": problem.steps.ended, **solution.details},
    )


def _return(problem: Problem, found: RawEstimate, pays: Total, influence: Floats) -> RawEstimate:
    """The return of an episode."""
    sums, (low, high) = EpisodeSums.of_influence(pays.value, influence), pays.reach
    logged = logged_mean(problem).per_episode
    error = None if logged is None else counted_error(logged, problem, sums.standard_error, pays.error)
    uncertainty = Reaching(episodes=sums, suspected_bias=pays.error, reach=(pays.value + low, pays.value + high))
    return replace(
        found, value=pays.value, uncertainty=uncertainty, evidence=replace(found.evidence, counted_error=error)
    )
