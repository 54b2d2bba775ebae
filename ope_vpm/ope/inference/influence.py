"""What the first states add to the influence function of a value."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.ope.inference.intervals import EpisodeSums
from ope_vpm.ope.problem import Problem


def entry_rate(problem: Problem, rows: Integers, mass: Floats) -> float:
    """How much mass a step enters by initial states: 1-γ, and where ends restart γ·(mass on ending rows) more.

    Args:
        problem: the question.
        rows: logged rows.
        mass: of each under the target, summing to 1.
    """
    rate = 1 - problem.gamma
    if problem.on_end == "restart":
        rate += problem.gamma * float(mass[problem.ending[rows]].sum())
    return rate


def initial_sums(problem: Problem, rate: float, values: Floats) -> EpisodeSums:
    """Per-episode sums of rate·(h(s₀) - mean h(s₀)), one ratio whose whole is 0.

    Args:
        problem: the question.
        rate: see `entry_rate`.
        values: h at the first state of each episode that begins at a reset.
    """
    data = problem.data
    first = problem.log.initial_episodes
    above, below = np.zeros((data.n_episodes, 1)), np.zeros((data.n_episodes, 1))
    if len(first) and rate > 0:
        above[first, 0] = rate * (values - values.mean()) / len(first)
        below[first, 0] = 1 / len(first)
    return EpisodeSums(above, below)
