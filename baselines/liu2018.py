"""Breaking the Curse of Horizon (Liu, Li, Tang, Zhou 2018): a ratio w(s) of state laws, times π/b.

Differences from the paper:
1. The flow into states is balanced against the log's own law of s, E[w(s)(ρf(s') - f(s))] = 0, rather than of s';
   the two agree for a log in its long run, and ours needs no such assumption.
2. Below γ = 1 the same with the initial law, γE[w(s)ρf(s')] + (1-γ)E₀[f] = E[w(s)f(s)].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.baselines.liu_network import network_ratio
from ope_vpm.baselines.liu_tabular import tabular_ratio
from ope_vpm.ope.adapter.time_limit import clock_remarks
from ope_vpm.ope.behaviour.action_ratio import ActionRatio
from ope_vpm.ope.behaviour.source import Behaviour, behaviour_log_prob, check_behaviour
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.inference.estimate import RawEstimate, evidence_of_weights, value_or_nan
from ope_vpm.ope.inference.influence import EpisodeSums
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Liu2018(ProblemEstimator):
    """Finite states: the kernelised mini-max loss in closed form. Points: a network, by its kernel loss."""

    name: ClassVar[str] = "liu"

    behaviour: Behaviour = "cloned"
    """"cloned", "logged" (needs `behaviour_log_prob` in the data), or a known policy."""
    training_steps: int = 1000
    """Of the network."""
    cap: float = 50.0
    """Of the action ratio once it is scaled to mean 1."""

    def __post_init__(self) -> None:
        if self.training_steps < 1 or not self.cap > 0:
            raise ValueError(f"training_steps and cap must be positive: got {self.training_steps} and {self.cap}")

    def check(self, problem: Problem) -> None:
        """The target needs densities, and logged ones must be there if asked for."""
        check_behaviour(self.name, problem, self.behaviour)

    def find(self, problem: Problem) -> RawEstimate:
        """Find w, then weigh rewards by w·ρ."""
        clone = behaviour_log_prob(problem, self.behaviour)
        log_ratio = problem.target_log_prob - clone.log_prob
        action = ActionRatio.of_logs(log_ratio, clone.held_out_log_likelihood, self.cap)
        ratio = action.ratio
        plan = problem.steps
        if problem.data.finite:
            of_state = tabular_ratio(problem, ratio)
        else:
            of_state = network_ratio(problem, ratio, self.training_steps)
        weight = plan.weight * of_state * ratio[plan.rows]
        weights = group_sums(plan.rows, weight, len(problem.data))
        sums = _sums(problem, weights)
        evidence = evidence_of_weights(
            problem.data,
            weights,
            overlap=min(action.overlap, 1.0),
            remarks=("the interval takes the state ratio as known", *clock_remarks(problem, known=False)),
        )
        return RawEstimate(
            value=value_or_nan(sums.ratios[0], weights),
            uncertainty=Bootstrap(episodes=sums),
            weights=weights,
            evidence=evidence,
            diagnostics={
                "behaviour_held_out_log_likelihood": clone.held_out_log_likelihood,
                "dropped": plan.dropped,
                "ended": plan.ended,
            },
        )


def _sums(problem: Problem, weights: Floats) -> EpisodeSums:
    """Σ wρr over Σ wρ and the mass of ended episodes, γ/(1-γ)·wρ of their last rows, whose reward is 0."""
    data = problem.data
    below = weights
    if problem.on_end == "absorb" and problem.gamma < 1:
        below = weights * (1 + problem.ending * problem.gamma / (1 - problem.gamma))
    return EpisodeSums.of_rows(data.episode, data.n_episodes, weights * data.rewards, below)
