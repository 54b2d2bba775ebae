"""The clock of tasks that a time limit ends: with the time as one more coordinate their restarts are Markov."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.steps import TimeLimit, limit_of
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class Clock:
    """Time within an episode of at most `length` steps, scaled to standard deviation 1."""

    length: int

    def __call__(self, time: Floats | Integers) -> Floats:
        """The scaled time of each step."""
        scaled: Floats = (time / self.length - 0.5) * np.sqrt(12)
        return scaled


def clock_of(data: LoggedDataset, time_limit: TimeLimit) -> Clock | None:
    """The task's clock, where a time limit ends its episodes: what is left then depends on the time."""
    limit = limit_of(data) if time_limit == "restart" else None
    return None if limit is None else Clock(limit)


def times(data: LoggedDataset, time_limit: TimeLimit) -> Integers:
    """The time of each row. An episode whose beginning was not logged is counted back from the limit it ended at."""
    clock = clock_of(data, time_limit)
    if clock is None:
        return data.time
    cut = ~data.from_reset & data.truncated[data.ends]
    missed: Integers = np.where(cut, np.maximum(clock.length - data.lengths, 0), 0)
    return data.time + missed[data.episode]


def clock_remarks(problem: Problem, known: bool) -> tuple[str, ...]:
    """What is to be said where a time limit restarts the task, and the estimator does not know when.

    Args:
        problem: the question.
        known: whether the estimator takes the clock into account, where there is one.
    """
    data = problem.data
    if problem.time_limit == "continue" or not data.truncated.any():
        return ()
    if clock_of(data, problem.time_limit) is None:
        return ("truncated episodes have several lengths: restarts are taken to depend on the state alone",)
    return () if known else ("a time limit restarts the task, and states do not hold the time: add it to them",)
