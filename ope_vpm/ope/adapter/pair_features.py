"""Logged steps as batches of features of pairs (s, a), for the passes over rows in `ope_vpm.linear`.

The features of a pair are Φ(s, a) = [V(s), u(s, a)⊗(1, z, some of V's waves)]: V features of the state, z its
standardised coordinates, among them what the target usually does there, and u functions of the action with
E_π[u(s, ·)] = 0. Averaged over the target's actions, those of the next pair are then [V(s'), 0], and no action has to
be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, Standardiser
from ope_vpm.linear.moments import Batch, Coefficients, KeptRows, Moments, accumulate, apply_to_groups
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import NEAR, ActionCoordinates, ActionFunctions, Encoder, StateFeatures
from ope_vpm.ope.adapter.ends import TimeLimit, clock_of, ending_rows, times
from ope_vpm.ope.adapter.pair_sums import PairSums
from ope_vpm.ope.log import Log, Precision
from ope_vpm.ope.memory import Memory, Same, remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.target import DRAWS

if TYPE_CHECKING:
    from ope_vpm.ope.adapter.pair_stream import PairRecipe, Pairs

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
ACTION_FREQUENCIES = (1.5, 3.0)
"""Of the waves of an action, in radians for each standard deviation of the logged actions. Root mean squared errors of
LSTD-Q for deterministic targets (note 015, tasks A, seed 100) with none, the first, both and 4.5 as well: bids
0.033, 0.009, 0.007, 0.010; peak 0.33, 0.24, 0.09, 0.04; thresholds 0.084, 0.037, 0.023, 0.024; linear 0.026, 0.031,
0.037, 0.044."""
FEATURES_PER_ROOT, LEAST_FEATURES, MOST_FEATURES = 4, 40, 600
"""Random Fourier features of the state: 4·√rows. Few rows cannot bear many, and many rows show what few miss. On 278
generated tasks errors are 0.90 [0.80, 0.99] of those with 400 for every log, on the 115 that chose nothing 0.80 (note
022). At 10⁵ rows 800 have 0.8 of the error of 400, and take 2.5 times as long; 600 are between."""
KEPT_NUMBERS = 4_000_000
"""Coordinates of states that are kept for all feature maps of a policy: 32 MB in double precision."""
SCALE_ROWS = 10_000
"""Logged states from which the size of the target's usual action is taken: its deviation is then known to 1 %."""


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
class PairFeatures:
    """Batches of Φ(s, a) and E_π[Φ(s', ·)] with rewards, in the form that `ope_vpm.linear.moments` takes."""

    states: StateRows
    centred: Array
    """u at each logged row, shape (n, k)."""
    recipe: PairRecipe
    """How they are made."""
    weight: Floats | None = None
    """w of each logged row; None: 1."""
    memory: Memory = field(default_factory=Memory, repr=False)
    """The results that were computed from these features and weights, for every discount."""

    def weighted(self, weight: Floats) -> PairFeatures:
        """These rows with a weight for each logged row; moments are computed once for each array."""
        return replace(self, weight=weight, memory=memory_of(self, Same(weight)))

    @property
    def moments(self) -> Moments:
        """The moments of all rows and initial states, made in one pass when they are first asked for."""
        return _moments(self)

    @property
    def rows(self) -> Integers:
        """The logged row of each row of the batches."""
        return self.states.rows

    @property
    def rewards(self) -> Floats:
        """The reward of each row of the batches."""
        return self.states.data.rewards[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """The number of features of a pair: those of the state, then each u times the first of these."""
        return self.next_size + int(self.centred.shape[1]) * self.recipe.action_base

    @property
    def next_size(self) -> int:
        """The number of features of a state: the others have mean 0 under the target."""
        return self.states.features.size

    def __iter__(self) -> Iterator[Batch]:
        """All rows, in batches that share their memory."""
        data, k, base = self.states.data, self.next_size, self.recipe.action_base
        length = min(len(self), BATCH_ROWS)
        phi, phi_next = (np.empty((length, size), self.states.precision) for size in (self.size, k))
        # Batches begin at multiples of BATCH_ROWS in the log, whatever rows are left out: so that a part of a log which
        # begins at one has the batches of the whole.
        for logged in chunks(len(data), BATCH_ROWS, of=(data.observations, data.next_observations)):
            part = slice(*np.searchsorted(self.rows, [logged.start, logged.stop]).tolist())
            if part.start == part.stop:
                continue
            count, rows = part.stop - part.start, self.states.at(part)
            here = phi[:count]
            there = self.states.fill(part, here[:, :k], phi_next[:count])
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
        values: Floats = np.empty((len(self.states.first_episodes), *theta.shape[1:]))
        for part, features in self.states.initial_batches():
            values[part] = features @ theta[: self.next_size]
        return values

    def sums(
        self, asked: Sequence[Coefficients], weights: bool = False, kept: Sequence[KeptRows] = ()
    ) -> list[PairSums]:
        """Sums of τ·δ and more over the rows of each episode, in a second pass.

        Args:
            asked: coefficients of shape (features, columns), as of several discounts.
            weights: whether sums of the weights τ are wanted, too.
            kept: where single rows are kept for each of `asked`; empty: nowhere.
        """
        data = self.states.data
        episode, count = data.episode[self.rows], data.n_episodes
        found, rows = [], np.bincount(episode, minlength=count)
        for each, sums in zip(asked, apply_to_groups(self, episode, count, asked, weights, kept), strict=True):
            first = np.zeros((count, each.theta.shape[1]))
            first[self.states.first_episodes] = self.initial_values(each.theta)
            found.append(PairSums(0, sums, rows, first))
        return found

    def by_logged_row(self, values: Floats) -> Floats:
        """Values of the batches' rows at every logged row; 0 at rows that are left out."""
        spread = np.zeros((len(self.states.data), *values.shape[1:]))
        spread[self.rows] = values
        return spread


@remembered
def memory_of(pairs: Pairs, weighting: object) -> Memory:
    """A memory of its own for each weighting."""
    return Memory()


@remembered
def _moments(pairs: PairFeatures) -> Moments:
    return accumulate(pairs)


def features_for(rows: int) -> int:
    """How many random Fourier features of the state a log of so many rows has: 4·√rows, within limits."""
    return int(np.clip(FEATURES_PER_ROOT * rows**0.5, LEAST_FEATURES, MOST_FEATURES))


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


@remembered
def state_encoder(log: Log) -> Encoder:
    """The scales of a log's states, which all feature maps share; those of a long log are its sample's."""
    return Encoder.of_states(log.data if log.data.finite else log.sample.data)


def centred_features(problem: Problem, draws: int = DRAWS, rich: bool = False) -> Array:
    """The functions u of the action at each logged step, (n, k): see `ActionFunctions`.

    Args:
        problem: the question.
        draws: target actions per state where the policy's moments have no closed form.
        rich: as in `any_pairs`.
    """
    return _centred_features(problem.log, problem.policy, draws, problem.seed, rich)


@remembered
def _centred_features(log: Log, policy: TargetPolicy, draws: int, seed: int, rich: bool) -> Array:
    """The functions u at each logged step, in the precision of the features.

    Policies that draw do so in the log's canonical order.

    Those of long logs draw in the order of the log, which may be read in parts.
    """
    data, rng, out = log.data, np.random.default_rng(seed), np.empty((0, 0), log.precision)
    functions = functions_of_action(log, policy, rich)
    for part in chunks(len(data)):
        rows = log.rows[part] if log.sample is log else part
        values = functions(data.observations[rows], data.actions[rows], policy, rng, draws)
        if part.start == 0:
            out = np.empty((len(data), values.shape[1]), log.precision)
        out[rows] = values
    return out


def action_functions(problem: Problem, rich: bool = False) -> ActionFunctions:
    """The functions of the action that a problem's features have."""
    return functions_of_action(problem.log, problem.policy, rich)


@remembered
def functions_of_action(log: Log, policy: TargetPolicy, rich: bool) -> ActionFunctions:
    """Scales from the log's sample; rich ones as far as there is room for them beside the coordinates of states."""
    data = log.sample.data
    if data.discrete_actions:
        return ActionFunctions(None)
    scale, size = Standardiser.fit(data.actions), data.actions.shape[1]
    linear = 1 + state_encoder(log).size + size
    room = min(ACTION_COLUMNS, len(log.data) // ROWS_PER_COLUMN) // linear - len(NEAR)
    if not rich or room < 2 * size:
        return ActionFunctions(scale)
    rows = log.sample.rows[:: max(1, len(log.sample.rows) // SCALE_ROWS)]
    usual = policy.action_moments(data.observations[rows], np.random.default_rng(0))[0]
    apart = np.sqrt(np.mean(np.square(scale(policy.clipping.clip(data.actions[rows])) - scale(usual)), axis=0))
    waves = (room // size - 2) // 2
    return ActionFunctions(scale, np.where(apart > 0, apart, 1.0), ACTION_FREQUENCIES[:waves])
