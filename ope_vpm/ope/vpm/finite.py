"""VPM on finite states and actions: the exact fixed point on counted pairs, with a treatment of unseen ones.

Where every x' was also seen as x, the paper's power iteration is one on the counted chain, and its fixed point is the
exact solution of the counted model. What error is left comes from mass that reaches pairs (s, a) with which no step
begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ope_vpm.ope.finite.episodes import limited_steps
from ope_vpm.ope.finite.estimate import finite_estimate
from ope_vpm.ope.finite.limited import limited_estimate
from ope_vpm.ope.finite.problem import FiniteProblem, finite_problem
from ope_vpm.ope.finite.regression import Regression
from ope_vpm.ope.finite.solve import FiniteSolution, solve
from ope_vpm.ope.finite.treatments import DEFAULT, treatment
from ope_vpm.ope.inference.value import RawEstimate
from ope_vpm.ope.problem import Problem

EXACT_TREATMENTS = ("auto", "restart", "good-turing", "regression", "smooth", "pooled", "preference")
"""The treatments of unseen pairs whose fixed point is solved for here. "restrict", and everything that takes power
steps, is left to the chain's own solver: "restrict" scales up the known successors of each row there."""


def find_finite(problem: Problem, unseen: str) -> RawEstimate:
    """The value at the exact fixed point.

    Args:
        problem: the question, on finite states and actions.
        unseen: one of `EXACT_TREATMENTS`; "auto", the default of all estimators on counts, is `Chosen`.
    """
    finite, steps = finite_problem(problem), limited_steps(problem)
    if unseen == DEFAULT and steps is not None:
        found = limited_estimate(problem, steps)
        return replace(found, diagnostics={**found.diagnostics, "solver": "tabular", "states": _states(finite)})
    solution = solve(finite, treatment(unseen))
    name = solution.treatment or unseen
    diagnostics = _diagnostics(finite, solution, name)
    # The error of a regression says how far single pairs may be off: nothing is widened for them.
    return finite_estimate(problem, solution, diagnostics, solution.doubts, widened=name != Regression.name)


def _diagnostics(problem: FiniteProblem, solution: FiniteSolution, unseen: str) -> dict[str, Any]:
    """What was solved, for people to read."""
    about = {"solver": "tabular", "unseen": unseen, "states": _states(problem), "notes": solution.doubts}
    return {**about, **solution.details}


def _states(problem: FiniteProblem) -> int:
    """How many states were left."""
    return int((problem.counts.visits > 0).sum())
