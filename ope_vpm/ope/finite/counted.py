"""The answer of counts: the one estimate of all estimators that are exact on finite states and actions."""

from __future__ import annotations

from ope_vpm.ope.finite.episodes import limited_steps
from ope_vpm.ope.finite.estimate import finite_estimate
from ope_vpm.ope.finite.limited import limited_estimate
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.solve import solve
from ope_vpm.ope.finite.treatments import DEFAULT, treatment
from ope_vpm.ope.inference.value import RawEstimate
from ope_vpm.ope.problem import Problem


def counted_estimate(problem: Problem, unseen: str = DEFAULT) -> RawEstimate:
    """The exact solution of the counted model, with a treatment of unseen pairs by name.

    Where a time limit is part of the task, the default treatment follows its clock; the others take the limit for an
    end that may come in any state, and say so.
    """
    steps = limited_steps(problem)
    if unseen == DEFAULT and steps is not None:
        return limited_estimate(problem, steps)
    solution = solve(finite_problem(problem), treatment(unseen))
    return finite_estimate(
        problem, solution, {"solver": "counts", "unseen": solution.treatment or unseen}, solution.doubts
    )
