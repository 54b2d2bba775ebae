"""The log counted: numbered states, numbered pairs (s, a), where they led and what they paid; no policy is involved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy import sparse

from ope_vpm.arrays import ROUNDING, Array, Bools, Floats, Integers, are_ones, group_sums, number_codes
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.sums import Mergeable
from ope_vpm.ope.adapter.ends import Steps
from ope_vpm.ope.adapter.given import Encoder
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.threads import cached_property


@dataclass(frozen=True, eq=False)
class NumberedStates:
    """The states of a log with finite states, numbered from 0: all that occur before or after a step."""

    labels: Integers
    """The state that each number means, as the encoder writes it, rising."""
    observations: Array
    """The observation of each state."""
    state: Integers
    """The number of the state before each step."""
    next_state: Integers
    """The number of the state after each step; -1 where nothing follows."""
    initial_states: Integers
    """The number of each initial state, in the order of `Log.initial_episodes`."""


@remembered
def number_states(log: Log, steps: Steps) -> NumberedStates:
    """Number the states of a log.

    Args:
        log: the log; its states are finite.
        steps: its steps, and what follows each of them.
    """
    data, goes_on = log.data, ~steps.absorbed
    encoder = Encoder.fit(data, 1 if data.discrete_actions else None, absorbs=False)
    following = steps.of_rows(data.next_observations) if steps.restart is None else steps.next_observations
    after = following if goes_on.all() else following[goes_on]
    parts = [steps.of_rows(data.observations), after, log.initial_observations]
    labels, state, after, initial = number_codes(*(encoder.states(part) for part in parts))
    next_state = after
    if len(after) < len(state):
        next_state = np.full(len(state), -1)
        next_state[goes_on] = after
    observations = encoder.observations(labels, data.observations)
    if observations is None:
        observations = np.empty((len(labels), *data.observations.shape[1:]), dtype=data.observations.dtype)
        for part, places in zip(parts, (state, after, initial), strict=True):
            observations[places] = part
    return NumberedStates(labels, observations, state, next_state, initial)


@dataclass(frozen=True, eq=False)
class PairCounts:
    """The steps of a log as counts of the pairs (s, a) that were seen, with their mean rewards and next states.

    Of a log that is read in parts, an entry stands for all steps of one half of the episodes with the same pair and
    next state: its weight is theirs together, and its reward their mean.
    """

    labels: Integers
    """The state that each state number means, as the encoder writes it."""
    observations: Array
    """The observation of each state."""
    pair: Integers
    """(steps,): the number of the pair of each step."""
    next_state: Integers
    """(steps,): the number of the state after it; -1 where nothing follows."""
    weight: Floats
    """(steps,): how much each step counts."""
    rewards: Floats
    """(steps,): the reward of each step."""
    state_of_pair: Integers
    """(pairs,): the number of each pair's state."""
    action_of_pair: Integers
    """(pairs,): each pair's action."""
    initial_states: Integers
    """The number of each initial state, in the order of `Log.initial_episodes`."""
    initial_weight: Floats
    """How much each initial state counts."""
    second: Bools
    """(steps,): whether each step is of the second half of the episodes: see `second_half`."""
    steps: Floats | None = None
    """How many steps each entry stands for; None: for one."""
    spread: Floats | None = None
    """Σ weight·(r - mean r)² of the steps of each entry; None: 0."""

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.labels)

    @property
    def pairs(self) -> int:
        """How many pairs were seen."""
        return len(self.state_of_pair)

    @cached_property
    def times(self) -> Floats:
        """(pairs,): how often each pair was seen."""
        return group_sums(self.pair, self.weight, self.pairs)

    @cached_property
    def distinct_times(self) -> Floats:
        """(pairs,): the same over their greatest common divisor: a log given twice over is no more than the log."""
        times = np.rint(self.times)
        if times.min(initial=1.0) < 1 or np.abs(times - self.times).max(initial=0.0) > ROUNDING:
            return self.times
        distinct: Floats = self.times / np.gcd.reduce(times.astype(np.int64))
        return distinct

    @cached_property
    def staying(self) -> Floats:
        """(pairs,): the share of its steps with which each pair led back to its own state."""
        stays = self.weight * (self.next_state == self.state_of_pair[self.pair])
        share: Floats = group_sums(self.pair, stays, self.pairs) / np.maximum(self.times, np.finfo(float).tiny)
        return share

    @cached_property
    def visits(self) -> Floats:
        """(states,): how often each state was left."""
        return group_sums(self.state_of_pair, self.times, self.states)

    @cached_property
    def logged_states(self) -> Floats:
        """(states,): the distribution of the states that the log's steps begin with."""
        distribution: Floats = self.visits / self.visits.sum()
        return distribution

    @cached_property
    def actions_seen(self) -> Integers:
        """(states,): how many different actions were seen in each state."""
        return np.bincount(self.state_of_pair, minlength=self.states)

    @cached_property
    def reward(self) -> Floats:
        """(pairs,): the mean reward r̂(s, a)."""
        paid = self.rewards if are_ones(self.weight) else self.weight * self.rewards
        return group_sums(self.pair, paid, self.pairs) / self.times

    @cached_property
    def transitions(self) -> SparseMatrix:
        """(pairs, states), sparse: the probabilities P̂(s'|s, a); rows sum to less than 1 where episodes ended."""
        goes_on = self.next_state >= 0
        kept = slice(None) if goes_on.all() else goes_on
        places = self.pair[kept], self.next_state[kept]
        # Steps that all count 1 are counted in half of the memory.
        weight = np.ones(len(places[0]), dtype=np.int32) if are_ones(self.weight) else self.weight[kept]
        matrix = sparse.csr_array((weight, places), shape=(self.pairs, self.states)).astype(np.float64)
        matrix.data /= np.repeat(self.times, np.diff(matrix.indptr))
        return matrix

    @property
    def steps_of_pair(self) -> Floats:
        """(pairs,): the number of steps with each pair, copies of a restart included."""
        return group_sums(self.pair, np.ones(len(self.pair)) if self.steps is None else self.steps, self.pairs)

    def outcomes(self, values: Floats, gamma: float) -> tuple[Floats, float]:
        """The mean of r + γV(s') over the steps of each pair, and the sum of the squared distances from it."""
        outcome = self.rewards + gamma * self.value_after(values)
        mean = group_sums(self.pair, self.weight * outcome, self.pairs) / self.times
        apart = float(self.weight @ (outcome - mean[self.pair]) ** 2)
        return mean, apart if self.spread is None else apart + float(self.spread.sum())

    @cached_property
    def initial(self) -> Floats:
        """(states,): the distribution of the initial states; zeros where none is known."""
        total = group_sums(self.initial_states, self.initial_weight, self.states)
        distribution: Floats = total / (total.sum() or 1.0)
        return distribution

    def value_after(self, values: Floats) -> Floats:
        """(steps,): the value of the state after each step, 0 where nothing follows."""
        return np.where(self.next_state >= 0, values[self.next_state], 0.0)

    def part(self, steps: Bools) -> tuple[PairCounts, Integers]:
        """The counts of some of the steps over the same states, and the numbers of the pairs that they hold."""
        kept, pair = number_codes(self.pair[steps])
        part = replace(
            self,
            pair=pair,
            next_state=self.next_state[steps],
            weight=self.weight[steps],
            rewards=self.rewards[steps],
            state_of_pair=self.state_of_pair[kept],
            action_of_pair=self.action_of_pair[kept],
            second=self.second[steps],
            steps=None if self.steps is None else self.steps[steps],
            spread=None if self.spread is None else self.spread[steps],
        )
        return part, kept

    def reweighted(self, steps: Floats, initial: Floats) -> PairCounts:
        """The counts with every step and every initial state counting more or less by a factor."""
        return replace(self, weight=self.weight * steps, initial_weight=self.initial_weight * initial)


