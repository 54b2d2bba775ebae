"""A clone of discrete actions around the target: b̂(a|s) ∝ exp(θ_a(s) + β·log π(a|s)), π itself for θ = 0, β = 1."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_softmax

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.logged import LoggedDataset
from ope_vpm.policy import TargetPolicy

LEAST_PROBABILITY = 1e-6
"""The target's least probability before its logarithm is a regressor: actions that it never takes must not have an
infinite one."""
PENALTY = 1e-3
"""Times θ² in the mean log-likelihood, the constant excepted: with as many features as states nothing else bounds θ."""
MINIMISED = {"maxiter": 100, "maxcor": 20, "gtol": 1e-9, "ftol": 1e-15}
"""Options of L-BFGS: the problem is convex, and about twenty steps bring 200 parameters to this tolerance."""
LARGEST_CURVATURE, SMALLEST_CURVATURE = 0.25, 1e-9
"""Curvatures of -log softmax along one action: p(1 - p) at most. And what keeps features that are 0 everywhere
invertible."""


@dataclass(frozen=True)
class CategoricalClone:
    """The clone b̂(a|s) ∝ exp(θ_a(s) + β·log π(a|s)), with θ linear in features of the state."""

    theta: Floats
    """(D, actions)."""
    beta: float
    held_out_log_likelihood: float

    def log_prob(self, probabilities: Floats, actions: Integers, features: Floats) -> Floats:
        """(n,): of the logged actions; arguments as in `fit_categorical`."""
        return _chosen(self.log_probabilities(probabilities, features), actions)

    def log_ratio(self, data: LoggedDataset, policy: TargetPolicy, features: Floats) -> Floats:
        """(n,): log π - log b̂ of the logged actions."""
        logs = self.log_prob(policy.probabilities(data.observations), data.actions, features)
        return policy.log_likelihood(data.observations, data.actions) - logs

    def log_probabilities(self, probabilities: Floats, features: Floats) -> Floats:
        """(n, actions): of every action."""
        return log_softmax(features @ self.theta + self.beta * _log_target(probabilities), axis=1)


def _log_target(probabilities: Floats) -> Floats:
    return np.log(np.maximum(probabilities, LEAST_PROBABILITY))


def _chosen(logs: Floats, actions: Integers) -> Floats:
    return np.take_along_axis(logs, actions[:, None], axis=1)[:, 0]


def fit_categorical(probabilities: Floats, actions: Integers, features: Floats, held_out: Bools) -> CategoricalClone:
    """The clone b̂(a|s) ∝ exp(θ_a(s) + β·log π(a|s)), with θ linear in the features, and β free.

    Args:
        probabilities: the target's, (n, actions).
        actions: the logged ones.
        features: (n, D), a constant first.
        held_out: rows that only report the fit.
    """
    from scipy.optimize import minimize  # imported here: it takes long, and few need it

    train = ~held_out if (~held_out).any() else held_out
    x, log_target, chosen = features[train], _log_target(probabilities)[train], actions[train]
    rows, size, number = np.arange(len(x)), features.shape[1], probabilities.shape[1]
    penalty = np.full((size, 1), 2 * PENALTY)
    penalty[0] = 0
    # Coordinates in which the curvature of the loss is about the same everywhere: θ = units·φ. Features that are nearly
    # linear in each other would otherwise take L-BFGS several times as many steps.
    curvature = LARGEST_CURVATURE * x.T @ x / len(x) + np.diag(penalty[:, 0] + SMALLEST_CURVATURE)
    units = solve_triangular(np.linalg.cholesky(curvature), np.eye(size), lower=True).T
    seen = x @ units

    def loss(parameters: Floats) -> tuple[float, Floats]:
        """The penalised mean of -log b̂ at (φ, β), and its gradient."""
        phi, beta = parameters[:-1].reshape(size, number), parameters[-1]
        logs, theta = log_softmax(seen @ phi + beta * log_target, axis=1), units @ phi
        surplus = np.exp(logs)
        surplus[rows, chosen] -= 1
        surplus /= len(x)
        slope = seen.T @ surplus + units.T @ (penalty * theta)
        value = float(np.sum(penalty * theta**2) / 2 - logs[rows, chosen].mean())
        return value, np.append(slope, np.sum(surplus * log_target))

    start = np.append(np.zeros(size * number), 1.0)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=MINIMISED).x
    clone = CategoricalClone(units @ found[:-1].reshape(size, number), float(found[-1]), float("nan"))
    if not held_out.any():
        return clone
    fitted = clone.log_prob(probabilities[held_out], actions[held_out], features[held_out])
    return replace(clone, held_out_log_likelihood=float(fitted.mean()))
