"""Logged steps as batches of features of pairs (s, a), for the passes over rows in `ope_vpm.linear`.

The features of a pair are Φ(s, a) = [V(s), u(s, a)⊗(1, z)]: V features of the state, z its standardised coordinates,
and u functions of the action with E_π[u(s, ·)] = 0. Averaged over the target's actions, those of the next pair are then
[V(s'), 0], and no action has to be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, Standardiser
from ope_vpm.linear.moments import Batch, Moments, accumulate, accumulate_beyond
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import StateFeatures
from ope_vpm.ope.adapter.ends import Steps, TimeLimit, clock_of, ending_rows, times
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.target import DRAWS

KEPT_ROWS = 1 << 15
"""State features of at most so many rows are kept in memory, some 100 MB each for s and s': they are needed in every
pass. Those of longer logs are computed anew."""


@dataclass(frozen=True, eq=False)
class StateRows:
    """The logged rows that have a next state or end the task, with the features V of both states: no policy in it."""

    data: LoggedDataset
    features: StateFeatures
    """V, which knows the time where a time limit restarts the task."""
    rows: Integers
    """The number of each of these rows in the log."""
    ended: Bools
    """Which of them end the task."""
    time: Integers
    """Their time within the episode."""
    initial: Floats
    """V at the initial states, in the canonical order of the log; shape (episodes from a reset, features)."""

    def batches(self) -> Iterator[tuple[Integers, Floats, Floats]]:
        """Positions among `rows`, V(s) and V(s'), some at a time; V(s') is 0 in every column after an end."""
        return iter(self._in_memory) if len(self.rows) <= KEPT_ROWS else self._computed()

    @cached_property
    def _in_memory(self) -> list[tuple[Integers, Floats, Floats]]:
        return list(self._computed())

    @cached_property
    def moments(self) -> Moments:
        """The moments of V alone, which all policies share."""
        moments = Moments.empty(self.features.size, self.features.size)
        moments.add_initial(self.initial)
        for places, here, there in self.batches():
            moments.add(Batch(places, here, there, None, self.data.rewards[self.rows[places]]))
        return moments

    def _computed(self) -> Iterator[tuple[Integers, Floats, Floats]]:
        maps = (self.data.observations, self.data.next_observations)
        for part in chunks(len(self.rows), BATCH_ROWS, of=maps):
            rows, ended, time = self.rows[part], self.ended[part], self.time[part]
            observations, following = self.data.observations[rows], np.array(self.data.next_observations[rows])
            following[ended] = observations[ended]  # the observation after an end may be unknown
            there = self.features(following, time + 1)
            there[ended] = 0
            yield np.arange(part.start, part.stop), self.features(observations, time), there


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Batches of Φ(s, a) and E_π[Φ(s', ·)] with rewards, in the form that `ope_vpm.linear.moments` takes."""

    states: StateRows
    steps: Steps
    """What follows each row, for estimators that look at steps rather than rows."""
    centred: Floats
    """u at each logged row, shape (n, k)."""
    weight: Floats | None = None
    """w of each logged row; None: 1."""

    def weighted(self, weight: Floats) -> PairFeatures:
        """The same rows with a weight for each logged row."""
        return replace(self, weight=weight)

    @property
    def rows(self) -> Integers:
        """The logged row of each row of the batches."""
        return self.states.rows

    @property
    def rewards(self) -> Floats:
        """The reward of each row of the batches."""
        rewards: Floats = self.states.data.rewards[self.rows]
        return rewards

    @property
    def clock(self) -> int | None:
        """The length of episodes that a time limit ends, where the features know the time."""
        clock = self.states.features.clock
        return None if clock is None else clock.length

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """The number of features of a pair: those of the state, then each u times 1 and the coordinates of s."""
        return self.next_size + int(self.centred.shape[1]) * (1 + self.states.features.linear)

    @property
    def next_size(self) -> int:
        """The number of features of a state: the others have mean 0 under the target."""
        return self.states.features.size

    def __iter__(self) -> Iterator[Batch]:
        """All rows, in batches."""
        rewards = self.states.data.rewards
        for places, here, there in self.states.batches():
            rows, linear = self.rows[places], here[:, : 1 + self.states.features.linear]
            action = np.einsum("nk,nj->nkj", self.centred[rows], linear).reshape(len(here), -1)
            weight = None if self.weight is None else self.weight[rows]
            yield Batch(places, np.hstack([here, action]), there, weight, rewards[rows])

    def moments(self) -> Moments:
        """The moments of all rows; without weights, those of the state's features are made once for all policies."""
        return accumulate(self) if self.weight is not None else accumulate_beyond(self.states.moments, self)

    def initial(self) -> list[tuple[Floats, None]]:
        """V at the initial states, none of which counts more than another."""
        return [(self.states.initial, None)]

    def initial_values(self, theta: Floats) -> Floats:
        """E_π[Φ(s₀, ·)ᵀθ] at each initial state, for one θ or several columns of them."""
        values: Floats = self.states.initial @ theta[: self.next_size]
        return values

    def by_logged_row(self, values: Floats) -> Floats:
        """Values of the batches' rows at every logged row; 0 at rows that are left out."""
        spread = np.zeros((len(self.states.data), *values.shape[1:]))
        spread[self.rows] = values
        return spread

    def by_step(self, values: Floats) -> Floats:
        """Values of the batches' rows at every step of the plan."""
        return self.by_logged_row(values)[self.steps.rows]


