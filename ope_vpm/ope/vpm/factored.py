"""VPM with a factored ratio, τ(s, a) = ρ̂(a|s)^κ·w(s, a), and w linear in features of the pair: one linear system.

ρ̂ = π/b̂ is known up to the cloned behaviour b̂. With κ = 1 a function of the state is left to find; but then the few
logged actions that are likely under π carry all of the weight. With κ = ½ they carry less, and w makes up for it. κ = 0
is LSTD-Q.

In the words of `ope_vpm.linear`: the rows are the logged pairs with the features Φ of `adapter.pair_features`, weighted
by ρ̂^κ. The fixed point of the power iteration, the Q function and the influence function are then one linear system
(`ope_vpm.linear.system`), the same that `ov.VPM` solves on pairs (x, x').
"""

from __future__ import annotations

import numpy as np

from ope_vpm.ope.adapter.pair_features import pair_features
from ope_vpm.ope.behaviour.action_ratio import action_ratio
from ope_vpm.ope.inference.estimate import evidence_of_weights
from ope_vpm.ope.linear_estimate import LinearEstimate, PairEquations, linear_estimate
from ope_vpm.ope.problem import Problem

POWER = 0.5
"""κ. On the tasks of docs/control.md errors are 1.54 times those of on-policy means, against 1.67 at κ = 0, whose value
depends on features that fit Q, and 1.78 at κ = 1, whose weights vary most."""
N_FEATURES = 400
"""Random Fourier features of the state: more gained nothing over all tasks that were tried."""


def find_factored(
    problem: Problem, n_features: int = N_FEATURES, ridge: float | None = None, power: float = POWER, draws: int = 8
) -> LinearEstimate:
    """The value by the factored ratio, shared by the estimators that use it.

    Args:
        problem: the question, of a policy with densities.
        n_features: random Fourier features of the state.
        ridge: in units of the features' mean squares; None: chosen from the data.
        power: κ.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
    """
    return problem.shared(_find_factored, n_features, ridge, power, draws)


def _find_factored(problem: Problem, n_features: int, ridge: float | None, power: float, draws: int) -> LinearEstimate:
    action = action_ratio(problem)
    if not action.ratio.any():
        return nothing_in_common(problem)
    weight = action.ratio**power
    pairs = pair_features(problem, n_features, draws).weighted(weight / weight.mean())
    fit = {"power": power, "behaviour_held_out_log_likelihood": action.held_out_log_likelihood}
    return linear_estimate(PairEquations.of(problem, pairs), ridge, "factored", fit)


def nothing_in_common(problem: Problem) -> LinearEstimate:
    """No value: no logged action is one of the target's."""
    weights = np.zeros(len(problem.data))
    evidence = evidence_of_weights(problem.data, weights, overlap=0.0)
    nan = float("nan")
    return LinearEstimate(value=nan, weights=weights, evidence=evidence, ridge=nan, theta=np.zeros(0), clock=None)
