"""The estimator that chooses: from the data and the policy alone, with its reasons in the diagnostics.

Finite states and actions: vpm, whose fixed point is the exact solution of the counted model and which predicts the
values of unseen pairs, drawn towards the logged mean where much is unseen. Continuous states: the same linear equations
with the action ratio and without it, vpm and LSTD-Q, combined by `blend`; where the log holds too little of what the
target does, networks instead of the ratio. The logged mean joins last: near on-policy nothing has less variance, and
where it is biased its distance shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.auto.blend import blend
from ope_vpm.ope.behaviour.action_ratio import action_ratio
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.finite.shrinkage import towards_logged_mean
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.inference.value import RawEstimate
from ope_vpm.ope.linear.sensitivity import with_feature_doubt
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.fitted import Networks, fitted_q
from ope_vpm.ope.q.linear import find_lstd, lstd_equations
from ope_vpm.ope.vpm.estimator import VPMEstimator

LEAST_OVERLAP = 0.3
"""Below it the verdicts call ratios unreliable."""
TRUST = 3.0
"""How far the logged mean is trusted, see `blend`. Chosen on logs with seeds from 100, of 1 to 6."""
DRAWS = 8
"""Target actions per state where the policy's mean action is not known otherwise."""


@dataclass(frozen=True)
class Candidate:
    """One of the estimators to choose from or to combine."""

    name: str
    find: Callable[[Problem], RawEstimate]
    trust: float = 1.0
    """How many variances of its distance from the others it may have without being taken as biased."""


@dataclass(frozen=True, kw_only=True)
class Auto(ProblemEstimator):
    """Choose by the kind of data and the overlap; combine where that has the smaller expected error."""

    name: ClassVar[str] = "auto"

    combine: bool = True
    """On continuous states, whether to combine; otherwise the first choice alone."""
    training_steps: int = 2000
    """Gradient steps of each network, for continuous states without overlap."""
    n_features: int = 400
    """Random features of the state, for continuous states."""

    def __post_init__(self) -> None:
        if self.training_steps < 1 or self.n_features < 1:
            raise ValueError(f"steps and features must be positive: got {self.training_steps} and {self.n_features}")

    def find(self, problem: Problem) -> RawEstimate:
        """Choose, solve, combine."""
        first, reason = self.choose(problem)
        found = first.find(problem)
        notes: dict[str, Any] = {**found.diagnostics, "chosen": first.name, "why": (reason,)}
        if problem.finite and self.combine and problem.data.n_episodes > 1:
            found, logged = towards_logged_mean(problem, found)
            notes["shares"] = {first.name: round(1 - logged, 3), "naive": round(logged, 3)}
        if problem.finite or not self.combine or problem.data.n_episodes < 2:
            return replace(found, diagnostics=notes)
        shares, values = {first.name: 1.0}, {first.name: found.value}
        for other in (self._lstd, Candidate("naive", logged_mean, TRUST)):
            if other.name == first.name:
                continue
            one = other.find(problem)
            values[other.name] = one.value
            found, share = _joined(found, one, other.trust)
            if share is not None:
                shares = {name: (1 - share) * each for name, each in shares.items()} | {other.name: share}
        notes["why"] = (reason, "combined for the least variance plus squared distance")
        notes |= {"shares": {name: round(share, 3) for name, share in shares.items()}, "candidates": values}
        return replace(found, diagnostics=notes)

    def choose(self, problem: Problem) -> tuple[Candidate, str]:
        """The estimator to begin with, and why."""
        if problem.finite:
            return Candidate("vpm", VPMEstimator().find), "finite states and actions: counted and solved exactly"
        if not problem.policy.has_log_prob:
            return self._doubted_lstd, "continuous states, and a policy without densities: Q in closed form, no ratios"
        overlap = action_ratio(problem).overlap
        if overlap < LEAST_OVERLAP:
            networks = Networks(training_steps=self.training_steps, n_features=self.n_features)
            reason = f"continuous states with little overlap ({overlap:.0%}): Q by networks, no ratios"
            return Candidate("fqe", lambda question: fitted_q(question, networks)), reason
        vpm = VPMEstimator(n_features=self.n_features)
        return Candidate("vpm", vpm.find), f"continuous states with overlap ({overlap:.0%}): vpm in closed form"

    @property
    def _lstd(self) -> Candidate:
        return Candidate("lstd-q", lambda problem: find_lstd(problem, self.n_features, None, DRAWS))

    @property
    def _doubted_lstd(self) -> Candidate:
        """LSTD-Q as the first choice, which has to speak for its features itself."""

        def find(problem: Problem) -> RawEstimate:
            equations = lstd_equations(problem, self.n_features, DRAWS)
            return with_feature_doubt(equations, find_lstd(problem, self.n_features, None, DRAWS), DRAWS)

        return Candidate("lstd-q", find)


def _joined(found: RawEstimate, other: RawEstimate, trust: float) -> tuple[RawEstimate, float | None]:
    """Two estimates combined, and the second one's share; the first alone where they cannot be."""
    if found.sums is None or other.sums is None or not np.isfinite(other.value):
        return found, None
    mixed = blend([found.value, other.value], [found.sums, other.sums], trust)
    share = float(mixed.weights[1])
    bias = float(np.hypot(found.suspected_bias, mixed.bias))
    return replace(
        found,
        value=mixed.value,
        uncertainty=Bootstrap(episodes=mixed.sums, suspected_bias=bias),
        weights=_mixed_weights(found.weights, other.weights, share),
    ), share


def _mixed_weights(one: Floats | None, other: Floats | None, share: float) -> Floats | None:
    """Weights of rows, each scaled to mean 1."""
    if one is None or other is None:
        return None
    mixed: Floats = (1 - share) * one / one.mean() + share * other / other.mean()
    return mixed
