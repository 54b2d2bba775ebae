"""Fitted Q evaluation: learn what each pair is worth under the target, for any policy that can be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ope_vpm.baselines.fqe_linear import find_lstd
from ope_vpm.baselines.fqe_tabular import find_counted
from ope_vpm.ope.conclude import Found
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem

SOLVERS = ("auto", "tabular", "linear")


@dataclass(frozen=True, kw_only=True)
class FQE(ProblemEstimator):
    """Solve Q = r + γE_π[Q'] on the log; at γ = 1 the differential form, Q = r - v + E_π[Q']."""

    name: ClassVar[str] = "fqe"

    solver: str = "auto"
    """"tabular" (finite pairs: the counted equation, solved exactly), "linear" (LSTD-Q in random features),
    or "auto": tabular for finite pairs, otherwise linear."""
    n_features: int = 400
    """Random features of the state, for "linear"."""
    ridge: float | None = None
    """None: the smallest whose standard error is at most 1.5 times the smallest, as in vpm."""
    draws: int = 8
    """Target actions a state where the policy's mean action is not known otherwise."""

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ValueError(f"unknown solver {self.solver!r}: known are {', '.join(SOLVERS)}")
        if self.draws < 1 or self.n_features < 2:
            raise ValueError(f"draws and n_features must be positive: got {self.draws} and {self.n_features}")

    def check(self, problem: Problem) -> None:
        """Refuse a solver that does not fit the data."""
        finite = problem.data.finite and problem.data.discrete_actions
        if self.solver == "tabular" and not finite:
            raise ValueError("solver 'tabular' needs finite states and actions: use solver='linear'")

    def find(self, problem: Problem) -> Found:
        """By the solver that fits."""
        solver = self.solver
        if solver == "auto":
            solver = "tabular" if problem.data.finite and problem.data.discrete_actions else "linear"
        if solver == "tabular":
            return find_counted(problem)
        return find_lstd(problem, self.n_features, self.ridge, self.draws, None)
