"""Which treatment of unseen pairs fits a log: what `unseen="auto"` means."""

from __future__ import annotations

from ope_vpm.arrays import effective_sample_size
from ope_vpm.ope.finite.preference import Preference
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.rare_pairs import EFFECTIVE_RARE_PAIRS
from ope_vpm.ope.finite.regression import Regression, predicted_pairs
from ope_vpm.ope.finite.solve import FiniteSolution, solve
from ope_vpm.ope.finite.treatments import replacement

LEAST_EXPLAINED = 0.2
"""Rare pairs that are predicted worse say that neither the target's choices nor the other actions tell what an unseen
pair is worth: 0.5 to 0.8 is explained on Taxi, below 0.03 where policies are drawn at random. No truth is needed to
notice."""


def chosen_solution(problem: FiniteProblem) -> tuple[FiniteSolution, str]:
    """The solution by the treatment that fits the log, and its name."""
    if problem.all_seen:  # every treatment has the same solution
        chosen = replacement(problem)
        return solve(problem, chosen), chosen.name
    preferred = solve(problem, Preference())
    pairs = predicted_pairs(problem)
    if pairs is None or effective_sample_size(pairs.weight) < EFFECTIVE_RARE_PAIRS:
        return preferred, Preference.name
    predicted = pairs.solution()
    if predicted is None or predicted.explained < LEAST_EXPLAINED or predicted.error > preferred.error:
        return preferred, Preference.name
    return predicted, Regression.name
