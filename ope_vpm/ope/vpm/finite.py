"""VPM on finite states and actions: the exact fixed point on counted pairs, with a treatment of unseen ones.

Where every x' was also seen as x, the paper's power iteration is one on the counted chain, and its fixed point is the
exact solution of the counted model. What error is left comes from mass that reaches pairs (s, a) with which no step
begins.
"""

from __future__ import annotations

from dataclasses import replace

from ope_vpm.ope.finite.counted import counted_estimate
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.problem import Problem

EXACT_TREATMENTS = ("auto", "restart", "good-turing", "smooth", "pooled")
"""The treatments of unseen pairs whose fixed point is solved for here. "restrict", and everything that takes power
steps, is left to the chain's own solver: "restrict" scales up the known successors of each row there."""


def find_finite(problem: Problem, unseen: str) -> RawEstimate:
    """The value at the exact fixed point.

    Args:
        problem: the question, on finite states and actions.
        unseen: one of `EXACT_TREATMENTS`; "auto", the default of all estimators on counts, is `Mixed`.
    """
    found, visits = counted_estimate(problem, unseen), finite_problem(problem).counts.visits
    about = {"solver": "tabular", "states": int((visits > 0).sum())}
    return replace(found, diagnostics={**found.diagnostics, **about})
