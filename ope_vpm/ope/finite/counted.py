"""The answer of counts: the one estimate of all estimators that are exact on finite states and actions."""

from __future__ import annotations

from functools import partial

from ope_vpm.ope.finite.episodes import limited_steps
from ope_vpm.ope.finite.estimate import finite_estimate
from ope_vpm.ope.finite.halves import with_halves
from ope_vpm.ope.finite.limited import limited_estimate
from ope_vpm.ope.finite.pooling import Pooled
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.regression import Regression
from ope_vpm.ope.finite.solve import solve
from ope_vpm.ope.finite.treatments import DEFAULT, treatment
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.returns import with_return
from ope_vpm.ope.problem import Problem


def counted_estimate(problem: Problem, unseen: str = DEFAULT) -> RawEstimate:
    """The exact solution of the counted model, with a treatment of unseen pairs by name.

    Where a time limit is part of the task, the default treatment follows its clock; the others take the limit for an
    end that may come in any state, and say so. The return of an episode is first guessed without preferences: what
    these predict of when a task ends is far noisier than what they predict of how, and a rate of ends near 0, by which
    a return is divided, makes it anything. From 50 episodes of ICU-Sepsis that put one answer in ten about the best
    treatments 0.25 to 0.83 too low, and four in a hundred nowhere (docs/finite.md).
    """
    steps = limited_steps(problem)
    if unseen == DEFAULT and steps is not None:
        return limited_estimate(problem, steps)
    found = counted_value(problem, unseen)
    if unseen != DEFAULT or not problem.episodic:
        return found
    plain = partial(counted_value, unseen=Pooled.name, halves=False)
    return with_return(problem, found, partial(counted_value, unseen=unseen), plain)


def counted_value(problem: Problem, unseen: str, halves: bool = True) -> RawEstimate:
    """The value per step, or discounted.

    Args:
        problem: the question.
        unseen: the treatment of unseen pairs, by name.
        halves: whether to ask how the value moves from half of the log to all of it.
    """
    finite, treated = finite_problem(problem), treatment(unseen)
    solution = solve(finite, treated)
    solution = with_halves(finite, solution, treated) if halves else solution
    name = solution.treatment or unseen
    notes = {"solver": "counts", "unseen": name, **solution.details}
    # The error of a regression says how far single pairs may be off: nothing is widened for them.
    return finite_estimate(problem, solution, notes, solution.doubts, widened=name != Regression.name)