@remembered
def count_pairs(log: Log, steps: Steps) -> PairCounts:
    """Count the pairs of a log with finite states and actions; arguments as in `number_states`."""
    numbered, actions = number_states(log, steps), steps.of_rows(log.data.actions)
    factor = int(actions.max()) + 1
    codes = numbered.state * factor
    codes += actions
    code, pair = number_codes(codes)
    return PairCounts(
        labels=numbered.labels,
        observations=numbered.observations,
        pair=pair,
        next_state=numbered.next_state,
        weight=steps.weight,
        rewards=steps.of_rows(log.data.rewards),
        state_of_pair=code // factor,
        action_of_pair=code % factor,
        initial_states=numbered.initial_states,
        initial_weight=np.ones(len(numbered.initial_states)),
        second=second_half(log)[steps.of_rows(log.data.episode)],
    )


def second_half(log: Log) -> Bools:
    """(episodes,): whether each is in the second of two halves; equal episodes share one, as in `Log.folds`."""
    half: Bools = log.folds(2) == 1
    return half


Sums = TypeVar("Sums", bound=Mergeable)


@dataclass(frozen=True, eq=False)
class SomeSteps:
    """Some logged steps; those of one episode follow one another."""

    row: Integers
    """The number of each one's row in the log."""
    pair: Integers
    """The number of its pair."""
    after: Integers
    """The number of the state that follows; -1 where nothing does."""
    weight: Floats
    rewards: Floats
    episode: Integers
    """The number of its episode, from the first one of the `LoggedSteps` on."""
    end: Bools
    """Whether the task ends with it."""
    cut: Bools
    """Whether a time limit does that."""


@dataclass(frozen=True, eq=False)
class LoggedSteps:
    """The steps of a log in memory, or of one part of a log."""

    data: LoggedDataset
    """The rows."""
    first: int
    """The number of the first episode."""
    pieces: Iterator[SomeSteps]
