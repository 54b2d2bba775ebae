"""Ratio methods linear in features share this: the DICE family, minimax weight learning and minimax Q learning.

Finite pairs: with a free number for every pair each of them has the same solution, whatever its regularisation. The
flow constraint determines the ratio, and the Bellman equation determines Q. So they are solved exactly, as the counted
model is, and agree with it. They differ where functions are approximated, on continuous states.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.estimator import FeatureEstimator
from ope_vpm.ope.finite.estimate import counted_estimate
from ope_vpm.ope.inference.doubts import DISAGREEMENT, remarks
from ope_vpm.ope.inference.estimate import RawEstimate, doubts_of_actions, doubts_of_weights, value_or_nan
from ope_vpm.ope.inference.returns import UNKNOWN, reaches_ends, return_estimate
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.linear.doubts import Rows
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.linear.estimate import LinearEstimate
from ope_vpm.ope.linear.resting import with_linear_doubt
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.linear import find_lstd


@dataclass(frozen=True, kw_only=True)
class RatioEstimator(FeatureEstimator):
    """The settings and the finite solution of these methods."""

    counts_parts: ClassVar[bool] = True

    n_features: int | None = 200
    """On continuous states half as many as vpm has: a saddle point is a system of twice the size."""

    def find(self, problem: Problem) -> RawEstimate:
        """Solve finite pairs exactly, and others in the span of LSTD-Q's features, with its ridge."""
        if problem.finite:
            return counted_estimate(problem)
        # No Fourier features for the action: LSTD-Q's ridge, which is taken here, is too small for so many columns.
        return self.find_linear(find_lstd(problem, self.n_features, self.ridge, self.draws, fourier=0))

    @abstractmethod
    def find_linear(self, lstd: LinearEstimate) -> RawEstimate:
        """The estimate in the span of the features.

        Args:
            lstd: LSTD-Q: its equations and ridge, and a Q for the influence function.
        """


def end_mass(equations: PairEquations) -> Floats:
    """How much time each row's ratio stands for: an absorbed end goes on for ever, γ/(1-γ) of its last row's time."""
    problem, ended = equations.problem, equations.rows.states.ended
    if problem.on_end == "restart":
        return np.ones(len(ended))
    return np.where(ended, 1 / (1 - problem.gamma), 1.0)


def ratio_estimate(
    lstd: LinearEstimate, zeta: Floats, solver: str = "linear", cautions: tuple[str, ...] = ()
) -> RawEstimate:
    """The value Σ ζr / Σ ζ of a ratio ζ, the time after ends included in the sum below.

    The interval is that of ζ times the Bellman residual of LSTD-Q; how far LSTD-Q's own value lies is a suspected bias.

    Args:
        lstd: LSTD-Q.
        zeta: the ratio at each row of its equations.
        solver: its name, for the record.
        cautions: sentences by which the method asks for caution.
    """
    equations = lstd.equations
    problem, pairs = equations.problem, equations.rows
    weights, total = pairs.by_logged_row(zeta), float(zeta @ end_mass(equations))
    value = value_or_nan(float(zeta @ pairs.rewards) / total if total else 0.0, zeta)
    tau = zeta * len(zeta) / total if total else zeta
    _, residual = equations.apply(lstd.theta, lstd.theta)
    sums = equations.influence(tau, residual, lstd.theta)
    distance = abs(value - lstd.value)
    found = RawEstimate(
        value=value,
        uncertainty=Bootstrap(episodes=sums),
        weights=weights,
        doubts=(
            *doubts_of_weights(problem.data, weights),
            *doubts_of_actions(problem),
            *DISAGREEMENT.suspects(distance),
            *remarks((*cautions, *clock_remarks(problem.data, problem.time_limit, known=True))),
        ),
        diagnostics={
            "mean_ratio": total / len(zeta),
            "solver": solver,
            "ridge": lstd.ridge,
            "dropped": len(problem.data) - len(pairs),
        },
    )
    rows = Rows(tau, residual)
    if not problem.episodic:
        return with_linear_doubt(lstd, found, rows)
    known = None if lstd.per_episode is None else lstd.per_episode.residual
    found = _with_return(lstd, found, tau)
    return with_linear_doubt(lstd, found, rows, None if known is None else Rows(tau, known))


def _with_return(lstd: LinearEstimate, found: RawEstimate, tau: Floats) -> RawEstimate:
    """The estimate with the return of an episode, Σ ζr / Σ ζ·1[the task ends here].

    As for the value, the interval takes LSTD-Q's Bellman residual, here that of its return.

    Args:
        lstd: LSTD-Q.
        found: the estimate of the value.
        tau: the ratio at each row of its equations, of mean 1.
    """
    equations, known = lstd.equations, lstd.per_episode
    problem = equations.problem
    rate = float(tau @ equations.rows.states.ended) / len(tau)
    if known is None or known.residual is None or not reaches_ends(problem, rate):
        return replace(found, per_episode=UNKNOWN)
    value = found.value / rate
    sums, distance = equations.influence(tau, known.residual, known.theta), abs(value - known.value)
    own = EpisodeSums.of_influence(value, sums.influence)
    per_episode = return_estimate(found, value, own, rate).doubted(DISAGREEMENT.suspects(distance))
    return replace(found, per_episode=per_episode)
