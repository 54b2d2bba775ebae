"""Q and the ratio of finite pairs, each step's by the other folds: exact solutions on counts.

Where the folds that count saw every pair the target needs, the solution is the counted model's. Otherwise unseen pairs
are treated as in vpm: a part of a log lacks more pairs than the whole, and without a prior for them a state with one
seen action can swallow the chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.ope.finite.choice import chosen_solution
from ope_vpm.ope.finite.mixture import mixture_sums
from ope_vpm.ope.finite.problem import FiniteProblem, finite_problem
from ope_vpm.ope.finite.regression import PredictedSolution
from ope_vpm.ope.finite.solve import FiniteSolution
from ope_vpm.ope.inference.uncertainty import EpisodeSums
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.values import QValues


@dataclass(frozen=True)
class CrossFit:
    """What the other folds say about each step."""

    q: QValues
    tau: Floats
    """(steps,): the ratio."""
    unseen_mass: float | None
    """The share of the target's time on pairs that the other folds never saw, averaged over the folds."""
    error: float
    """The error that this brings into the value, averaged over the folds."""
    mixture: EpisodeSums | None = None
    """What each episode adds to the mixture of several closed classes; None where no fold has several."""
    doubts: tuple[str, ...] = ()
    """That there are several closed classes, in a sentence."""


def cross_fitted_counts(problem: Problem, folds: Integers) -> CrossFit:
    """Solve once per fold; pairs that the other folds never saw have ratio 0 and their state's value.

    Args:
        problem: the question, on finite states and actions.
        folds: (episodes,): the fold of each episode. A single fold is judged by itself.
    """
    whole = finite_problem(problem)
    counts, gamma = whole.counts, problem.gamma
    fold = folds[problem.data.episode[problem.steps.rows]]
    first_fold = folds[problem.log.initial_episodes]
    q, after, tau, level, psi, passes = (np.zeros(len(fold)) for _ in range(6))
    first, first_gain = np.zeros(len(first_fold)), np.zeros(len(first_fold))
    number = int(folds.max()) + 1
    solutions = []
    for k in range(number):
        held, held_first = fold == k, first_fold == k
        part, kept = counts.part(~held if number > 1 else held)
        solution = solve_part(replace(whole, counts=part))
        q_of_pair, tau_of_pair = solution.values[counts.state_of_pair], np.zeros(counts.pairs)
        q_of_pair[kept] = solution.q
        tau_of_pair[kept] = solution.mass * part.times.sum() / part.times
        q[held], tau[held] = q_of_pair[counts.pair[held]], tau_of_pair[counts.pair[held]]
        after[held] = counts.value_after(solution.values)[held]
        first[held_first] = solution.values[counts.initial_states[held_first]]
        level[held] = solution.value if gamma == 1 else 0.0
        if solution.mixture is not None:
            mixture = solution.mixture.on_pairs(kept, counts.pairs)
            psi[held], passes[held] = mixture.influence(counts)[held], mixture.ratio[counts.pair[held]]
            first_gain[held_first] = mixture.gain[counts.initial_states[held_first]]
        solutions.append(solution)
    mixed = [each for each in solutions if each.mixture is not None]
    return CrossFit(
        QValues(q, after, first, level),
        tau,
        unseen_mass=float(np.mean([each.unseen_mass for each in solutions])),
        error=float(np.mean([each.error for each in solutions])),
        mixture=mixture_sums(problem, psi, passes, first_gain) if mixed else None,
        doubts=mixed[0].doubts if mixed else (),
    )


def solve_part(problem: FiniteProblem) -> FiniteSolution:
    """Exact, with a prior for unseen pairs where there are such."""
    found = chosen_solution(problem)
    if isinstance(found, PredictedSolution):  # the error of its predictions is already known
        return found
    # Every pair counts alike here: from a part of the log the target's mass is itself uncertain.
    return replace(found, error=max(found.error, found.unseen_mass * float(np.std(found.q))))
