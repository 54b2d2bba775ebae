"""VPM on finite states and actions: the exact fixed point on counted pairs, with a treatment of unseen ones.

Where every x' was also seen as x, the paper's power iteration is one on the counted chain, and its fixed point is the
exact solution of the counted model. What error is left comes from mass that reaches pairs (s, a) with which no step
begins.
"""

from __future__ import annotations

from typing import Any

from ope_vpm.ope.finite.estimate import finite_estimate
from ope_vpm.ope.finite.problem import FiniteProblem, finite_problem
from ope_vpm.ope.finite.regression import PredictedSolution, Regression, predicted_pairs
from ope_vpm.ope.finite.solve import FiniteSolution, solve
from ope_vpm.ope.finite.treatments import replacement, treatment
from ope_vpm.ope.inference.value import RawEstimate
from ope_vpm.ope.problem import Problem

EXACT_TREATMENTS = ("auto", "restart", "good-turing", "regression", "smooth")
"""The treatments of unseen pairs whose fixed point is solved for here. "restrict", and everything that takes power
steps, is left to the chain's own solver: "restrict" scales up the known successors of each row there."""
LEAST_EXPLAINED = 0.2
"""Rare pairs that are predicted worse say that neither the target's choices nor the other actions tell what an unseen
pair is worth: 0.5 to 0.8 is explained on Taxi, below 0.03 where policies are drawn at random. No truth is needed to
notice."""


def find_finite(problem: Problem, unseen: str) -> RawEstimate:
    """The value at the exact fixed point.

    Args:
        problem: the question, on finite states and actions.
        unseen: one of `EXACT_TREATMENTS`. "auto" predicts the values of unseen pairs where rarely seen ones are well
            predicted by the others, and elsewhere replaces unseen pairs by seen ones.
    """
    finite = finite_problem(problem)
    predicted = _predicted(finite, unseen)
    if predicted is not None:  # the error of the predictions says how far single pairs may be off: nothing is widened
        return finite_estimate(problem, predicted, _diagnostics(finite, predicted, Regression.name))
    chosen = replacement(finite) if unseen == "auto" else treatment(unseen)
    solution = solve(finite, chosen)
    diagnostics = _diagnostics(finite, solution, chosen.name)
    return finite_estimate(problem, solution, diagnostics, solution.doubts, widened=True)


def _predicted(problem: FiniteProblem, unseen: str) -> PredictedSolution | None:
    """The solution with the values of unseen pairs predicted, where that was asked for or is a good choice.

    It is none where nothing is unseen, or where nothing seen can tell what unseen pairs are worth.
    """
    if unseen == Regression.name:
        return Regression().complete(problem).solve()
    if unseen != "auto" or problem.all_seen:
        return None
    pairs = predicted_pairs(problem)
    solution = None if pairs is None else pairs.solution()
    return None if solution is None or solution.explained < LEAST_EXPLAINED else solution


def _diagnostics(problem: FiniteProblem, solution: FiniteSolution, unseen: str) -> dict[str, Any]:
    """What was solved, for people to read."""
    states = int((problem.counts.visits > 0).sum())
    return {"solver": "tabular", "unseen": unseen, "states": states, "notes": solution.doubts, **solution.details}
