"""Minimax Q learning (Uehara, Huang, Jiang 2020), linear in features, in closed form.

Q = Φθ leaves the least Bellman residual E[f(r + γQ' - Q)] for the worst f of the ball {Φa: aᵀΛa ≤ 1} of an RKHS. The
worst f gives a norm of E[Φr] - Aθ, so that θ is a least-squares solution.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.linear.system import LinearSystem
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.authoring import Bootstrap, RawEstimate
from ope_vpm.ope.behaviour.action_ratio import known_overlap
from ope_vpm.ope.inference.doubts import DISAGREEMENT, OVERLAP, remarks
from ope_vpm.ope.inference.estimate import disagreement
from ope_vpm.ope.linear.estimate import LinearEstimate, PairEquations
from ope_vpm.ope.linear.sensitivity import Rows, with_linear_doubt
from ope_vpm.ope.ratio.estimator import RatioEstimator
from ope_vpm.ope.ratio.least_squares import scaled_least_squares


class MinimaxQ(RatioEstimator):
    """Minimax Q learning."""

    name: ClassVar[str] = "mql"

    def find_linear(self, equations: PairEquations, lstd: LinearEstimate) -> RawEstimate:
        """The value of the minimax Q.

        The interval is that of its Bellman residual, weighted by the ratio of LSTD-Q's system; what that ratio would
        correct is a suspected bias.
        """
        problem, system = equations.problem, equations.system
        theta = minimax_q(system, lstd.ridge)
        _, beta = system.solve(lstd.ridge)
        tau, residual = equations.apply(beta, theta)
        sums = equations.influence(tau, residual, theta)
        correction = float(np.mean(tau * residual))
        found = RawEstimate(
            value=float(system.source @ theta),
            uncertainty=Bootstrap(episodes=sums, suspected_bias=abs(correction)),
            doubts=(
                *OVERLAP.of(known_overlap(problem)),
                *DISAGREEMENT.of(disagreement(problem.data, abs(correction), sums.standard_error)),
                *remarks(clock_remarks(problem.data, problem.time_limit, known=True)),
            ),
            diagnostics={"solver": "linear", "ridge": lstd.ridge, "correction": correction},
        )
        return with_linear_doubt(equations, lstd, found, Rows(tau, residual))


def minimax_q(system: LinearSystem, ridge: float) -> Floats:
    """The θ with the least ‖Λ^-½(E[Φr] - Aθ)‖² + (ridge·‖Λ^½θ‖)²."""
    return scaled_least_squares(system.matrix, system.reward, system.scale, ridge)
