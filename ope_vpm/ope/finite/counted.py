"""The answer of counts: the one estimate of all estimators that are exact on finite states and actions."""

from __future__ import annotations

from functools import partial

from ope_vpm.ope.finite.episodes import limited_steps
from ope_vpm.ope.finite.estimate import finite_estimate
from ope_vpm.ope.finite.limited import limited_estimate
from ope_vpm.ope.finite.model import FiniteSolution
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import DEFAULT, Pooled, treatment
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.returns import with_return
from ope_vpm.ope.problem import Problem


def counted_estimate(problem: Problem, unseen: str = DEFAULT) -> RawEstimate:
    """The exact solution of the counted model, with a treatment of unseen pairs by name.

    Where a time limit is part of the task, the default treatment follows its clock; the others take the limit for an
    end that may come in any state, and say so. The return of an episode is first guessed without slopes: what
    these predict of when a task ends is far noisier than what they predict of how, and a rate of ends near 0, by which
    a return is divided, makes it anything.
    """
    steps = limited_steps(problem)
    if unseen == DEFAULT and steps is not None:
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