def pair_features(
    problem: Problem, n_features: int, draws: int, bandwidth: float = 1.0, seed: int | None = None
) -> PairFeatures:
    """The features of the problem's pairs; those of states are shared by all policies and discounts.

    Args:
        problem: the question.
        n_features: random Fourier features of the state.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
        bandwidth: of the features, in units of the usual one.
        seed: of the features, where it is not the problem's.
    """
    steps = problem.steps  # it refuses logs in which nothing follows any step
    chosen = problem.seed if seed is None else seed
    states = problem.log.shared(_state_rows, n_features, problem.time_limit, chosen, bandwidth)
    return PairFeatures(states, steps, centred_features(problem, draws))


def _state_rows(log: Log, n_features: int, time_limit: TimeLimit, seed: int, bandwidth: float) -> StateRows:
    data = log.data
    features = StateFeatures.draw(data, n_features, seed, clock_of(data, time_limit), bandwidth)
    ending = ending_rows(data, time_limit)
    rows = np.flatnonzero(ending | data.next_known)
    first = log.initial_observations
    initial = features(first, np.zeros(len(first), dtype=np.int64)) if len(first) else np.zeros((0, features.size))
    return StateRows(data, features, rows, ending[rows], times(data, time_limit)[rows], initial)


def centred_features(problem: Problem, draws: int = DRAWS) -> Floats:
    """One row per logged step. Discrete: 1[a = j] - π(j|s). Continuous: a and a², scaled, less their means under π.

    Args:
        problem: the question.
        draws: target actions per state where the policy's moments have no closed form.
    """
    return problem.of_policy(_centred_features, draws, problem.seed)


def _centred_features(log: Log, policy: TargetPolicy, draws: int, seed: int) -> Floats:
    data = log.data
    if data.discrete_actions:
        probabilities = policy.probabilities(data.observations)
        return np.asarray(np.eye(probabilities.shape[1])[data.actions] - probabilities)
    scale = Standardiser.fit(data.actions)
    logged = scale(policy.clipping.clip(data.actions))  # as the environment takes an action beyond the bounds
    first, second = _moments(log, policy, draws, seed)
    mean = scale(first)
    square = (second - 2 * scale.mean * first + scale.mean**2) / scale.std**2
    return np.hstack([logged - mean, logged**2 - square])


def _moments(log: Log, policy: TargetPolicy, draws: int, seed: int) -> tuple[Floats, Floats]:
    """E_π[a] and E_π[a²] in each logged state; policies that draw do so in the log's canonical order."""
    shape = log.data.actions.shape
    found = policy.action_moments(log.data.observations[log.rows], np.random.default_rng(seed), draws)
    if found[0].shape != shape:
        raise ValueError(f"the policy's actions have shape {found[0].shape}, the data's {shape}: they do not fit")
    first, second = np.empty(shape), np.empty(shape)
    first[log.rows], second[log.rows] = found
    return first, second
