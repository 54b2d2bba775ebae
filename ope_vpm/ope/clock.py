"""The clock of tasks that a time limit ends: with the time as one more coordinate their restarts are Markov."""

from __future__ import annotations

import numpy as np

from ope_vpm.logged.columns import Floats, Integers
from ope_vpm.ope.problem import Problem


class Clock:
    """Time within an episode of fixed length, scaled to deviation 1."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, time: Floats | Integers) -> Floats:
        """One number a step."""
        scaled: Floats = (time / self.length - 0.5) * np.sqrt(12)
        return scaled


def clock_of(problem: Problem) -> Clock | None:
    """The task's clock, where a time limit of one length ends its episodes: what is left then depends on the time."""
    data = problem.data
    cut = data.lengths[data.truncated[data.ends]]
    if problem.time_limit != "restart" or len(cut) == 0 or (cut != cut[0]).any():
        return None
    return Clock(int(cut[0]))
