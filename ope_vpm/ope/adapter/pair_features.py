"""Logged steps as batches of features of pairs (s, a), for the passes over rows in `ope_vpm.linear`.

The features of a pair are Φ(s, a) = [V(s), u(s, a)⊗(1, z, some of V's waves)]: V features of the state, z its
standardised coordinates, among them what the target usually does there, and u functions of the action with
E_π[u(s, ·)] = 0. Averaged over the target's actions, those of the next pair are then [V(s'), 0], and no action has to
be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, Standardiser
from ope_vpm.linear.moments import Batch, Moments, accumulate
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import ActionCoordinates, Encoder, StateFeatures
from ope_vpm.ope.adapter.ends import Steps, TimeLimit, clock_of, ending_rows, times
from ope_vpm.ope.log import Log, Memory, Same
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.target import DRAWS

KEPT_ROWS = 1 << 15
"""State features of at most so many rows are kept in memory, some 100 MB each for s and s': they are needed in every
pass. Those of longer logs are computed anew."""
WAVES, ACTION_COLUMNS = 40, 400
"""Waves that functions of the action are multiplied with, and columns that all these products may have. Functions that
are linear in the state are too few where the effect of an action changes its sign (a pole that leans to the left or to
the right): on Pendulum, Acrobot, CartPole and Hopper (seeds 100 and 101) errors fall by another tenth. Columns cost
time by their square."""
ROWS_PER_COLUMN = 10
"""Rows for each of these columns at least: with fewer, methods that choose no ridge would fit noise."""
SCALE_ROWS = 10_000
"""Logged states from which the size of the target's usual action is taken: its deviation is then known to 1 %."""
SINGLE_PRECISION_ROWS = 100_000
"""Rows from which on features are in single precision, which halves the time of a pass: rounding then moves the value
by less than a hundredth of its standard error (docs/scale.md), which many rows make small, but not as small."""


@dataclass(frozen=True, eq=False)
class StateRows:
    """The logged rows that have a next state or end the task, with the features V of both states."""

    data: LoggedDataset
    features: StateFeatures
    """V, which knows the time where a time limit restarts the task."""
    rows: Integers
    """The number of each of these rows in the log."""
    ended: Bools
    """Which of them end the task."""
    time: Integers
    """Their time within the episode."""
    first: Array
    """The initial states, in the canonical order of the log."""

    @property
    def precision(self) -> type[np.floating[Any]]:
        """The type of the features' numbers."""
        return np.float32 if len(self.rows) >= SINGLE_PRECISION_ROWS else np.float64

    @cached_property
    def initial(self) -> Floats:
        """V at the initial states, shape (episodes from a reset, features)."""
        if len(self.first) == 0:
            return np.zeros((0, self.features.size))
        return self.features(self.first, np.zeros(len(self.first), dtype=np.int64))

    def initial_batches(self) -> Iterator[tuple[slice, Floats]]:
        """V at the initial states, some at a time; those of a small log are kept."""
        if len(self.first) <= KEPT_ROWS:
            yield slice(0, len(self.first)), self.initial
            return
        for part in chunks(len(self.first), BATCH_ROWS):
            yield part, self.features(self.first[part], np.zeros(part.stop - part.start, dtype=np.int64))

    def at(self, part: slice) -> slice | Integers:
        """The logged rows at some places, as a slice where they follow one another: nothing is copied then."""
        rows = self.rows[part]
        together = rows[-1] - rows[0] + 1 == len(rows)
        return slice(int(rows[0]), int(rows[-1]) + 1) if together else rows

    def fill(self, part: slice, here: Array, there: Array) -> None:
        """Write V(s) and V(s') of the rows at some places; V(s') is 0 in every column after an end."""
        if len(self.rows) <= KEPT_ROWS:
            here[:], there[:] = (values[part] for values in self._kept)
        else:
            self._compute(part, here, there)

    @cached_property
    def _kept(self) -> tuple[Floats, Floats]:
        here, there = (np.empty((len(self.rows), self.features.size)) for _ in range(2))
        for part in chunks(len(self.rows), BATCH_ROWS, of=(self.data.observations, self.data.next_observations)):
            self._compute(part, here[part], there[part])
        return here, there

    def _compute(self, part: slice, here: Array, there: Array) -> None:
        rows, ended, time = self.rows[part], self.ended[part], self.time[part]
        self.features.fill(self.data.observations[self.at(part)], time, here)
        there[:-1] = here[1:]  # V(s') is V(s) of the next row, but for a few rows
        apart = ~self._goes_on[part] & ~ended
        apart[-1] = not ended[-1]  # the next row is in the next batch
        if apart.any():
            there[apart] = self.features(self.data.next_observations[rows[apart]], time[apart] + 1)
        there[ended] = 0

    @cached_property
    def _goes_on(self) -> Bools:
        """Which rows are followed by a row that begins with exactly the state that they led to."""
        data, rows = self.data, self.rows
        inside = np.ones(len(data), dtype=np.bool_)
        inside[data.ends] = False
        goes_on = np.append(rows[1:] == rows[:-1] + 1, False) & inside[rows]
        for part in chunks(len(rows), of=(data.observations, data.next_observations)):
            chosen = part.start + np.flatnonzero(goes_on[part])
            same = data.next_observations[rows[chosen]] == data.observations[rows[chosen] + 1]
            goes_on[chosen] = same.all(axis=tuple(range(1, same.ndim)))  # also of no rows at all
        return goes_on


