"""The action ratio π/b̂ alone: right where states are visited alike, the second control in every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ope_vpm.ope.authoring import Bootstrap, Problem, ProblemEstimator, RawEstimate, evidence_of_weights
from ope_vpm.ope.behaviour.action_ratio import CAP, ActionRatio, action_ratio
from ope_vpm.ope.behaviour.source import Behaviour, Cloned, check_behaviour, source_of
from ope_vpm.ope.inference.logged_mean import time_weights, weighted_sums
from ope_vpm.ope.inference.returns import with_weighted_return
from ope_vpm.ope.inference.value import value_or_nan


@dataclass(frozen=True, kw_only=True)
class OneStep(ProblemEstimator):
    """Σ ρ r / Σ ρ with ρ = π/b̂, capped; below γ = 1 also weighted by γ^t."""

    name: ClassVar[str] = "onestep"

    behaviour: Behaviour = "cloned"
    """"cloned" (finite states: counts; continuous ones: around the target, as in vpm), "logged", or a known policy."""
    cap: float = CAP
    """Of the ratio once it is scaled to mean 1."""

    def check(self, problem: Problem) -> None:
        """The target needs densities, and the behaviour must be there as it is asked for."""
        check_behaviour(self.name, problem, self.behaviour)

    def find(self, problem: Problem) -> RawEstimate:
        """One ratio of sums."""
        action = self._ratio(problem)
        by_time, tail = time_weights(problem)
        weights = by_time * np.minimum(action.ratio, self.cap)
        sums = weighted_sums(problem, weights, tail)
        evidence = evidence_of_weights(
            problem.data,
            weights,
            overlap=min(action.overlap, 1.0),
            remarks=("the action ratio alone ignores that the target visits other states",),
        )
        fit = {"behaviour_held_out_log_likelihood": action.held_out_log_likelihood}
        found = RawEstimate(
            value=value_or_nan(sums.ratios[0], weights),
            uncertainty=Bootstrap(episodes=sums),
            weights=weights,
            evidence=evidence,
            diagnostics=fit,
        )
        return with_weighted_return(problem, found) if problem.episodic else found

    def _ratio(self, problem: Problem) -> ActionRatio:
        source = source_of(self.behaviour, problem.data)
        if source == Cloned() and not problem.finite:
            return action_ratio(problem)
        behaviour = source.log_prob(problem)
        return ActionRatio.of_logs(
            problem.target_log_prob - behaviour.log_prob, behaviour.held_out_log_likelihood, self.cap
        )
