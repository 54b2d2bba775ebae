"""Finite states and actions: the log as counts of pairs, and the influence of its rows on a value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.arrays import Floats, Integers, group_sums
from ope_vpm.ope.adapter.state_features import StateFeatures
from ope_vpm.ope.inference.influence import EpisodeSums, influence_sums
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class CountedPairs:
    """The steps of one log over numbered states and seen pairs, and the target's choices in these states."""

    pair: Integers
    """The number of each step's (s, a) among the seen pairs."""
    following: Integers
    """The number of the state after each step; -1 where nothing follows."""
    weight: Floats
    """How much each step counts."""
    state_of_pair: Integers
    action_of_pair: Integers
    target: Floats
    """(states, actions): the target's probabilities."""
    starts: Integers
    """The number of each initial state."""
    reward: Floats
    """The mean reward of each seen pair."""

    @property
    def states(self) -> int:
        """How many states occur, before or after a step."""
        return len(self.target)

    @cached_property
    def times(self) -> Floats:
        """How often each pair was seen."""
        return group_sums(self.pair, self.weight)

    @cached_property
    def visits(self) -> Floats:
        """How often each state was left."""
        return group_sums(self.state_of_pair, self.times, self.states)

    @cached_property
    def chance(self) -> Floats:
        """The target's probability of each seen pair's action in its state."""
        return self.target[self.state_of_pair, self.action_of_pair]

    @cached_property
    def covered(self) -> Floats:
        """The target's probability of seen actions, by state."""
        return group_sums(self.state_of_pair, self.chance, self.states)

    @cached_property
    def initial(self) -> Floats:
        """The law of initial states; zeros where none is known."""
        return np.bincount(self.starts, minlength=self.states) / max(len(self.starts), 1)

    @cached_property
    def transitions(self) -> Any:
        """P̂(s'|s, a), sparse (pairs, states); rows of ended episodes sum to less than 1."""
        known = self.following >= 0
        share = self.weight / self.times[self.pair]
        shape = (len(self.state_of_pair), self.states)
        return sparse.csr_array((share[known], (self.pair[known], self.following[known])), shape=shape)


def count_pairs(problem: Problem) -> CountedPairs:
    """Count the steps, shared."""
    return problem.shared(_count)


def _count(problem: Problem) -> CountedPairs:
    data, plan = problem.data, problem.steps
    encoder = StateFeatures.draw(problem.data, 0, problem.seed).encoder
    seen = np.concatenate([data.observations[plan.rows], problem.following, problem.log.initial_observations])
    _, first, number = np.unique(encoder.states(seen), return_index=True, return_inverse=True)
    n = len(plan.rows)
    target = problem.policy.probabilities(seen[first])
    actions = target.shape[1]
    code, pair = np.unique(number[:n] * actions + data.actions[plan.rows], return_inverse=True)
    return CountedPairs(
        pair=pair,
        following=np.where(plan.absorbed, -1, number[n : 2 * n]),
        weight=plan.weight,
        state_of_pair=code // actions,
        action_of_pair=code % actions,
        target=target,
        starts=number[2 * n :],
        reward=group_sums(pair, plan.weight * data.rewards[plan.rows]) / group_sums(pair, plan.weight),
    )


def influence(problem: Problem, counted: CountedPairs, value: float, mass: Floats, values: Floats) -> EpisodeSums:
    """Per-episode sums that bootstrap an exact solution on counts to first order.

    A step contributes τ·(r + γV(s') - Q(s, a)); pairs seen n times have residuals that are too small by √((n-1)/n).

    Args:
        problem: the question.
        counted: its counts.
        value: the answer.
        mass: of each seen pair under the target.
        values: V over states.
    """
    data, plan, gamma = problem.data, problem.steps, problem.gamma
    share = counted.weight / counted.weight.sum()
    times = counted.times
    tau = (mass / (times / counted.weight.sum()))[counted.pair]
    after = np.where(counted.following >= 0, values[counted.following], 0.0)
    outcome = data.rewards[plan.rows] + gamma * after
    mean = group_sums(counted.pair, counted.weight * outcome) / times
    often = times > 1.5
    factor = np.sqrt(np.divide(times, times - 1, out=np.ones_like(times), where=often))[counted.pair]
    residual = factor * (outcome - mean[counted.pair])
    level = value if gamma == 1 else None
    return influence_sums(problem, plan.rows, share, share * tau, residual, values[counted.starts], level)
