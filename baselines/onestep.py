"""The action ratio π/b̂ alone: right where states are visited alike, the second control in every table."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.baselines.importance_sampling import ActionRatios
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.given import Behaviour
from ope_vpm.ope.authoring import Problem, RawEstimate
from ope_vpm.ope.behaviour.action_ratio import CAP, ActionRatio, RatioModel, action_ratio, ratio_model
from ope_vpm.ope.behaviour.clone import asked_behaviour, behaviour_log_prob
from ope_vpm.ope.estimator import NEEDS_ROWS
from ope_vpm.ope.inference.doubts import remarks
from ope_vpm.ope.inference.estimate import OVERLAP, doubts_of_sums, unsupported, value_or_nan
from ope_vpm.ope.inference.logged_mean import RewardSums, reward_sums, streamed_sums, time_weights, weighted_estimate
from ope_vpm.policy import TargetPolicy


@dataclass(frozen=True)
class Capped:
    """π/b̂ as weights of rows, capped."""

    model: RatioModel
    cap: float

    def __call__(self, data: LoggedDataset, policy: TargetPolicy) -> Floats:
        """(n,): the weight of each row."""
        return self.model.ratio(data, policy, self.cap)


@dataclass(frozen=True, kw_only=True)
class OneStep(ActionRatios):
    """Σ ρ r / Σ ρ with ρ = π/b̂, capped; below γ = 1 also weighted by γ^t."""

    name: ClassVar[str] = "onestep"
    follows_states: ClassVar[bool] = False
    streams: ClassVar[bool] = True

    behaviour: Behaviour = None
    """"cloned" (finite states: counts; continuous ones: around the target, as in vpm), "logged" or the policy that
    acted; None: as the question says."""
    cap: float = CAP
    """The largest ratio, once it is scaled to mean 1."""

    def check(self, problem: Problem) -> None:
        """The target needs densities, and the behaviour must be there as it is asked for."""
        if problem.streamed and not (self.behaviour is None or asked_behaviour(problem, self.behaviour) == "cloned"):
            raise ValueError(f"onestep with behaviour={self.behaviour!r} {NEEDS_ROWS}")
        super().check(problem)

    def find(self, problem: Problem) -> RawEstimate:
        """One ratio of sums."""
        if problem.log.streamed:
            model = ratio_model(problem)
            assert isinstance(model, RatioModel)  # a behaviour that is known is refused where rows are read in parts
            sums = streamed_sums(problem, problem.log, Capped(model, min(self.cap, CAP)))
            return self._estimate(problem, sums, None, model.overlap, model.held_out_log_likelihood)
        action = self._ratio(problem)
        by_time, tail = time_weights(problem)
        weights = by_time * np.minimum(action.ratio, self.cap)
        sums = reward_sums(problem.data, weights, tail, problem.time_limit)
        return self._estimate(problem, sums, weights, action.overlap, action.held_out_log_likelihood)

    def _estimate(
        self, problem: Problem, sums: RewardSums, weights: Floats | None, overlap: float, likelihood: float
    ) -> RawEstimate:
        doubts = (
            *doubts_of_sums(problem.data, sums.of_weights),
            *unsupported(problem, 1 - overlap, OVERLAP),
            *remarks(["the action ratio alone ignores that the target visits other states"]),
        )
        fit = {"behaviour_held_out_log_likelihood": likelihood}
        found = weighted_estimate(problem, sums, weights, doubts=doubts, diagnostics=fit)
        return replace(found, value=value_or_nan(found.value, sums.weight))

    def _ratio(self, problem: Problem) -> ActionRatio:
        if asked_behaviour(problem, self.behaviour) == "cloned" and not problem.finite:
            return action_ratio(problem)
        behaviour = behaviour_log_prob(problem, self.behaviour)
        return ActionRatio.of_logs(
            problem.target_log_prob - behaviour.log_prob, behaviour.held_out_log_likelihood, self.cap
        )
