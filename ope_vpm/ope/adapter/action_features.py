"""Functions of the logged action whose mean under the target is 0 in every state.

With them Q(s, a) = V(s) + Σ_j p_j(s)·u_j(s, a) has E_π[Q(s, ·)] = V(s) exactly: next actions need not be drawn.
"""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.target import DRAWS


def centred_features(problem: Problem, draws: int = DRAWS) -> Floats:
    """One row per logged step. Discrete: 1[a = j] - π(j|s). Continuous: a and a², scaled, less their means under π.

    Args:
        problem: the question.
        draws: target actions per state where the policy's moments have no closed form.
    """
    return problem.of_policy(_centred_features, draws, problem.seed)


def _centred_features(log: Log, policy: TargetPolicy, draws: int, seed: int) -> Floats:
    data = log.data
    if data.discrete_actions:
        probabilities = policy.probabilities(data.observations)
        return np.asarray(np.eye(probabilities.shape[1])[data.actions] - probabilities)
    scale = Standardiser.fit(data.actions)
    logged = scale(policy.clipping.clip(data.actions))  # as the environment takes an action beyond the bounds
    first, second = _moments(log, policy, draws, seed)
    mean = scale(first)
    square = (second - 2 * scale.mean * first + scale.mean**2) / scale.std**2
    return np.hstack([logged - mean, logged**2 - square])


def _moments(log: Log, policy: TargetPolicy, draws: int, seed: int) -> tuple[Floats, Floats]:
    """E_π[a] and E_π[a²] in each logged state; policies that draw do so in the log's canonical order."""
    shape = log.data.actions.shape
    found = policy.action_moments(log.data.observations[log.rows], np.random.default_rng(seed), draws)
    if found[0].shape != shape:
        raise ValueError(f"the policy's actions have shape {found[0].shape}, the data's {shape}: they do not fit")
    first, second = np.empty(shape), np.empty(shape)
    first[log.rows], second[log.rows] = found
    return first, second
