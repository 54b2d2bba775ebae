"""Q and the ratio at each step of a finite log: the exact solution on counts, for estimators that correct it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.finite.estimate import counted_solution
from ope_vpm.ope.finite.influence import ratio_of_pairs
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.inference.uncertainty import EpisodeSums, entry_rate_of_ends, initial_sums
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.linear import QValues


@dataclass(frozen=True)
class CrossFit:
    """Q and the ratio of stationary distributions at each step."""

    q: QValues
    tau: Floats
    """(steps,): the ratio."""
    unseen_mass: float | None
    """The share of the target's time on pairs that were never seen."""
    error: float
    """The error that this brings into the value."""
    mixture: EpisodeSums | None = None
    """What each episode adds to the mixture of several closed classes; None where there are not several."""
    doubts: tuple[str, ...] = ()
    """That there are several closed classes, in a sentence."""


def counted_fit(problem: Problem) -> CrossFit:
    """The counted solution at each step of a log in memory, on finite states and actions."""
    solution, counts = counted_solution(problem), finite_problem(problem).counts
    ratio, level = ratio_of_pairs(problem, solution), solution.value if problem.gamma == 1 else 0.0
    after, first = counts.value_after(solution.values), solution.values[counts.initial_states]
    mixture = None
    if solution.mixture is not None:
        passes, gain = solution.mixture.ratio[counts.pair], solution.mixture.gain[counts.initial_states]
        mixture = mixture_sums(problem, solution.mixture.influence(counts), passes, gain)
    return CrossFit(
        QValues(solution.q[counts.pair], after, first, np.full(len(counts.pair), level)),
        ratio[counts.pair],
        unseen_mass=solution.unseen_mass,
        error=solution.error,
        mixture=mixture,
        doubts=solution.doubts if mixture is not None else (),
    )


def mixture_sums(problem: Problem, psi: Floats, ratio: Floats, first: Floats) -> EpisodeSums:
    """Per-episode sums of ψ, and what the initial states add where transient pairs end episodes.

    Args:
        problem: the question.
        psi: of each step.
        ratio: the ratio of passes at each step.
        first: the gain of each initial state.
    """
    data, steps = problem.data, problem.steps
    share = steps.weight / steps.weight.sum()
    sums = EpisodeSums.of_rows(data.episode[steps.rows], data.n_episodes, share * psi, share)
    return sums.beside(initial_sums(problem, entry_rate_of_ends(problem, steps.rows, share * ratio), first))
