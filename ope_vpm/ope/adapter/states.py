"""Features of states, and the logged rows with those of the states that they begin with and lead to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, FourierFeatures, Standardiser, draw_frequencies
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.action_functions import SCALE_ROWS, ActionCoordinates
from ope_vpm.ope.adapter.ends import Clock, TimeLimit, clock_of, ending_rows, times
from ope_vpm.ope.adapter.given import Encoder, state_encoder
from ope_vpm.ope.log import Log, Precision
from ope_vpm.ope.memory import remembered
from ope_vpm.policy import TargetPolicy
from ope_vpm.threads import cached_property

FARTHEST = 5.0
"""Standard deviations from the mean up to which features tell states apart: a flag that is seldom set would be hundreds
of them away, and its row would decide every regression."""
KEPT_ROWS = 1 << 15
"""State features of at most so many rows are kept in memory, at most 160 MB each for s and s': they are needed in every
pass. Those of longer logs are computed anew."""
FEATURES_PER_ROOT, LEAST_FEATURES, MOST_FEATURES = 4, 40, 600
"""Random Fourier features of the state: 4·√rows. Few rows cannot bear many, and many rows show what few miss. On 278
generated tasks errors are 0.90 [0.80, 0.99] of those with 400 for every log, on the 115 kept aside 0.80 (note 022). At
10⁵ rows 800 have 0.8 of the error of 400, and take 2.5 times as long; 600 are between."""
KEPT_NUMBERS = 4_000_000
"""Coordinates of states that are kept for all feature maps of a policy: 32 MB in double precision."""


@remembered
def state_features(
    log: Log, policy: TargetPolicy, n_features: int | None, time_limit: TimeLimit, seed: int
) -> StateFeatures:
    """V, its scales taken from the log's sample."""
    sample, usual = log.sample, None
    if not log.data.finite:
        rows = sample.rows[:: max(1, len(sample.rows) // SCALE_ROWS)]
        usual = ActionCoordinates.of(policy, sample.data.observations[rows], sample.data.actions[rows])
    clock, encoder = clock_of(log.data, time_limit), state_encoder(log)
    number = features_for(log.data.leads_on(time_limit)) if n_features is None else n_features
    return StateFeatures.draw(sample.data, number, seed, clock, usual, encoder)


def features_for(rows: int) -> int:
    """How many random Fourier features of the state a log of so many rows has: 4·√rows, within limits."""
    return int(np.clip(FEATURES_PER_ROOT * rows**0.5, LEAST_FEATURES, MOST_FEATURES))


@remembered
def rows_of_log(log: Log, policy: TargetPolicy, n_features: int | None, time_limit: TimeLimit, seed: int) -> StateRows:
    """The rows of a log in memory, with the coordinates of their states where these are few."""
    features = state_features(log, policy, n_features, time_limit, seed)
    made = state_rows(log.data, features, time_limit, log.initial_episodes, log.precision)
    if log.sample is not log or features.encoder.shape is not None or len(made.rows) * features.linear > KEPT_NUMBERS:
        return made
    return replace(made, coordinates=_coordinates(log, policy, time_limit, seed))


@remembered
def _coordinates(log: Log, policy: TargetPolicy, time_limit: TimeLimit, seed: int) -> Array:
    """The coordinates of each row's state: the policy, which may be a large network, is asked once for all features."""
    features, data = state_features(log, policy, 0, time_limit, seed), log.data
    states = state_rows(data, features, time_limit, log.initial_episodes, log.precision)
    found = np.empty((len(states.rows), features.linear), states.precision)
    for part in chunks(len(found), BATCH_ROWS, of=[data.observations]):
        found[part] = features.coordinates(data.observations[states.at(part)], states.time[part])
    return found


def state_rows(
    data: LoggedDataset, features: StateFeatures, time_limit: TimeLimit, first: Integers, precision: Precision
) -> StateRows:
    """The rows of a log, or of a part of one, that have a next state or end the task.

    Args:
        data: the rows.
        features: V.
        time_limit: what follows a truncation.
        first: the numbers of the episodes that begin at a reset.
        precision: of the features.
    """
    ending = ending_rows(data, time_limit)
    rows = np.flatnonzero(ending | data.next_known)
    return StateRows(data, features, rows, ending[rows], times(data, time_limit)[rows], first, precision)


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
    first_episodes: Integers
    """The numbers of the episodes that begin at a reset, in the canonical order of the log."""
    precision: Precision
    """The type of the features' numbers."""
    coordinates: Array | None = None
    """The coordinates z of these rows' states, which all feature maps of a policy share; None: made when needed."""

    @property
    def first(self) -> Array:
        """The initial states, in the canonical order of the log."""
        return self.data.observations[self.data.starts[self.first_episodes]]

    @cached_property
    def initial(self) -> Floats:
        """V at the initial states, shape (episodes from a reset, features)."""
        if len(self.first_episodes) == 0:
            return np.zeros((0, self.features.size))
        return self.features(self.first, np.zeros(len(self.first_episodes), dtype=np.int64))

    def initial_batches(self) -> Iterator[tuple[slice, Floats]]:
        """V at the initial states, some at a time; those of a small log are kept."""
        if len(self.first_episodes) <= KEPT_ROWS:
            yield slice(0, len(self.first_episodes)), self.initial
            return
        first = self.first
        for part in chunks(len(first), BATCH_ROWS):
            yield part, self.features(first[part], np.zeros(part.stop - part.start, dtype=np.int64))

    def at(self, part: slice) -> slice | Integers:
        """The logged rows at some places, as a slice where they follow one another: nothing is copied then."""
        rows = self.rows[part]
        together = rows[-1] - rows[0] + 1 == len(rows)
        return slice(int(rows[0]), int(rows[-1]) + 1) if together else rows

    def fill(self, part: slice, here: Array, room: Array) -> Array:
        """Write V(s) of the rows at some places; V(s') is returned, in `room` or where it is kept.

        V(s') is 0 in every column after an end.
        """
        if len(self.rows) <= KEPT_ROWS and self.precision is np.float64:
            here[:] = self._kept[0][part]
            return self._kept[1][part]
        self._compute(part, here, room)
        return room

    @cached_property
    def _kept(self) -> tuple[Floats, Floats]:
        here, there = (np.empty((len(self.rows), self.features.size)) for _ in range(2))
        for part in chunks(len(self.rows), BATCH_ROWS, of=(self.data.observations, self.data.next_observations)):
            self._compute(part, here[part], there[part])
        return here, there

    def _compute(self, part: slice, here: Array, there: Array) -> None:
        rows, ended, time = self.rows[part], self.ended[part], self.time[part]
        if self.coordinates is None:
            self.features.fill(self.data.observations[self.at(part)], time, here)
        else:
            self.features.fourier.fill(self.coordinates[part], here)
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
class StateFeatures:
    """[1, z, cos ωᵀz, sin ωᵀz] with z the standardised (or one-hot) state and ω ~ N(0, I/d).

    With a clock, the time is one more coordinate of z; with a target policy, so is its mean action.
    """

    encoder: Encoder
    """From observations to standardised or one-hot coordinates."""
    fourier: FourierFeatures
    """Random Fourier features of these coordinates."""
    clock: Clock | None = None
    usual: ActionCoordinates | None = None

    @classmethod
    def draw(
        cls,
        data: LoggedDataset,
        number: int,
        seed: int,
        clock: Clock | None = None,
        usual: ActionCoordinates | None = None,
        encoder: Encoder | None = None,
    ) -> StateFeatures:
        """Draw `number` Fourier features with the bandwidth √d, the usual distance of two states.

        Args:
            data: the log.
            number: of the features.
            seed: of the draw.
            clock: the task's, where a time limit ends its episodes.
            usual: the target's mean action, as further coordinates.
            encoder: what `Encoder.of_states` found, where it is known already: it looks at all data.
        """
        encoder = Encoder.of_states(data) if encoder is None else encoder
        size = encoder.size + (clock is not None) + (0 if usual is None else usual.size)
        frequencies = draw_frequencies(size, number, float(np.sqrt(size)), np.random.default_rng(seed))
        fourier = FourierFeatures(Standardiser.unit(size).within(FARTHEST), frequencies, linear=True)
        return cls(encoder, fourier, clock, usual)

    @property
    def size(self) -> int:
        """The number of features."""
        return self.fourier.size

    @property
    def linear(self) -> int:
        """The number of coordinates z, which are features themselves, after the constant."""
        return len(self.fourier.frequencies)

    def coordinates(self, observations: Array, time: Integers | None = None) -> Floats:
        """The coordinates z of each state, shape (n, d), without limits; `time` is for the clock, if there is one."""
        states = self.encoder.states(observations)
        z = states if self.encoder.shape is None else np.eye(prod(self.encoder.shape))[states]
        parts = [z] if self.usual is None else [z, self.usual(observations)]
        if self.clock is not None:
            if time is None:
                raise ValueError("these features have a clock: they need the time of each state")
            parts.append(self.clock(time)[:, None])
        return parts[0] if len(parts) == 1 else np.hstack(parts)

    def limited_coordinates(self, observations: Array, time: Integers | None = None) -> Floats:
        """The coordinates of states, none farther than `FARTHEST` from the mean."""
        return self.fourier.standardise(self.coordinates(observations, time))

    def __call__(self, observations: Array, time: Integers | None = None) -> Floats:
        """The features of each state, shape (n, size)."""
        return self.fourier(self.coordinates(observations, time))

    def fill(self, observations: Array, time: Integers | None, out: Array) -> None:
        """Write the features of each state into `out`, shape (n, size), in its precision, double or single."""
        self.fourier.fill(self.coordinates(observations, time), out)
