"""ρ̂ = π/b̂ at the logged actions, scaled to mean 1 and capped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.behaviour.around_target import clone_around_target
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

CAP = 50.0
"""Of the ratio once it is scaled to mean 1: beyond it a few rows of 10,000 would decide (docs/evaluation.md)."""
LARGEST_LOG = 50.0
"""Of a ratio before it is scaled: e^50 does not overflow in a sum, and is far beyond any cap."""


@dataclass(frozen=True)
class ActionRatio:
    """ρ̂ = π/b̂ at each logged row."""

    ratio: Floats
    """(n,): scaled to mean 1, then capped."""
    overlap: float
    """The mean before scaling: 1 where the log holds what the target does, near 0 where it does not."""
    held_out_log_likelihood: float
    """Of the clone of b, per action, in units of z = (a - mean)/std (Gaussian targets) or of the actions."""

    @classmethod
    def of_logs(cls, log_ratio: Floats, likelihood: float, cap: float = CAP) -> ActionRatio:
        """From log π - log b̂ of each row and the clone's held-out log-likelihood."""
        raw = np.exp(np.minimum(log_ratio, LARGEST_LOG))
        mean = float(raw.mean())
        scaled = raw / mean if mean > 0 else raw
        return cls(np.minimum(scaled, cap), mean, likelihood)


def action_ratio(problem: Problem) -> ActionRatio:
    """The ratio to a clone of the behaviour around the target, shared by the estimators that use it."""
    return problem.of_policy(_action_ratio, problem.seed)


def known_overlap(problem: Problem) -> float | None:
    """How much of what the target does the log holds, at most 1; None without densities."""
    return min(action_ratio(problem).overlap, 1.0) if problem.policy.has_log_prob else None


def _action_ratio(log: Log, policy: TargetPolicy, seed: int) -> ActionRatio:
    log_target, behaviour = clone_around_target(log, policy, seed)
    return ActionRatio.of_logs(log_target - behaviour.log_prob, behaviour.held_out_log_likelihood)
