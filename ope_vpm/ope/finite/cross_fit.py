"""Q and the ratio of finite pairs, each step's by the other folds: exact solutions on counts.

Where the folds that count saw every pair the target needs, the solution is the counted model's. Otherwise the values of
unseen pairs are predicted by Good–Turing regression, as in vpm, where enough pairs were seen rarely to learn from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers, group_sums
from ope_vpm.ope.finite import model as model_tabular
from ope_vpm.ope.finite import regression as good_turing
from ope_vpm.ope.finite.counts import CountedPairs, count_pairs
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.values import QValues


@dataclass(frozen=True)
class CrossFit:
    """What the other folds say about each step of the plan."""

    q: QValues
    tau: Floats
    unseen: float
    """The target's mass on pairs without data."""
    misfit: float
    """The error that this brings into the value."""


@dataclass(frozen=True)
class Solution:
    """The value function and the law that one set of counts has."""

    value: float
    values: Floats
    """V over states."""
    mass: Floats
    """Of each seen pair under the target."""
    unseen: float
    misfit: float


def cross_fitted_counts(problem: Problem, folds: Integers) -> CrossFit:
    """Solve once a fold; pairs that the other folds never saw have ratio 0 and their state's value."""
    whole, plan, gamma = count_pairs(problem), problem.steps, problem.gamma
    rewards = problem.data.rewards[plan.rows]
    fold, first_fold = folds[problem.data.episode[plan.rows]], folds[problem.log.initial_episodes]
    q, after, tau, level = (np.zeros(len(fold)) for _ in range(4))
    first, count = np.zeros(len(first_fold)), int(folds.max()) + 1
    solutions = []
    for k in range(count):
        held, held_first = fold == k, first_fold == k
        counted, numbers = restricted(whole, rewards, ~held if count > 1 else held)
        found = solution(counted, gamma)
        offset = found.value if gamma == 1 else 0.0
        q_pair, tau_pair = found.values[whole.state_of_pair], np.zeros(len(whole.state_of_pair))
        q_pair[numbers] = counted.reward - offset + gamma * (counted.transitions @ found.values)
        tau_pair[numbers] = found.mass * counted.times.sum() / counted.times
        following = whole.following[held]
        q[held], tau[held], level[held] = q_pair[whole.pair[held]], tau_pair[whole.pair[held]], offset
        after[held] = np.where(following >= 0, found.values[following], 0.0)
        first[held_first] = found.values[whole.starts[held_first]]
        solutions.append(found)
    unseen, misfit = (float(np.mean([getattr(each, name) for each in solutions])) for name in ("unseen", "misfit"))
    return CrossFit(QValues(q, after, first, level), tau, unseen, misfit)


def solution(counted: CountedPairs, gamma: float) -> Solution:
    """Exact; with predicted values of unseen pairs where there are such and they can be predicted."""
    seen_all = bool((counted.covered > 1 - 1e-12).all())
    regression = None if seen_all else good_turing.regression(counted, gamma)
    found = None if regression is None else good_turing.solve(regression, gamma)
    if regression is not None and found is not None:
        unseen = regression.spread(found.law) @ regression.unseen[:, -1] + found.law[regression.never_left].sum()
        return Solution(found.value, found.values, found.mass, float(unseen / found.law.sum()), found.misfit)
    model = model_tabular.scaled(counted)
    value, law, values = model_tabular.solve(model, gamma)
    mass = law[model.state_of_pair] * model.chance
    unseen = float(law @ np.maximum(model.unseen, 0) / law.sum())
    after = model.reward + gamma * (model.transitions() @ values)
    return Solution(value, values, mass, unseen, unseen * float(np.std(after)))


def restricted(counted: CountedPairs, rewards: Floats, rows: Bools) -> tuple[CountedPairs, Integers]:
    """The counts of some of the steps only, over the same states; and which of the pairs are left."""
    kept, pair = np.unique(counted.pair[rows], return_inverse=True)
    weight = counted.weight[rows]
    part = replace(
        counted,
        pair=pair,
        following=counted.following[rows],
        weight=weight,
        state_of_pair=counted.state_of_pair[kept],
        action_of_pair=counted.action_of_pair[kept],
        reward=group_sums(pair, weight * rewards[rows]) / group_sums(pair, weight),
    )
    return part, kept
