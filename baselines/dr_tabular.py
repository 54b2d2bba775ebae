"""Q and the ratio of finite pairs, each step's by the other folds: exact solutions of counted models."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.baselines.model_tabular import CountedModel, counted_model, solve
from ope_vpm.baselines.q_values import QValues
from ope_vpm.logged.columns import Bools, Floats, Integers
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.sums import summed


@dataclass(frozen=True)
class CrossFit:
    """What the other folds say about each step of the plan."""

    q: QValues
    tau: Floats
    unseen: float
    """The target's mass on pairs without data."""


def cross_fitted_counts(problem: Problem, folds: Integers) -> CrossFit:
    """Solve one counted model a fold; pairs that the other folds never saw have ratio 0 and their state's value."""
    whole, plan, gamma = counted_model(problem), problem.steps, problem.gamma
    fold, first_fold = folds[problem.data.episode[plan.rows]], folds[problem.data.from_reset]
    q, after, tau, level = (np.zeros(len(fold)) for _ in range(4))
    first, unseen, count = np.zeros(len(first_fold)), 0.0, int(folds.max()) + 1
    for k in range(count):
        held, held_first = fold == k, first_fold == k
        model, numbers = restricted(whole, ~held if count > 1 else held)
        own, law, values = solve(model, gamma)
        offset = own if gamma == 1 else 0.0
        q_pair, tau_pair = values[whole.state_of_pair], np.zeros(len(whole.state_of_pair))
        q_pair[numbers] = model.reward - offset + gamma * (model.transitions() @ values)
        tau_pair[numbers] = law[model.state_of_pair] * model.chance * model.times.sum() / model.times
        following = whole.following[held]
        q[held], tau[held], level[held] = q_pair[whole.pair[held]], tau_pair[whole.pair[held]], offset
        after[held] = np.where(following >= 0, values[following], 0.0)
        first[held_first] = values[whole.starts[held_first]]
        unseen += float(law @ np.maximum(model.unseen, 0) / law.sum()) / count
    return CrossFit(QValues(q, after, first, level), tau, unseen)


def restricted(model: CountedModel, rows: Bools) -> tuple[CountedModel, Integers]:
    """The model counted on some of the steps only, over the same states; and which of the pairs are left."""
    kept, pair = np.unique(model.pair[rows], return_inverse=True)
    state = model.state_of_pair[kept]
    covered = (1 - model.unseen)[state]
    chance = model.chance[kept] * covered
    size = len(model.unseen)
    total = summed(state, chance, size)
    uniform = 1 / np.bincount(state, minlength=size)[state]
    weight = model.weight[rows]
    times = summed(pair, weight)
    return (
        replace(
            model,
            pair=pair,
            following=model.following[rows],
            weight=weight,
            state_of_pair=state,
            chance=np.divide(chance, total[state], out=uniform, where=total[state] > 0),
            unseen=1 - total,
            reward=summed(pair, weight * model.step_reward[rows]) / times,
            step_reward=model.step_reward[rows],
        ),
        kept,
    )
