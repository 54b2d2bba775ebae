"""Fitted Q evaluation with networks: the value of Q at the initial states, or its average reward."""

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.inference.doubts import DISAGREEMENT, remarks
from ope_vpm.ope.inference.estimate import RawEstimate, doubts_of_actions
from ope_vpm.ope.inference.returns import UNKNOWN, ends_under, fixed_length, reaches_ends, uncharged
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.linear.doubts import Rows
from ope_vpm.ope.linear.resting import with_linear_doubt
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.linear import find_lstd, influence, linear_qs


@dataclass(frozen=True)
class Networks:
    """Settings of networks that learn what a linear Q leaves."""

    members: int = 2
    """Networks whose answers are averaged."""
    training_steps: int = 2000
    """Gradient steps of each network."""
    n_features: int | None = None
    """Random features of the linear Q that they begin from; None: 4·√rows (`features_for`)."""
    ridge: float | None = None
    """Ridge of the linear Q; None: chosen from the data."""
    draws: int = 8
    """Target actions per state where the policy's mean action is not known otherwise."""


def fitted_q(problem: Problem, settings: Networks, weight: Floats | None = None) -> RawEstimate:
    """The value of Q by networks, on top of a linear Q.

    Its interval takes the ratio of the linear form; its suspected bias is what that ratio would correct, and what is
    suspected of an estimate that is linear in features (`with_linear_doubt`).

    Args:
        problem: the question, on continuous states.
        settings: of the networks.
        weight: of each logged row in the regression, where it is not 1.
    """
    linear = find_lstd(problem, settings.n_features, settings.ridge, settings.draws)
    found, rows = _fitted(problem, settings, weight)
    if linear.per_episode is None or fixed_length(problem) is not None:
        return with_linear_doubt(linear, found, rows)
    charge, rate = linear.per_episode.value, ends_under(problem, linear.per_episode.ratio)
    if not reaches_ends(problem, rate):
        return with_linear_doubt(linear, replace(found, per_episode=UNKNOWN), rows)
    # The return of the linear Q is charged at each end, and other networks learn what is wrong with that.
    charged = problem.with_rewards(problem.data.rewards - charge * problem.ending)
    left, of_return = _fitted(charged, settings, weight)
    found = replace(found, per_episode=uncharged(charge, rate, left))
    return with_linear_doubt(linear, found, rows, Rows(of_return.tau, of_return.residual / rate))


def _fitted(problem: Problem, settings: Networks, weight: Floats | None) -> tuple[RawEstimate, Rows]:
    """The value of Q by networks, and its Bellman residuals beside the linear form's ratio; arguments as above."""
    from ope_vpm.ope.q.networks import fit_networks  # which needs torch

    plan = problem.steps
    whole = np.zeros(problem.data.n_episodes, dtype=np.int64)
    by_step = None if weight is None else weight[plan.rows]
    linear = find_lstd(problem, settings.n_features, settings.ridge, settings.draws)
    ratio = linear.ratio[plan.rows]
    equations = linear.equations.weighted(weight)
    (base,) = linear_qs(equations, whole, [linear.ridge])
    q = fit_networks(problem, whole, settings.members, settings.training_steps, settings.draws, base, by_step)
    residual = q.residual(problem)
    sums = influence(problem, ratio, residual, q.first)
    correction = float(plan.weight @ (ratio * residual) / plan.weight.sum())
    found = RawEstimate(
        value=q.value(problem),
        uncertainty=Bootstrap(episodes=sums),
        doubts=(
            *doubts_of_actions(problem),
            *DISAGREEMENT.suspects(abs(correction)),
            *remarks(clock_remarks(problem.data, problem.time_limit, known=True)),
        ),
        diagnostics={"solver": "neural", "correction": correction, "dropped": plan.dropped, "ended": plan.ended},
    )
    rows = equations.rows.rows
    by_row = group_sums(plan.rows, plan.weight * residual, len(problem.data))  # copies of a row count 1 together
    return found, Rows(linear.ratio[rows], by_row[rows])
