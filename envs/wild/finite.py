"""Finite tasks of other libraries as lists of outcomes: exact values, value iteration, and fast simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import splu

from ope_vpm.arrays import Bools, Floats, Integers, group_sums
from ope_vpm.envs.truth import Value
from ope_vpm.logged import LoggedDataset
from ope_vpm.optional import library
from ope_vpm.policy import TablePolicy


@dataclass(frozen=True, eq=False)
class FiniteModel:
    """Every outcome that a finite task can have, one row each, sorted by state and action."""

    states: int
    actions: int
    initial: Floats
    """The distribution of the first state, (states,)."""
    pair: Integers
    """state · actions + action."""
    following: Integers
    """The next state."""
    probability: Floats
    """The probability of the outcome, given the pair; they sum to 1 over the outcomes of a pair."""
    reward: Floats
    ends: Bools
    """Whether the task ends with it."""

    def value(self, policy: TablePolicy, gamma: float) -> Value:
        """(1 - γ)·E[Σ γ^t r_t] for γ < 1, with the task's ends as the only ones, and its deviation per episode.

        With G the return from a state, E[G] = r + γ P E[G] and E[G²] = E[r²] + 2γ E[r G'] + γ² P E[G²].
        """
        chain = self._under(policy, self.reward)
        identity = eye_array(self.states, format="csc")
        first = splu((identity - gamma * chain.going).tocsc()).solve(chain.reward)
        terms = chain.squared + 2 * gamma * (chain.paid @ first)
        second = splu((identity - gamma**2 * chain.going).tocsc()).solve(terms)
        return _exact((1 - gamma) * float(self.initial @ first), (1 - gamma) ** 2 * float(self.initial @ second))

    def episode_return(self, policy: TablePolicy, limit: int) -> Value:
        """The undiscounted return of an episode of at most `limit` steps, and its deviation."""
        return _exact(*self._moments(policy, limit, self.reward))

    def episode_length(self, policy: TablePolicy, limit: int) -> Value:
        """The number of steps of an episode of at most `limit` steps, and its deviation."""
        return _exact(*self._moments(policy, limit, np.ones_like(self.reward)))

    def per_step(self, policy: TablePolicy, limit: int) -> Value:
        """E[Σ r] / E[length] of episodes of at most `limit` steps.

        The deviation is that of (Σ r - value·length) / E[length], to which the error of an on-policy ratio of sums
        is equal in first order.
        """
        length = self.episode_length(policy, limit).value
        value = self.episode_return(policy, limit).value / length
        _, around = self._moments(policy, limit, self.reward - value)
        return Value(value, 0.0, around**0.5 / length)

    def _moments(self, policy: TablePolicy, limit: int, reward: Floats) -> tuple[float, float]:
        """E[G] and E[G²] of the undiscounted sum of some reward over at most `limit` steps, by backward recursion."""
        chain = self._under(policy, reward)
        first, second = np.zeros(self.states), np.zeros(self.states)
        for _ in range(limit):
            second = chain.squared + 2 * (chain.paid @ first) + chain.going @ second
            first = chain.reward + chain.going @ first
        return float(self.initial @ first), float(self.initial @ second)

    def _under(self, policy: TablePolicy, reward: Floats) -> _Chain:
        """The Markov chain of states with some reward under a policy."""
        taken = policy.table.reshape(-1)[self.pair] * self.probability
        state, kept, shape = self.pair // self.actions, taken * ~self.ends, (self.states, self.states)
        return _Chain(
            going=csr_array((kept, (state, self.following)), shape=shape),
            paid=csr_array((kept * reward, (state, self.following)), shape=shape),
            reward=group_sums(state, taken * reward, self.states),
            squared=group_sums(state, taken * reward**2, self.states),
        )

    def action_values(self, gamma: float, sweeps: int) -> Floats:
        """Q after some sweeps of value iteration from 0, (states, actions)."""
        pairs = self.states * self.actions
        kept = csr_array((self.probability * ~self.ends, (self.pair, self.following)), shape=(pairs, self.states))
        reward = group_sums(self.pair, self.probability * self.reward, pairs)
        table = np.zeros((self.states, self.actions))
        for _ in range(sweeps):
            table = (reward + gamma * (kept @ table.max(axis=1))).reshape(table.shape)
        return table

    @cached_property
    def _ladder(self) -> Floats:
        """Cumulative probabilities within each pair, shifted by the pair's number: rising over all rows."""
        total = np.cumsum(self.probability)
        before = np.searchsorted(self.pair, np.arange(self.states * self.actions))
        start = np.concatenate([[0.0], total])[before]
        return self.pair + np.minimum(total - start[self.pair], 1.0)

    def simulate(self, policies: Sequence[TablePolicy], episodes: int, limit: int, seed: int) -> LoggedDataset:
        """Episodes of at most `limit` steps; number i is by policy i modulo their number, and depends on i and seed."""
        uniform = np.stack([np.random.default_rng([seed, i]).random((limit + 1, 2)) for i in range(episodes)])
        state = np.searchsorted(np.cumsum(self.initial), uniform[:, 0, 0] * self.initial.sum(), side="right")
        going, logged = np.arange(episodes), []
        tables = np.stack([policy.table for policy in policies])
        for step in range(1, limit + 1):
            draws = uniform[going, step]
            probabilities = tables[going % len(policies), state]
            action = (
                draws[:, :1] * probabilities.sum(axis=1, keepdims=True) >= probabilities.cumsum(axis=1)[:, :-1]
            ).sum(axis=1)
            row = self._drawn(state * self.actions + action, draws[:, 1])
            log_prob = np.log(probabilities[np.arange(len(going)), action])
            logged.append((going, state, action, self.reward[row], self.following[row], self.ends[row], log_prob))
            left = ~self.ends[row]
            going, state = going[left], self.following[row][left]
            if len(going) == 0:
                break
        return self._dataset([np.concatenate(column) for column in zip(*logged, strict=True)])

    def _drawn(self, pair: Integers, uniform: Floats) -> Integers:
        """The row of one outcome per pair."""
        last = np.searchsorted(self.pair, pair, side="right") - 1
        return np.minimum(np.searchsorted(self._ladder, pair + uniform, side="right"), last)

    def _dataset(self, columns: list[Any]) -> LoggedDataset:
        order = np.argsort(columns[0], kind="stable")
        episode, state, action, reward, following, ended, log_prob = (column[order] for column in columns)
        last = np.append(np.diff(episode) != 0, True)
        return LoggedDataset.from_arrays(
            state,
            action,
            reward,
            following,
            ended,
            last & ~ended,
            behaviour_log_prob=log_prob,
            observation_space=gym.spaces.Discrete(self.states),
            action_space=gym.spaces.Discrete(self.actions),
        )


@dataclass(frozen=True)
class _Chain:
    """The chain of states under a policy."""

    going: csr_array
    """P(s'|s) without the outcomes that end the task."""
    paid: csr_array
    """The same, each outcome times its reward."""
    reward: Floats
    """E[r|s]."""
    squared: Floats
    """E[r²|s]."""


def _exact(first: float, second: float) -> Value:
    return Value(first, 0.0, max(second - first**2, 0.0) ** 0.5)


def from_gymnasium(environment: str) -> FiniteModel:
    """A toy-text task from the table of outcomes that gymnasium gives, `env.unwrapped.P`."""
    env: Any = gym.make(environment, disable_env_checker=True).unwrapped
    actions = int(env.action_space.n)
    rows = [
        (state * actions + action, following, probability, reward, ends)
        for state, choices in env.P.items()
        for action, outcomes in choices.items()
        for probability, following, reward, ends in outcomes
        if probability > 0
    ]
    pair, following, probability, reward, ends = (np.array(column) for column in zip(*sorted(rows), strict=True))
    initial = np.asarray(env.initial_state_distrib, dtype=np.float64)
    return FiniteModel(
        int(env.observation_space.n), actions, initial, pair, following, probability, reward.astype(float), ends
    )


def icu_parameters() -> Any:
    """What the icu-sepsis package stores: transition and reward matrices and the clinicians' policy."""
    library("icu_sepsis", "sepsis")
    from icu_sepsis import envs
    from icu_sepsis.utils.io import MDPParameters

    return MDPParameters(Path(str(envs.__file__)).parent / "assets")


def icu_sepsis(parameters: Any) -> FiniteModel:
    """ICU-Sepsis: an episode ends with death (reward 0) or survival (reward 1), the states 713 to 715."""
    matrix = parameters.tx_mat
    states, actions, _ = matrix.shape
    state, action, following = np.nonzero(matrix)
    return FiniteModel(
        states,
        actions,
        np.asarray(parameters.d_0, dtype=np.float64),
        state * actions + action,
        following,
        matrix[state, action, following].astype(np.float64),
        parameters.r_mat[state, action, following].astype(np.float64),
        following >= TERMINAL,
    )


TERMINAL = 713
"""The first of ICU-Sepsis' terminal states."""
