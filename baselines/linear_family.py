"""What ratio methods linear in features share: the DICE family, minimax weight learning and minimax Q learning.

Finite pairs: with a free number for every pair each of them has the same solution, whatever its regularisation. The
flow constraint determines ζ, which is d/p; the Bellman equation determines ν. So they are solved as the counted model
is, exactly, and agree with it. They differ where functions are approximated: points.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.time_limit import clock_remarks
from ope_vpm.ope.behaviour.action_ratio import known_overlap
from ope_vpm.ope.estimator import ProblemEstimator, check_positive, check_ridge
from ope_vpm.ope.finite.estimate import counted_estimate
from ope_vpm.ope.inference.estimate import RawEstimate, disagreement, evidence_of_weights, value_or_nan
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.factored import RIDGES, Equations, Rows, solve_grid


@dataclass(frozen=True)
class LinearParts:
    """Rows of pair features, their equations, and LSTD-Q's solution, which gives the ridge and the interval."""

    rows: Rows
    equations: Equations
    ridge: float
    theta: Floats


@dataclass(frozen=True, kw_only=True)
class LinearEstimator(ProblemEstimator):
    """What the DICE family and the minimax methods share."""

    n_features: int = 200
    """Random features of the state, for points."""
    ridge: float | None = None
    """None: the one that LSTD-Q's standard errors choose, as in vpm."""
    draws: int = 8
    """Target actions a state where the policy's mean action is not known otherwise."""

    def __post_init__(self) -> None:
        check_positive(self, "n_features", "draws")
        check_ridge(self.ridge)

    def find(self, problem: Problem) -> RawEstimate:
        """By the kind of data."""
        if problem.finite:
            return counted_estimate(problem)
        return self._points(problem.shared(_linear_parts, self.n_features, self.ridge, self.draws))

    @abstractmethod
    def _points(self, parts: LinearParts) -> RawEstimate:
        """Find the ratio, or Q, of points."""


def _linear_parts(problem: Problem, n_features: int, ridge: float | None, draws: int) -> LinearParts:
    rows = Rows.draw(problem, n_features, draws)
    equations = rows.equations()
    if ridge is None:
        ridge = RIDGES[solve_grid(rows, equations, RIDGES, None).chosen]
    return LinearParts(rows, equations, ridge, equations.solve(ridge)[0])


def end_mass(rows: Rows) -> Floats:
    """By how much each row stands for more than itself: an absorbed end carries γ/(1-γ) of its last row's mass."""
    gamma = rows.problem.gamma
    if rows.restarts or gamma == 1:
        return np.ones(len(rows.kept))
    return np.where(rows.ended, 1 / (1 - gamma), 1.0)


def weighed(parts: LinearParts, zeta: Floats, residual: Floats, remarks: tuple[str, ...] = ()) -> RawEstimate:
    """Σ ζr over Σ ζ, ends included; the interval is that of ζ·(Bellman residual of LSTD-Q)."""
    rows, problem = parts.rows, parts.rows.problem
    weights = np.zeros(len(problem.data))
    weights[rows.kept] = zeta
    total = float(zeta @ end_mass(rows))
    value = value_or_nan(float(zeta @ problem.data.rewards[rows.kept]) / total if total else 0.0, zeta)
    sums, error = rows.influence(parts.theta, zeta * len(zeta) / total if total else zeta, residual)
    lstd = float(parts.equations.source @ parts.theta)
    return RawEstimate(
        value=value,
        uncertainty=Bootstrap(episodes=sums, suspected_bias=abs(value - lstd)),
        weights=weights,
        evidence=evidence_of_weights(
            problem.data,
            weights,
            mean_ratio=total / len(zeta),
            overlap=known_overlap(problem),
            disagreement=disagreement(problem.data, abs(value - lstd), error),
            remarks=(*remarks, *clock_remarks(problem, known=True)),
        ),
        diagnostics={"solver": "linear", "ridge": parts.ridge, "dropped": problem.steps.dropped},
    )
