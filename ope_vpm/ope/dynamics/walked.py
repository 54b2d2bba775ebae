"""A second opinion of the value: what walks of the target in a model of the log pay.

The walks are those that `ope_vpm.ope.dynamics.state_shift` looks at for the states that they reach. Nothing is solved
for: features of Q, ridges and action ratios have no part in it, so that it errs for other reasons than LSTD-Q and vpm
do. On 155 generated tasks it is nearly as near to the truth as the answer of `auto` (geometric mean 3.1 and 2.8
floors), and how far the two lie apart is as good a sign of an error as the error that is computed (note 030).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.dynamics.state_shift import Walks, limit_of, paths_of, steps_of
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem

GOES_ON = 0.5
"""The share of walks that have not ended after their last step from which a task is one that goes on for ever."""
SURE = 2.0
"""Errors of the walks up to which a distance is none."""
MISSED = 0.5
"""How much of what walks of the log's own behaviour miss is an error of the target's walks. With all of it, and with
nothing, errors are told as well; without it a distance that the model's held-out rows make by chance, of which there
are a thousand at most, would stay where the log grows."""


@dataclass(frozen=True)
class Walked:
    """The value by walks, on the scale of one reward."""

    value: float
    error: float
    """Its error: by the number of walks, and by what walks of the log's own behaviour miss of the logged rewards."""

    def distance(self, value: float) -> float:
        """How far a value lies from that of the walks; 0 where the error of the walks may be why."""
        apart = abs(value - self.value)
        return float(np.sqrt(apart**2 - self.error**2)) if apart > SURE * self.error else 0.0


def walked_value(problem: Problem) -> Walked | None:
    """Follow the target and the log's own behaviour in a model; None where there is none, or ends mean something else.

    Args:
        problem: the question, about a log in memory.
    """
    paths = paths_of(problem) if problem.on_end == ("restart" if problem.gamma == 1 else "absorb") else None
    if paths is None:
        return None
    gamma, weight = problem.gamma, weights_of(paths.target, problem.gamma, steps_of(problem) == limit_of(problem))
    paid, time = np.sum(weight * paths.target.paid, axis=0), np.sum(weight, axis=0)
    whole = time if gamma == 1 else np.full_like(paid, 1 / (1 - gamma))
    value = float(paid.mean() / whole.mean())
    error = float((paid - value * whole).std() / whole.mean() / np.sqrt(len(paid)))
    share = float(time.mean() / whole.mean())  # of the time before an end
    return Walked(value, float(np.hypot(error, MISSED * share * missed_by_own(problem.log, paths.own, gamma))))


def weights_of(walks: Walks, gamma: float, ends: bool) -> Floats:
    """How much each step counts, (steps, copies).

    Args:
        walks: of the target.
        gamma: the discount.
        ends: whether the task ends after the last step. Otherwise later steps pay what that one does; at γ = 1 they
            pay what the last two thirds do, where walks have forgotten how they began.
    """
    weight = walks.alive.copy()
    if not ends and gamma < 1:
        weight[-1] /= 1 - gamma
    elif not ends and weight[-1].mean() > GOES_ON:
        weight[: len(weight) // 3] = 0
    return weight


def missed_by_own(log: Log, own: Walks, gamma: float) -> float:
    """The mean reward of the behaviour's walks, the step at time t counting γᵗ, less that of the same logged steps."""
    data, steps = log.data, len(own.alive)
    rows = np.flatnonzero(data.from_reset[data.episode] & (data.time < steps))
    logged, walked = gamma ** data.time[rows].astype(np.float64), gamma ** np.arange(steps)[:, None] * own.alive
    return float(np.sum(walked * own.paid) / np.sum(walked) - logged @ data.rewards[rows] / np.sum(logged))
