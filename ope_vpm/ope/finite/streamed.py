"""The steps of a log, some at a time: sums over them are the same for a log in memory and one that is read in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers, chunks
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.streamed import Part
from ope_vpm.logged.sums import Mergeable
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.part_steps import NOTHING, StepPlan
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.tally import planned
from ope_vpm.ope.problem import Problem

Sums = TypeVar("Sums", bound=Mergeable)


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


@dataclass(frozen=True, eq=False)
class SomeSteps:
    """Some logged steps; those of one episode follow one another."""

    row: Integers
    """The number of each one's row in the log."""
    pair: Integers
    """The number of its pair."""
    after: Integers
    """The number of the state that follows; -1 where nothing does."""
    weight: Floats
    rewards: Floats
    episode: Integers
    """The number of its episode, from the first one of the `LoggedSteps` on."""
    end: Bools
    """Whether the task ends with it."""
    cut: Bools
    """Whether a time limit does that."""


@dataclass(frozen=True, eq=False)
class LoggedSteps:
    """The steps of a log in memory, or of one part of a log."""

    data: LoggedDataset
    """The rows."""
    first: int
    """The number of the first episode."""
    pieces: Iterator[SomeSteps]


def over_steps(problem: Problem, function: Callable[..., Sums], *settings: Any, ended: Bools | None = None) -> Sums:
    """The result of a function of `LoggedSteps` for a log in memory; merged results for one that is read in parts.

    Args:
        problem: the question.
        function: takes the steps and the settings; for parts it is one of a module, which other processes find.
        settings: whatever it needs.
        ended: (episodes,): whether the task ended with each episode; None: as the question has it.
    """
    counts, ended = finite_problem(problem).counts, problem.ends if ended is None else ended
    if problem.log.streamed:
        plan = planned(problem.log, problem.on_end, problem.time_limit, problem.seed)
        found: Sums = problem.log.total(_of_part, plan, numbers_of(counts, plan), ended, function, *settings)
        return found
    return function(LoggedSteps(problem.data, 0, _in_memory(problem, counts, ended)), *settings)


def _in_memory(problem: Problem, counts: PairCounts, ended: Bools) -> Iterator[SomeSteps]:
    data, ending = problem.data, np.zeros(len(problem.data), dtype=np.bool_)
    ending[data.ends[ended]] = True
    for part in chunks(len(problem.steps.rows)):
        row = problem.steps.rows[part]
        some = counts.pair[part], counts.next_state[part], counts.weight[part], counts.rewards[part]
        yield SomeSteps(row, *some, data.episode[row], ending[row], ending[row] & data.truncated[row])


def _of_part(
    part: Part, plan: StepPlan, numbers: Numbers, ended: Bools, function: Callable[..., Sums], *settings: Any
) -> Sums:
    """The function of one part."""
    pair, ending = numbers.of_pairs(plan.pairs(part)), np.zeros(len(part), dtype=np.bool_)
    here = ended[part.first_episode : part.first_episode + part.n_episodes] & part.ends_here
    ending[part.ends[here]] = True

    def pieces() -> Iterator[SomeSteps]:
        for steps in plan.steps(part):
            row, end = steps.rows, ending[steps.rows]
            some = pair[row], numbers.of_states(steps.after), steps.weight, part.rewards[row]
            yield SomeSteps(part.first_row + row, *some, part.episode[row], end, end & part.truncated[row])

    return function(LoggedSteps(part, part.first_episode, pieces()), *settings)
