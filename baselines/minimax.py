"""Minimax weight learning and minimax Q learning (Uehara, Huang, Jiang 2020), linear in features, in closed form.

The ratio w = Φβ leaves the least imbalance of flow, (1-γ)E₀[f] + E[w(γf' - f)], for the worst f of the ball
{Φa: aᵀΛa ≤ 1} of an RKHS; Q = Φθ leaves the least Bellman residual E[f(r + γQ' - Q)] for the worst f of that ball. The
worst f gives a norm of c - Aᵀβ, and of E[Φr] - Aθ, so that both are least-squares solutions.
"""

from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.authoring import Bootstrap, RawEstimate
from ope_vpm.ope.inference.doubts import DISAGREEMENT, remarks
from ope_vpm.ope.inference.estimate import doubts_of_actions
from ope_vpm.ope.linear.doubts import Rows
from ope_vpm.ope.linear.estimate import LinearEstimate
from ope_vpm.ope.linear.resting import with_linear_doubt
from ope_vpm.ope.ratio.estimator import RatioEstimator, ratio_estimate

FREE = 1e-8
"""The penalty of the constant, which is free but for rounding."""


class MinimaxWeights(RatioEstimator):
    """Minimax weight learning."""

    name: ClassVar[str] = "mwl"

    def find_linear(self, lstd: LinearEstimate) -> RawEstimate:
        """The minimax ratio; its value and interval as `ratio_estimate` has them."""
        equations, system = lstd.equations, lstd.equations.system
        beta = scaled_least_squares(system.matrix.T, system.source, system.scale, lstd.ridge)
        ratio, _ = equations.apply(beta, lstd.theta)
        return ratio_estimate(lstd, ratio)


class MinimaxQ(RatioEstimator):
    """Minimax Q learning."""

    name: ClassVar[str] = "mql"

    def find_linear(self, lstd: LinearEstimate) -> RawEstimate:
        """The value of the minimax Q.

        The interval is that of its Bellman residual, weighted by the ratio of LSTD-Q's system; what that ratio would
        correct is a suspected bias.
        """
        equations = lstd.equations
        problem, system = equations.problem, equations.system
        level = np.zeros_like(system.reward)
        level[0] = system.reward[0] / system.matrix[0, 0]  # taken out first: rewards far from 0 cost no digits
        rest = system.reward - system.matrix @ level
        theta = level + scaled_least_squares(system.matrix, rest, system.scale, lstd.ridge)
        _, beta = system.solve(lstd.ridge)
        tau, residual = equations.apply(beta, theta)
        sums = equations.influence(tau, residual, theta)
        correction = float(np.mean(tau * residual))
        found = RawEstimate(
            value=float(system.source @ theta),
            uncertainty=Bootstrap(episodes=sums),
            doubts=(
                *doubts_of_actions(problem),
                *DISAGREEMENT.suspects(abs(correction)),
                *remarks(clock_remarks(problem.data, problem.time_limit, known=True)),
            ),
            diagnostics={"solver": "linear", "ridge": lstd.ridge, "correction": correction},
        )
        return with_linear_doubt(lstd, found, Rows(tau, residual))


def scaled_least_squares(matrix: Floats, right: Floats, scale: Floats, ridge: float) -> Floats:
    """The x with the least ‖Λ^-½(right - matrix·x)‖² + (ridge·‖Λ^½x‖)².

    Args:
        matrix: shape (D, D).
        right: shape (D,).
        scale: the diagonal of Λ; the constant, which has 0 there, has 1 here and no ridge.
        ridge: in units in which every feature has mean square 1.
    """
    root = np.sqrt(np.where(scale > 0, scale, 1.0))
    penalty = np.full(len(right), ridge)
    penalty[0] = FREE
    stacked = np.vstack([matrix / np.outer(root, root), np.diag(penalty)])
    answer = np.linalg.lstsq(stacked, np.concatenate([right / root, np.zeros_like(right)]), rcond=None)[0]
    return answer / root
