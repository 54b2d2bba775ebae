"""Which treatment of unseen pairs fits a log: what `unseen="auto"`, the default of all estimators on counts, means."""

from __future__ import annotations

from ope_vpm.arrays import effective_sample_size
from ope_vpm.ope.finite.pooling import staying_share
from ope_vpm.ope.finite.preference import Preference
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.rare_pairs import EFFECTIVE_RARE_PAIRS
from ope_vpm.ope.finite.regression import PredictedSolution, Regression, predicted_pairs
from ope_vpm.ope.finite.solve import Completion, FiniteSolution, Treatment, solve

LEAST_EXPLAINED = 0.2
"""Rare pairs that are predicted worse say that neither the target's choices nor the other actions tell what an unseen
pair is worth: 0.5 to 0.8 is explained on Taxi, below 0.03 where policies are drawn at random. No truth is needed to
notice."""

MOST_HELD = 0.05
"""How much more of its time the target may spend in pairs that led back to their own state than it does by
`Preference`. The regression takes a pair that was seen once at its word, so that one that stayed holds the target: on a
ward in which patients stay the difference is 0.14 to 0.43, and the value per step 5 to 12 floors off; on Taxi and on
Garnet-wide, where the regression is the better one, it is at most 0.03 (seeds 100 to 102)."""


class Chosen(Treatment):
    """`Preference`, or `Regression` where many rarely seen pairs are well predicted by the others.

    The two are level on Taxi while the behaviour is near. From behaviours that are far the regression is nearer: log10
    of the mean squared error -1.70 against -1.23 at 100 × 200 after 550 iterations, -2.01 against -1.22 at 200 × 400
    after 300 (seeds from 100).
    """

    name = "auto"

    def complete(self, problem: FiniteProblem) -> Completion:
        """Of the treatment that fits."""
        return self.fitting(problem).complete(problem)

    def solved(self, problem: FiniteProblem) -> FiniteSolution:
        """The solution by the treatment that fits."""
        return chosen_solution(problem)

    def fitting(self, problem: FiniteProblem) -> Treatment:
        """The treatment that fits."""
        return Regression() if isinstance(chosen_solution(problem), PredictedSolution) else Preference()


def chosen_solution(problem: FiniteProblem) -> FiniteSolution:
    """The solution by the treatment that fits the log."""
    preferred = solve(problem, Preference())
    if problem.all_seen:  # every treatment has the same solution
        return preferred
    pairs = predicted_pairs(problem)
    if pairs is None or effective_sample_size(pairs.weight) < EFFECTIVE_RARE_PAIRS:
        return preferred
    predicted = pairs.solution()
    if predicted is None or predicted.explained < LEAST_EXPLAINED or predicted.error > preferred.error:
        return preferred
    held = time_held(problem, predicted) - time_held(problem, preferred)
    return preferred if held > MOST_HELD else predicted


def time_held(problem: FiniteProblem, solution: FiniteSolution) -> float:
    """The share of the target's time, of what seen pairs stand for, with which it stays in the state where it is."""
    return float(solution.mass @ staying_share(problem.counts) / solution.mass.sum())
