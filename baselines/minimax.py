"""Minimax weight and Q learning (Uehara, Huang, Jiang 2020), linear in features, in closed form.

MWL: the ratio w = Φβ that leaves the least imbalance (1-γ)E₀[f] + E[w(γf' - f)] for the worst f of a ball.
MQL: the q = Φθ that leaves the least residual E[f(r + γq' - q)] for the worst f of a ball. The ball is
{Φa: aᵀΛa ≤ 1}, a ball of an RKHS; the worst f gives a norm, and both are least squares with a ridge.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.baselines.linear_family import LinearEstimator, LinearParts, weighed
from ope_vpm.ope.adapter.time_limit import clock_remarks
from ope_vpm.ope.behaviour.action_ratio import known_overlap
from ope_vpm.ope.inference.estimate import RawEstimate, disagreement
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.inference.verdict import Evidence
from ope_vpm.ope.vpm.factored import Equations


class MinimaxWeights(LinearEstimator):
    """Minimax weight learning."""

    name: ClassVar[str] = "mwl"

    def _points(self, parts: LinearParts) -> RawEstimate:
        beta = minimax_weights(parts.equations, parts.ridge)
        ratio, residual = parts.rows.ratios_and_residuals(parts.theta[:, None], beta[:, None])
        return weighed(parts, ratio[:, 0], residual[:, 0])


class MinimaxQ(LinearEstimator):
    """Minimax Q learning."""

    name: ClassVar[str] = "mql"

    def _points(self, parts: LinearParts) -> RawEstimate:
        theta = minimax_q(parts.equations, parts.ridge)
        _, beta = parts.equations.solve(parts.ridge)
        tau, residual = parts.rows.ratios_and_residuals(theta[:, None], beta[:, None])
        sums, error = parts.rows.influence(theta, tau[:, 0], residual[:, 0])
        value, correction = float(parts.equations.source @ theta), float(np.mean(tau[:, 0] * residual[:, 0]))
        return RawEstimate(
            value=value,
            uncertainty=Bootstrap(episodes=sums, suspected_bias=abs(correction)),
            evidence=Evidence(
                overlap=known_overlap(parts.rows.problem),
                disagreement=disagreement(parts.rows.problem.data, abs(correction), error),
                remarks=clock_remarks(parts.rows.problem, known=True),
            ),
            diagnostics={"solver": "linear", "ridge": parts.ridge, "correction": correction},
        )


def minimax_weights(equations: Equations, ridge: float) -> Floats:
    """β: least ‖Λ^-½(c - Aᵀβ)‖² + (ridge·‖Λ^½β‖)²."""
    scale = _scale(equations)
    return _least_squares((equations.matrix / np.outer(scale, scale)).T, equations.source / scale, ridge) / scale


def minimax_q(equations: Equations, ridge: float) -> Floats:
    """θ: least ‖Λ^-½(b - Aθ)‖² + (ridge·‖Λ^½θ‖)²."""
    scale = _scale(equations)
    return _least_squares(equations.matrix / np.outer(scale, scale), equations.reward / scale, ridge) / scale


def _scale(equations: Equations) -> Floats:
    """Λ^½; the constant has 1."""
    scale: Floats = np.sqrt(np.where(equations.scale > 0, equations.scale, 1.0))
    return scale


def _least_squares(matrix: Floats, right: Floats, ridge: float) -> Floats:
    penalty = np.full(len(right), ridge)
    penalty[0] = 1e-8  # the constant is free
    stacked = np.vstack([matrix, np.diag(penalty)])
    answer: Floats = np.linalg.lstsq(stacked, np.concatenate([right, np.zeros_like(right)]), rcond=None)[0]
    return answer
