"""How much of what a target does the log holds, where the target gives actions without densities.

A policy with densities has E_b[π/b̂]. For one that only acts, the behaviour is cloned as a Gaussian around the target's
mean action, and the target's actions are looked at through the clone: those that are less likely than nearly all logged
ones were not logged, whatever a smooth Q function says of them.
"""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope.behaviour.gaussian import CloneRows, fit_gaussians
from ope_vpm.ope.behaviour.regression import Draws
from ope_vpm.ope.log import Log
from ope_vpm.policy import TargetPolicy

RARE = 0.01
"""The share of the logged actions that are less likely than what counts as held: of Gaussian ones, those more than 2.6
deviations away from their mean."""


def held_share(log: Log, policy: TargetPolicy, rows: CloneRows, seed: int) -> float:
    """The share of the target's actions, in logged states, that are as likely as all but 1 % of the logged ones.

    Args:
        log: a log with continuous actions, all of it in memory.
        policy: the target.
        rows: the log's, as clones share them.
        seed: of the target's draws.
    """
    data, rng = log.data, np.random.default_rng(seed)
    mean, drawn = np.empty(data.actions.shape), np.empty(data.actions.shape)
    seen = data.observations[log.rows]  # in the canonical order, so that draws do not depend on that of the log
    mean[log.rows] = policy.action_moments(seen, rng)[0]
    drawn[log.rows] = policy.sample(seen, rng)
    scale = Standardiser.fit(data.actions)

    def around_target(actions: Array) -> Draws:
        return Draws.unclipped(scale(policy.clipping.clip(actions)) - scale(mean))

    clone, logged = fit_gaussians(around_target(data.actions), rows)
    of_target = clone.log_density(around_target(drawn), rows.design)
    return float(np.mean(of_target >= np.quantile(logged, RARE)))
