"""What the rows of a log that is read in parts say of an exact solution on its counts: one more pass over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Integers
from ope_vpm.logged.streamed import Part
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.influence import RowEvidence, SolvedSteps, SomeSteps, StepSums
from ope_vpm.ope.finite.model import FiniteSolution
from ope_vpm.ope.finite.part_steps import NOTHING, StepPlan
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.tally import planned
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of states and pairs, by their codes."""

    states: Integers
    """The code of each state number, rising."""
    pairs: Integers
    """The code of each pair number, rising."""

    def of_states(self, codes: Integers) -> Integers:
        """The number of each state; -1 for `NOTHING`."""
        return np.where(codes == NOTHING, -1, np.searchsorted(self.states, codes))

    def of_pairs(self, codes: Integers) -> Integers:
        """The number of each pair; any number for pairs that were not counted."""
        return np.minimum(np.searchsorted(self.pairs, codes), len(self.pairs) - 1)


def numbers_of(counts: PairCounts, plan: StepPlan) -> Numbers:
    """The numbers that counts have given."""
    return Numbers(counts.labels, counts.labels[counts.state_of_pair] * plan.actions + counts.action_of_pair)


def evidence_of_parts(problem: Problem, log: Log, solution: FiniteSolution) -> RowEvidence:
    """From a pass over the parts; arguments as in `evidence_of_rows`."""
    plan = planned(log, problem.on_end, problem.time_limit, problem.seed)
    solved = SolvedSteps.of(problem, solution, log.facts.rewards.commonest)
    sums = log.total(_sums_of_part, plan, numbers_of(finite_problem(problem).counts, plan), solved)
    return sums.evidence(problem, solution, None)


def _sums_of_part(part: Part, plan: StepPlan, numbers: Numbers, solved: SolvedSteps) -> StepSums:
    """Go through the rows of one part."""
    pair, sums = numbers.of_pairs(plan.pairs(part)), StepSums.empty(part.first_episode, part.n_episodes)
    sums.add_others(solved, part.episode, part.rewards)
    for steps in plan.steps(part):
        rows, end = steps.rows, np.full(len(steps.rows), steps.end)
        some = pair[rows], numbers.of_states(steps.after), steps.weight, part.rewards[rows]
        sums.add(solved, SomeSteps(*some, part.episode[rows], end, end & part.truncated[rows]))
    return sums
