"""The estimator that chooses: from the data and the policy alone, with its reasons in the diagnostics.

Finite states and actions: vpm, whose fixed point is the exact solution of the counted model and which predicts the
values of unseen pairs. Points: dr, LSTD-Q corrected by vpm's ratio; without overlap fqe, for a ratio that hardly exists
corrects nothing. It is then combined with the closed forms (vpm, LSTD-Q) and the two controls (the logged
mean, the one-step ratio) by `blend`: near on-policy the logged mean has the least variance, and where it is biased its
distance shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.baselines.blend import blend, blended_sums
from ope_vpm.ope.action_ratio import action_ratio
from ope_vpm.ope.conclude import Found
from ope_vpm.ope.estimator import ProblemEstimator, make
from ope_vpm.ope.intervals import EpisodeSums
from ope_vpm.ope.problem import Problem

LEAST_OVERLAP = 0.3
"""Below it the verdicts call ratios unreliable."""


@dataclass(frozen=True, kw_only=True)
class Auto(ProblemEstimator):
    """Choose by the kind of data and the overlap; combine where that has the smaller expected error."""

    name: ClassVar[str] = "auto"

    combine: bool = True
    """Points: whether to blend with closed forms and controls."""
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
        if name == "vpm":
            found = self._one("vpm", problem)
            return replace(found, diagnostics={**found.diagnostics, "chosen": "vpm", "why": (reason,)})
        anchor = self._one(name, problem)
        if not self.combine or anchor.sums is None or problem.data.n_episodes < 2:
            return replace(anchor, diagnostics={**anchor.diagnostics, "chosen": name, "why": (reason,)})
        return self._combined(problem, name, anchor, reason)

    def choose(self, problem: Problem) -> tuple[str, str]:
        """The estimator to begin with, and why."""
        if problem.data.finite and problem.data.discrete_actions:
            return "vpm", "finite states and actions: counted and solved exactly"
        if not problem.policy.has_log_prob:
            return "dr", "points, and a policy without densities: LSTD-Q, corrected by its own ratio"
        overlap = action_ratio(problem).overlap
        if overlap < LEAST_OVERLAP:
            return "fqe", f"points with little overlap ({overlap:.0%}): Q by networks, no ratios"
        return "dr", f"points with overlap ({overlap:.0%}): LSTD-Q, corrected by vpm's ratio"

    def _one(self, name: str, problem: Problem) -> Found:
        features = {"n_features": self.n_features}
        options: dict[str, dict[str, Any]] = {"dr": features, "fqe": features | {"training_steps": self.training_steps}}
        if name == "linear":
            return _find("fqe", {"solver": "linear", "n_features": self.n_features}, problem)
        if name == "vpm" and not (problem.data.finite and problem.data.discrete_actions):
            return _find("vpm", {"n_features": self.n_features}, problem)
        return _find(name, options.get(name, {}), problem)

    def _combined(self, problem: Problem, name: str, anchor: Found, reason: str) -> Found:
        others = ["linear", "naive"] + (["vpm", "onestep"] if name == "dr" and problem.policy.has_log_prob else [])
        candidates = {name: anchor} | {other: self._one(other, problem) for other in others}
        usable = {key: each for key, each in candidates.items() if np.isfinite(each.value) and each.sums is not None}
        sums = [each.sums for each in usable.values() if isinstance(each.sums, EpisodeSums)]
        values = np.array([each.value for each in usable.values()])
        mixed = blend(values, np.stack([each.influence for each in sums], axis=1), anchor=0)
        shares = {
            key: round(float(share), 3) for key, share in zip(usable, mixed.weights, strict=True) if share > 0.001
        }
        return replace(
            anchor,
            value=mixed.value,
            sums=blended_sums(sums, mixed.weights),
            bias=float(np.hypot(anchor.bias, mixed.bias)),
            diagnostics={
                **anchor.diagnostics,
                "chosen": name,
                "why": (reason, "combined for the least variance plus squared distance from " + name),
                "shares": shares,
                "candidates": {key: each.value for key, each in candidates.items()},
            },
        )


def _find(name: str, options: dict[str, Any], problem: Problem) -> Found:
    estimator = make(name, options)
    assert isinstance(estimator, ProblemEstimator)
    return estimator.find(problem)
