"""Control variates from the known target: functions of the action whose mean under π is 0 in every state.

For τ = w(s)·π/b, E[τ·g(s, a)] = 0 whatever w is, if E_π[g(s, ·)] = 0. So g may be subtracted from the residual
r - Δθ, whose mean given (s, a) is the advantage A(s, a); with g near A the noise of the logged actions goes away,
and with it what an error in b̂ does, to first order. g is linear in centred action features times [1, s], fitted
on the other half of the episodes, so that nothing is explained by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from scipy.stats import norm

from ope_vpm.chain.transitions import chunks
from ope_vpm.logged.columns import Array, Floats, Integers
from ope_vpm.ope.action_ratio import target_score
from ope_vpm.ope.features import StateFeatures
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import GaussianPolicy

ROWS = 1 << 14
RIDGE = 1e-3
"""In units of the features' mean squares."""


def fitted_advantage(
    problem: Problem, features: StateFeatures, rows: Integers, weight: Floats, residual: Floats
) -> Floats:
    """The values of g at some logged rows, like `residual`, (rows, columns); zeros if the target's means are not known.

    Args:
        problem: the question.
        features: of the states; their linear part is used.
        rows: logged rows.
        weight: how much each of them counts in the fit, ρ̂.
        residual: what to explain, some columns at once.
    """
    centred = centred_actions(problem)
    if centred is None:
        return np.zeros_like(residual)

    def design(part: slice) -> Floats:
        state = np.column_stack([np.ones(len(rows[part])), features.points(problem.data.observations[rows[part]])])
        products: Floats = np.einsum("ni,nj->nij", centred[rows[part]], state).reshape(len(state), -1)
        return products

    half = problem.data.episode[rows] % 2
    coefficients = [_regress(design, half != side, weight, residual) for side in (0, 1)]
    fitted = np.empty_like(residual)
    for part in chunks(len(rows), ROWS):
        here = design(part)
        fitted[part] = np.where(half[part, None] == 0, here @ coefficients[0], here @ coefficients[1])
    return fitted


def centred_actions(problem: Problem) -> Floats | None:
    """Functions of each logged action, less their means under the target in that state; None where unknown.

    Discrete: 1[a = j] - π(j|s). Gaussian: z and z² less their means, z = (a - m_π)/σ_π, clipped as the policy
    clips.
    """
    data, policy = problem.data, problem.policy
    if data.discrete_actions:
        chance = policy.probabilities(data.observations)
        return np.asarray(np.eye(chance.shape[1])[data.actions] - chance)
    z = target_score(problem)
    if z is None or not isinstance(policy, GaussianPolicy):
        return None
    low, high = np.full(z.shape, -np.inf), np.full(z.shape, np.inf)
    if policy.bounds is not None and not policy.squash:
        mean, std = policy.moments(data.observations)
        low, high = (policy.bounds[0] - mean) / std, (policy.bounds[1] - mean) / std
    first, second = clipped_moments(low, high)
    return np.hstack([z - first, (z**2 - second) / np.sqrt(2)])


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


def _regress(design: Any, train: npt.NDArray[np.bool_], weight: Floats, residual: Floats) -> Floats:
    """Weighted ridge regression on some rows, (features, columns)."""
    gram: Array = np.zeros((0, 0))
    cross: Array = np.zeros((0, 0))
    total = 0.0
    for part in chunks(len(residual), ROWS):
        here, counts = design(part), weight[part] * train[part]
        weighted = here * counts[:, None]
        gram = weighted.T @ here if gram.size == 0 else gram + weighted.T @ here
        cross = weighted.T @ residual[part] if cross.size == 0 else cross + weighted.T @ residual[part]
        total += float(counts.sum())
    scale = np.diag(gram)
    penalty = RIDGE * scale + 1e-12 * max(total, 1.0)
    answer: Floats = solve(gram + np.diag(penalty), cross, assume_a="pos")
    return answer