@dataclass(frozen=True, eq=False)
class PairFeatures:
    """Batches of Φ(s, a) and E_π[Φ(s', ·)] with rewards, in the form that `ope_vpm.linear.moments` takes."""

    states: StateRows
    steps: Steps
    """What follows each row, for estimators that look at steps rather than rows."""
    centred: Array
    """u at each logged row, shape (n, k)."""
    weight: Floats | None = None
    """w of each logged row; None: 1."""
    waves: int = 0
    """How many waves of the state u is multiplied with at most, beside 1 and the coordinates."""
    _memory: Memory = field(default_factory=Memory, repr=False)
    """What was computed from these features and weights, for every discount."""

    def weighted(self, weight: Floats) -> PairFeatures:
        """The same rows with a weight for each logged row; moments are shared by all who give the same array."""
        return replace(self, weight=weight, _memory=self._memory.recall(_memory_of, Same(weight))())

    @property
    def moments(self) -> Moments:
        """The moments of all rows and initial states, made in one pass when they are first asked for."""
        return self._memory.recall(accumulate)(self)

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
        """The number of features of a pair: those of the state, then each u times the first of these."""
        return self.next_size + int(self.centred.shape[1]) * self.action_base

    @property
    def action_base(self) -> int:
        """How many features of the state each u is multiplied with: 1, the coordinates, and as many waves as fit."""
        linear = 1 + self.states.features.linear
        most = min(ACTION_COLUMNS, len(self) // ROWS_PER_COLUMN)
        fitting = most // max(int(self.centred.shape[1]), 1) - linear
        return min(linear + int(np.clip(fitting, 0, self.waves)), self.next_size)

    @property
    def next_size(self) -> int:
        """The number of features of a state: the others have mean 0 under the target."""
        return self.states.features.size

    def __iter__(self) -> Iterator[Batch]:
        """All rows, in batches that share their memory."""
        data, k, base = self.states.data, self.next_size, self.action_base
        length = min(len(self), BATCH_ROWS)
        phi, phi_next = (np.empty((length, size), self.states.precision) for size in (self.size, k))
        for part in chunks(len(self), BATCH_ROWS, of=(data.observations, data.next_observations)):
            count, rows = part.stop - part.start, self.states.at(part)
            here, there = phi[:count], phi_next[:count]
            self.states.fill(part, here[:, :k], there)
            action = here[:, k:].reshape(count, self.centred.shape[1], base)  # a view
            np.multiply(self.centred[rows][:, :, None], here[:, None, :base], out=action)
            weight = None if self.weight is None else self.weight[rows]
            yield Batch(np.arange(part.start, part.stop), here, there, weight, data.rewards[rows])

    def initial(self) -> Iterator[tuple[Floats, None]]:
        """V at the initial states, none of which counts more than another."""
        for _, values in self.states.initial_batches():
            yield values, None

    def initial_values(self, theta: Floats) -> Floats:
        """E_π[Φ(s₀, ·)ᵀθ] at each initial state, for one θ or several columns of them."""
        values: Floats = np.empty((len(self.states.first), *theta.shape[1:]))
        for part, features in self.states.initial_batches():
            values[part] = features @ theta[: self.next_size]
        return values

    def by_logged_row(self, values: Floats) -> Floats:
        """Values of the batches' rows at every logged row; 0 at rows that are left out."""
        spread = np.zeros((len(self.states.data), *values.shape[1:]))
        spread[self.rows] = values
        return spread

    def by_step(self, values: Floats) -> Floats:
        """Values of the batches' rows at every step of the plan."""
        return self.by_logged_row(values)[self.steps.rows]


def _memory_of(weight: Same) -> Memory:
    """A memory of its own for each weighting."""
    return Memory()


def pair_features(
    problem: Problem,
    n_features: int,
    draws: int,
    bandwidth: float = 1.0,
    seed: int | None = None,
    waves: int = WAVES,
) -> PairFeatures:
    """The features of the problem's pairs; those of states are shared by all discounts.

    Args:
        problem: the question.
        n_features: random Fourier features of the state.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
        bandwidth: of the features, in units of the usual one.
        seed: of the features, where it is not the problem's.
        waves: of the state with which functions of the action are multiplied at most.
    """
    steps = problem.steps  # it refuses logs in which nothing follows any step
    chosen = problem.seed if seed is None else seed
    states = problem.of_policy(_state_rows, n_features, problem.time_limit, chosen, bandwidth)
    settings = (n_features, problem.time_limit, chosen, bandwidth, draws, problem.seed, waves)
    memory = problem.of_policy(_memory_of_pairs, *settings)
    return PairFeatures(states, steps, centred_features(problem, draws), waves=waves, _memory=memory)


def _memory_of_pairs(log: Log, policy: TargetPolicy, *settings: object) -> Memory:
    """What is computed for one policy from features with these settings, for all discounts."""
    return Memory()


def _state_rows(
    log: Log, policy: TargetPolicy, n_features: int, time_limit: TimeLimit, seed: int, bandwidth: float
) -> StateRows:
    data = log.data
    clock, usual = clock_of(data, time_limit), None
    if not data.finite:
        rows = log.rows[:: max(1, len(log.rows) // SCALE_ROWS)]
        usual = ActionCoordinates.of(policy, data.observations[rows])
    features = StateFeatures.draw(data, n_features, seed, clock, bandwidth, usual, log.shared(state_encoder))
    ending = ending_rows(data, time_limit)
    rows = np.flatnonzero(ending | data.next_known)
    return StateRows(data, features, rows, ending[rows], times(data, time_limit)[rows], log.initial_observations)


def state_encoder(log: Log) -> Encoder:
    """The scales of a log's states, which all feature maps share."""
    return Encoder.of_states(log.data)


def centred_features(problem: Problem, draws: int = DRAWS) -> Array:
    """One row per logged step. Discrete: 1[a = j] - π(j|s). Continuous: a and a², scaled, less their means under π.

    Args:
        problem: the question.
        draws: target actions per state where the policy's moments have no closed form.
    """
    return problem.of_policy(_centred_features, draws, problem.seed)


def _centred_features(log: Log, policy: TargetPolicy, draws: int, seed: int) -> Array:
    """The same, in the precision of the features; policies that draw do so in the log's canonical order."""
    data, rng = log.data, np.random.default_rng(seed)
    precision = np.float32 if len(data) >= SINGLE_PRECISION_ROWS else np.float64
    scale, out = Standardiser.fit(data.actions), np.empty((0, 0), precision)
    for part in chunks(len(data)):
        rows = log.rows[part]
        if data.discrete_actions:
            probabilities = policy.probabilities(data.observations[rows])
            values = np.eye(probabilities.shape[1])[data.actions[rows]] - probabilities
        else:
            values = _centred_moments(data.observations[rows], data.actions[rows], policy, scale, rng, draws)
        if part.start == 0:
            out = np.empty((len(data), values.shape[1]), precision)
        out[rows] = values
    return out


def _centred_moments(
    observations: Array, actions: Array, policy: TargetPolicy, scale: Standardiser, rng: np.random.Generator, draws: int
) -> Floats:
    """Scaled a and a² of some rows less E_π[a] and E_π[a²] there."""
    first, second = policy.action_moments(observations, rng, draws)
    if first.shape != actions.shape:
        raise ValueError(f"the policy's actions have shape {first.shape}, the data's {actions.shape}: they do not fit")
    logged = scale(policy.clipping.clip(actions))  # as the environment takes an action beyond the bounds
    square = (second - 2 * scale.mean * first + scale.mean**2) / scale.std**2
    return np.hstack([logged - scale(first), logged**2 - square])
