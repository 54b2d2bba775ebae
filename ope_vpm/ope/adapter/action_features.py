"""Functions of the logged action whose mean under the target is 0 in every state.

With them Q(s, a) = V(s) + Σ_j p_j(s)·u_j(s, a) has E_π[Q(s, ·)] = V(s) exactly: next actions need not be drawn.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from ope_vpm.arrays import Array, Floats
from ope_vpm.ope.adapter.encoding import Standardisation
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import DeterministicPolicy, GaussianPolicy, TargetPolicy

NODES = 100
"""Quantiles of the Gaussian whose tanh is averaged."""


def centred_features(problem: Problem, draws: int = 8) -> Floats:
    """One row a logged step. Discrete: 1[a = j] - π(j|s). Continuous: a and a², scaled, less their means under π.

    Args:
        problem: the question.
        draws: target actions a state where the policy's means are not known otherwise.
    """
    return problem.of_policy(_centred_features, draws, problem.seed)


def _centred_features(log: Log, policy: TargetPolicy, draws: int, seed: int) -> Floats:
    data = log.data
    if data.discrete_actions:
        chance = policy.probabilities(data.observations)
        return np.asarray(np.eye(chance.shape[1])[data.actions] - chance)
    scale = Standardisation.fit(data.actions)
    actions = np.asarray(data.actions, dtype=np.float64)
    if isinstance(policy, GaussianPolicy) and policy.bounds is not None and not policy.squash:
        actions = np.clip(actions, *policy.bounds)
    logged = scale(actions)
    first, second = target_moments(log, policy, draws, seed)
    mean = scale(first)
    square = (second - 2 * scale.mean * first + scale.mean**2) / scale.std**2
    return np.hstack([logged - mean, logged**2 - square])


def target_moments(log: Log, policy: TargetPolicy, draws: int, seed: int) -> tuple[Floats, Floats]:
    """E_π[a] and E_π[a²] by coordinate in each logged state, as the policy squashes or clips."""
    observations, shape = log.data.observations, log.data.actions.shape
    if isinstance(policy, DeterministicPolicy):
        action = policy.action(observations).reshape(shape)
        return action, action**2
    if isinstance(policy, GaussianPolicy):
        mean, std = policy.moments(observations)
        return _squashed(policy, mean, std) if policy.squash else _clipped(policy, mean, std)
    rng, ordered = np.random.default_rng(seed), observations[log.rows]
    drawn: Array = np.stack([np.reshape(policy.sample(ordered, rng), shape) for _ in range(draws)])
    first, second = np.empty(shape), np.empty(shape)
    first[log.rows], second[log.rows] = drawn.mean(axis=0), (drawn**2).mean(axis=0)
    return first, second


def clipped_moments(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """E[clip(ξ)] and E[clip(ξ)²] of a standard normal ξ clipped to [low, high]."""
    inside = norm.cdf(high) - norm.cdf(low)
    first = norm.pdf(low) - norm.pdf(high)
    second = inside
    for edge, beyond, sign in ((low, norm.cdf(low), 1.0), (high, norm.sf(high), -1.0)):
        at = np.where(np.isfinite(edge), edge, 0.0)
        first = first + at * beyond
        second = second + at**2 * beyond + sign * at * norm.pdf(at) * np.isfinite(edge)
    return first, second


def _clipped(policy: GaussianPolicy, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
    if policy.bounds is None:
        return mean, mean**2 + std**2
    first, second = clipped_moments((policy.bounds[0] - mean) / std, (policy.bounds[1] - mean) / std)
    return mean + std * first, mean**2 + 2 * mean * std * first + std**2 * second


def _squashed(policy: GaussianPolicy, mean: Floats, std: Floats) -> tuple[Floats, Floats]:
    """By the mean over equally likely draws: tanh of a wide Gaussian is too steep for polynomials."""
    low, high = policy.bounds or (np.array(-1.0), np.array(1.0))
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    for node in norm.ppf((np.arange(NODES) + 0.5) / NODES):
        action = (low + high) / 2 + (high - low) / 2 * np.tanh(mean + std * node)
        first += action / NODES
        second += action**2 / NODES
    return first, second
