"""The estimator that chooses: from the data and the policy alone, with its reasons in the diagnostics.

Finite states and actions: vpm, whose fixed point is the exact solution of the counted model and which predicts the
values of unseen pairs. Points: the same linear equations with the action ratio and without it, vpm and LSTD-Q, combined
by `blend`; where the log holds too little of what the target does, networks instead of the ratio. The logged mean joins
at last: near on-policy nothing has less variance, and where it is biased its distance shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.auto.blend import blend
from ope_vpm.ope.behaviour.action_ratio import action_ratio
from ope_vpm.ope.estimator import ProblemEstimator, make
from ope_vpm.ope.inference.conclude import Found
from ope_vpm.ope.inference.intervals import EpisodeSums
from ope_vpm.ope.problem import Problem

LEAST_OVERLAP = 0.3
"""Below it the verdicts call ratios unreliable."""
TRUST = 3.0
"""Of the logged mean, see `blend`. Chosen on logs with seeds from 100, of 1 to 6."""


@dataclass(frozen=True, kw_only=True)
class Auto(ProblemEstimator):
    """Choose by the kind of data and the overlap; combine where that has the smaller expected error."""

    name: ClassVar[str] = "auto"

    combine: bool = True
    """Points: whether to combine; otherwise the first choice alone."""
    training_steps: int = 2000
    """Of each network, for points without overlap."""
    n_features: int = 400
    """Random features of the state, for points."""

    def __post_init__(self) -> None:
        if self.training_steps < 1 or self.n_features < 1:
            raise ValueError(f"steps and features must be positive: got {self.training_steps} and {self.n_features}")

    def find(self, problem: Problem) -> Found:
        """Choose, solve, combine."""
        name, reason = self.choose(problem)
        first = self._one(name, problem)
        notes: dict[str, Any] = {"chosen": name, "why": (reason,)}
        if problem.finite or not self.combine or problem.data.n_episodes < 2:
            return replace(first, diagnostics={**first.diagnostics, **notes})
        found, shares, values = first, {name: 1.0}, {name: first.value}
        for other, trust in (("lstd-q", 1.0), ("naive", TRUST)):
            if other == name:
                continue
            one = self._one(other, problem)
            values[other] = one.value
            if np.isfinite(one.value) and isinstance(one.sums, EpisodeSums) and isinstance(found.sums, EpisodeSums):
                mixed = blend([found.value, one.value], [found.sums, one.sums], trust)
                kept, share = (float(weight) for weight in mixed.weights)
                shares = {key: kept * each for key, each in shares.items()} | {other: share}
                bias = float(np.hypot(found.bias, mixed.bias))
                weights = _mixed_weights(found.weights, one.weights, share)
                found = replace(found, value=mixed.value, sums=mixed.sums, bias=bias, weights=weights)
        notes["why"] = (reason, "combined for the least variance plus squared distance")
        notes |= {"shares": {key: round(share, 3) for key, share in shares.items()}, "candidates": values}
        return replace(found, diagnostics={**first.diagnostics, **notes})

    def choose(self, problem: Problem) -> tuple[str, str]:
        """The estimator to begin with, and why."""
        if problem.finite:
            return "vpm", "finite states and actions: counted and solved exactly"
        if not problem.policy.has_log_prob:
            return "lstd-q", "points, and a policy without densities: Q in closed form, no ratios"
        overlap = action_ratio(problem).overlap
        if overlap < LEAST_OVERLAP:
            return "fqe", f"points with little overlap ({overlap:.0%}): Q by networks, no ratios"
        return "vpm", f"points with overlap ({overlap:.0%}): vpm in closed form"

    def _one(self, name: str, problem: Problem) -> Found:
        features = {} if problem.finite else {"n_features": self.n_features}
        known: dict[str, tuple[str, dict[str, Any]]] = {
            "vpm": ("vpm", features),
            "lstd-q": ("fqe", features | {"solver": "linear"}),
            "fqe": ("fqe", features | {"training_steps": self.training_steps}),
            "naive": ("naive", {}),
        }
        estimator = make(*known[name])
        assert isinstance(estimator, ProblemEstimator)
        return estimator.find(problem)


def _mixed_weights(one: Floats | None, other: Floats | None, share: float) -> Floats | None:
    """Weights of rows, each scaled to mean 1."""
    if one is None or other is None:
        return None
    mixed: Floats = (1 - share) * one / one.mean() + share * other / other.mean()
    return mixed
