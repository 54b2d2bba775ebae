"""Fitted Q evaluation: learn what each pair is worth under the target, for any policy that can be asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.time_limit import clock_remarks
from ope_vpm.ope.behaviour.action_ratio import known_overlap
from ope_vpm.ope.estimator import ProblemEstimator, check_positive, check_ridge
from ope_vpm.ope.finite.likelihood import likelihood_interval
from ope_vpm.ope.finite.model import find_tabular
from ope_vpm.ope.inference.conclude import Found, disagreement
from ope_vpm.ope.inference.verdict import Evidence
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.linear import find_lstd, linear_base
from ope_vpm.ope.q.networks import fit_networks
from ope_vpm.ope.q.values import influence, spread
from ope_vpm.ope.vpm.estimator import VPMEstimator
from ope_vpm.ope.vpm.factored import Rows

SOLVERS = ("auto", "tabular", "linear", "neural")


@dataclass(frozen=True, kw_only=True)
class FQE(ProblemEstimator):
    """Solve Q = r + γE_π[Q'] on the log; at γ = 1 the differential form, Q = r - v + E_π[Q']."""

    name: ClassVar[str] = "fqe"

    solver: str = "auto"
    """"tabular" (finite pairs: the counted equation, solved exactly), "linear" (LSTD-Q in random features),
    "neural" (networks), or "auto": tabular for finite pairs, otherwise neural."""
    members: int = 2
    """Networks whose answers are averaged."""
    training_steps: int = 2000
    """Of each network."""
    weighted: bool = False
    """Weigh the Bellman regression by vpm's ratio, so that Q is best where the target goes; of no effect on finite
    pairs, whose equation is solved exactly."""
    n_features: int = 400
    """Random features of the state, for "linear"."""
    ridge: float | None = None
    """None: the smallest whose standard error is at most 1.5 times the smallest, as in vpm."""
    interval: str = "bootstrap"
    """Finite pairs may have "likelihood" instead, as in CoinDICE: see `likelihood`."""
    draws: int = 8
    """Target actions a state where the policy's mean action is not known otherwise."""

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ValueError(f"unknown solver {self.solver!r}: known are {', '.join(SOLVERS)}")
        if self.interval not in ("bootstrap", "likelihood"):
            raise ValueError(f"interval must be 'bootstrap' or 'likelihood': got {self.interval!r}")
        check_positive(self, "members", "training_steps", "n_features", "draws")
        check_ridge(self.ridge)

    def check(self, problem: Problem) -> None:
        """Refuse a solver that does not fit the data."""
        if self.solver == "tabular" and not problem.finite:
            raise ValueError("solver 'tabular' needs finite states and actions: use solver='linear' or 'neural'")

        if self.interval == "likelihood" and (
            not problem.finite or (problem.steps.ended and problem.on_end == "restart")
        ):
            raise ValueError("interval='likelihood' needs finite pairs without restarts: use interval='bootstrap'")

    def find(self, problem: Problem) -> Found:
        """By the solver that fits."""
        solver = self.solver
        if solver == "auto":
            solver = "tabular" if problem.finite else "neural"
        if solver == "tabular":
            found = find_tabular(problem, None)  # its value is that of the counted model
            if self.interval == "bootstrap" or problem.data.n_episodes < 2:
                return found
            return replace(found, interval=likelihood_interval(problem))
        weight = vpm_weights(problem, self.n_features) if self.weighted else None
        if solver == "linear":
            return find_lstd(problem, self.n_features, self.ridge, self.draws, weight)
        return self._neural(problem, weight)

    def _neural(self, problem: Problem, weight: Floats | None) -> Found:
        """The networks' value; its interval takes the ratio of the linear form, its bias what that would correct."""
        plan = problem.steps
        whole = np.zeros(problem.data.n_episodes, dtype=np.int64)
        by_step = None if weight is None else weight[plan.rows]
        linear = find_lstd(problem, self.n_features, self.ridge, self.draws)
        rows, ratio = Rows.draw(problem, self.n_features, self.draws, weight), linear.weights
        assert ratio is not None
        base = linear_base(rows, whole, linear.diagnostics["ridge"])
        q = fit_networks(problem, whole, self.members, self.training_steps, self.draws, by_step, base)
        residual = q.residual(problem)
        sums = influence(problem, ratio[plan.rows], residual, q.first)
        correction = float(plan.weight @ (ratio[plan.rows] * residual) / plan.weight.sum())
        error = spread(sums)
        return Found(
            value=q.value(problem),
            sums=sums,
            bias=abs(correction),
            evidence=Evidence(
                overlap=known_overlap(problem),
                disagreement=disagreement(problem, abs(correction), error),
                remarks=clock_remarks(problem, known=True),
            ),
            diagnostics={"solver": "neural", "correction": correction, "dropped": plan.dropped, "ended": plan.ended},
        )


def vpm_weights(problem: Problem, n_features: int) -> Floats:
    """The ratio of vpm at each row, cut at 0."""
    options: dict[str, Any] = {"n_features": n_features} if problem.policy.has_log_prob and not problem.finite else {}
    weights = VPMEstimator(**options).find(problem).weights
    assert weights is not None
    return np.maximum(weights, 0)
