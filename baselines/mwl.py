"""Minimax weight learning (Uehara, Huang, Jiang 2020), linear in features, in closed form.

The ratio w = Φβ leaves the least imbalance of flow, (1-γ)E₀[f] + E[w(γf' - f)], for the worst f of the ball
{Φa: aᵀΛa ≤ 1} of an RKHS. The worst f gives a norm of the imbalance c - Aᵀβ, so that β is a least-squares solution.
"""

from __future__ import annotations

from typing import ClassVar

from ope_vpm.arrays import Floats
from ope_vpm.linear.system import LinearSystem
from ope_vpm.ope.authoring import RawEstimate
from ope_vpm.ope.linear.estimate import LinearEstimate, PairEquations
from ope_vpm.ope.ratio.estimator import RatioEstimator, ratio_estimate
from ope_vpm.ope.ratio.least_squares import scaled_least_squares


class MinimaxWeights(RatioEstimator):
    """Minimax weight learning."""

    name: ClassVar[str] = "mwl"

    def find_linear(self, equations: PairEquations, lstd: LinearEstimate) -> RawEstimate:
        """The minimax ratio; its value and interval as `ratio_estimate` has them."""
        beta = minimax_weights(equations.system, lstd.ridge)
        ratio, _ = equations.apply(beta, lstd.theta)
        return ratio_estimate(equations, lstd, ratio)


def minimax_weights(system: LinearSystem, ridge: float) -> Floats:
    """The β with the least ‖Λ^-½(c - Aᵀβ)‖² + (ridge·‖Λ^½β‖)²."""
    return scaled_least_squares(system.matrix.T, system.source, system.scale, ridge)
