"""π/b̂ at the logged actions: the behaviour is cloned around the target, so that equal policies give exactly 1.

Gaussian targets: z = (a - m_π(s))/σ_π(s) is regressed on the state, see `clone`; the ratio is N(z; 0, 1)/N(z; ẑ(s), σ̂),
and a ratio of tails where the action was clipped.
Discrete actions: b̂(a|s) ∝ exp(θ_a(s) + β log π(a|s)). Other densities: a Gaussian in the actions themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ope_vpm.arrays import Bools, Floats
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import Standardisation
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.behaviour.gaussian import Draws, fit_clone
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import GaussianPolicy, TargetPolicy

WAVES = 100
"""Random features that the clone may use."""
CAP = 50.0
"""Of the ratio once it is scaled to mean 1."""


@dataclass(frozen=True)
class ActionRatio:
    """ρ̂ = π/b̂ at each logged row."""

    ratio: Floats
    """Scaled to mean 1, then capped."""
    overlap: float
    """The mean before scaling: 1 where the log holds what the target does, near 0 where it does not."""
    held_out_log_likelihood: float
    """Of the clone, per action, in units of z (Gaussian targets) or of the actions."""

    @classmethod
    def of_logs(cls, log_ratio: Floats, likelihood: float, cap: float = CAP) -> ActionRatio:
        """Scale and cap."""
        raw = np.exp(np.minimum(log_ratio, 50.0))
        mean = float(raw.mean())
        scaled = raw / mean if mean > 0 else raw
        return cls(np.minimum(scaled, cap), mean, likelihood)


def action_ratio(problem: Problem) -> ActionRatio:
    """Clone the behaviour around the target; shared by the estimators that use it."""
    return problem.of_policy(_action_ratio, problem.seed)


def known_overlap(problem: Problem) -> float | None:
    """How much of what the target does the log holds; None without densities."""
    return min(action_ratio(problem).overlap, 1.0) if problem.policy.has_log_prob else None


def _action_ratio(log: Log, policy: TargetPolicy, seed: int) -> ActionRatio:
    data, held_out = log.data, log.held_out
    linear, features = log.shared(_clone_features, seed)
    log_target = policy.log_chance(data.observations, data.actions)
    if data.discrete_actions:
        log_behaviour, likelihood = categorical_clone(
            policy.probabilities(data.observations), data.actions, features, held_out
        )
        return ActionRatio.of_logs(log_target - log_behaviour, likelihood)
    draws = target_draws(data, policy)
    if draws is not None:
        log_target = draws.log_density(np.zeros_like(draws.z), np.ones(draws.z.shape[1]))
    else:
        scale = Standardisation.fit(data.actions)
        draws = Draws.unclipped(scale(data.actions))
        log_target = log_target + np.log(scale.std).sum()
    log_behaviour, likelihood = fit_clone(draws, features, linear, held_out, data.episode)
    return ActionRatio.of_logs(log_target - log_behaviour, likelihood)


def _clone_features(log: Log, seed: int) -> tuple[int, Floats]:
    """How many features are linear in the state, and all features of every row."""
    features = StateFeatures.draw(log.data, WAVES, seed)
    return features.linear, features(log.data.observations)


def target_draws(data: LoggedDataset, policy: TargetPolicy) -> Draws | None:
    """Logged actions in units of a Gaussian target; None where it is not Gaussian."""
    z = target_score(data, policy)
    if z is None or not isinstance(policy, GaussianPolicy):
        return None
    return Draws(z, *policy.clipped(data.actions))


def target_score(data: LoggedDataset, policy: TargetPolicy) -> Floats | None:
    """(a - m_π)/σ_π, before squashing; None where the target is not Gaussian."""
    actions = np.asarray(data.actions, dtype=np.float64)
    if not isinstance(policy, GaussianPolicy):
        return None
    if policy.squash:
        low, high = policy.bounds or (np.array(-1.0), np.array(1.0))
        unit = (2 * actions - low - high) / (high - low)
        actions = np.arctanh(np.clip(unit, -1 + 1e-6, 1 - 1e-6))
    mean, std = policy.moments(data.observations)
    score: Floats = (actions - mean) / std
    return score


def categorical_clone(chance: Floats, actions: Floats, features: Floats, held_out: Bools) -> tuple[Floats, float]:
    """The log-probability of each action under exp(θ_a(s) + β log π(a|s)), θ linear in the features, β free.

    Args:
        chance: the target's probabilities, (n, actions).
        actions: the logged ones.
        features: (n, D), a constant first.
        held_out: rows that only report the fit.
    """
    log_target = torch.from_numpy(np.log(np.maximum(chance, 1e-6)))
    chosen, x = torch.from_numpy(np.array(actions)), torch.from_numpy(features)
    theta = torch.zeros((features.shape[1], chance.shape[1]), dtype=torch.float64, requires_grad=True)
    beta = torch.ones((), dtype=torch.float64, requires_grad=True)
    train = torch.from_numpy(~held_out if (~held_out).any() else held_out)
    optimiser = torch.optim.LBFGS([theta, beta], max_iter=100, line_search_fn="strong_wolfe")

    def log_behaviour() -> torch.Tensor:
        return torch.log_softmax(x @ theta + beta * log_target, dim=1).gather(1, chosen[:, None])[:, 0]

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        total = -log_behaviour()[train].mean() + 1e-3 * theta[1:].square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        fitted = log_behaviour().numpy()
    return fitted, float(fitted[held_out].mean()) if held_out.any() else float("nan")
