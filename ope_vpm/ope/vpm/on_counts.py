"""VPM on finite states where some pairs were never seen: Good–Turing regression, with an interval and a verdict."""

from __future__ import annotations

from ope_vpm.arrays import group_sums
from ope_vpm.ope.adapter.time_limit import clock_remarks
from ope_vpm.ope.finite.counts import count_pairs, influence
from ope_vpm.ope.finite.regression import LEAST_EXPLAINED, regression, solve
from ope_vpm.ope.inference.estimate import RawEstimate, evidence_of_weights
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.problem import Problem


def find_on_counts(problem: Problem, required: bool) -> RawEstimate | None:
    """The value with unseen pairs predicted; None where nothing is unseen, or nothing seen can tell what it is worth.

    Args:
        problem: the question, on finite states and actions.
        required: whether to predict however badly, and to say why where it cannot be done.
    """
    counted, gamma = count_pairs(problem), problem.gamma
    if not required and (counted.covered > 1 - 1e-12).all():
        return None
    model = regression(counted, gamma)
    solution = None if model is None else solve(model, gamma)
    if model is None or solution is None:
        if required:
            raise ValueError(
                "unseen='regression' needs rarely seen pairs to learn from, and there are too few: use unseen='auto'"
            )
        return None
    if not required and solution.explained < LEAST_EXPLAINED:
        return None
    mass, total = solution.mass, counted.weight.sum()
    tau = (mass / (counted.times / total))[counted.pair]
    weights = group_sums(problem.steps.rows, tau * counted.weight, len(problem.data))
    unseen = model.spread(solution.law) @ model.unseen[:, -1] + solution.law[model.never_left].sum()
    evidence = evidence_of_weights(
        problem.data,
        weights,
        unseen_mass=float(unseen / solution.law.sum()),
        remarks=clock_remarks(problem, known=False),
    )
    return RawEstimate(
        value=solution.value,
        uncertainty=Bootstrap(
            episodes=influence(problem, counted, solution.value, mass, solution.values), suspected_bias=solution.misfit
        ),
        weights=weights,
        evidence=evidence,
        diagnostics={
            "solver": "tabular",
            "unseen": "regression",
            "states": int((~model.never_left).sum()),
            "stand_ins": len(model.rare),
            "explained": solution.explained,
            "effective_stand_ins": float(1 / (model.weight @ model.weight)),
            "dropped": problem.steps.dropped,
            "ended": problem.steps.ended,
            "notes": (),
        },
    )
