"""Logged steps as batches of features of pairs (s, a), for the passes over rows in `ope_vpm.linear`.

The features of a pair are Φ(s, a) = [V(s), u(s, a)⊗(1, z, some of V's waves)]: V features of the state, z its
standardised coordinates, among them what the target usually does there, and u functions of the action with
E_π[u(s, ·)] = 0. Averaged over the target's actions, those of the next pair are then [V(s'), 0], and no action has to
be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, Standardiser
from ope_vpm.linear.moments import Batch, Coefficients, KeptRows, Moments, accumulate, apply_to_groups
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import NEAR, ActionCoordinates, ActionFunctions, Encoder, StateFeatures
from ope_vpm.ope.adapter.ends import (
    NOTHING_FOLLOWS,
    Steps,
    TimeLimit,
    clock_of,
    ending_rows,
    times,
)
from ope_vpm.ope.adapter.pair_sums import PairSums
from ope_vpm.ope.log import Log, Memory, Precision, Same
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.target import DRAWS

if TYPE_CHECKING:
    from ope_vpm.ope.adapter.pair_stream import Pairs

Result = TypeVar("Result")

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
    coordinates: Callable[[], Array] | None = None
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
            self.features.fourier.fill(self.coordinates()[part], here)
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
    action_base: int
    """How many features of the state each u is multiplied with: 1, the coordinates, and some waves."""
    weight: Floats | None = None
    """w of each logged row; None: 1."""
    plan: Callable[[], Steps] | None = None
    """The steps that follow the rows, for estimators that look at steps rather than rows."""
    sampled: Callable[[], PairFeatures] | None = None
    """These features for the log's sample, without weights."""
    sample_rows: Callable[[], Integers] | None = None
    """The logged rows that are in the sample."""
    _memory: Memory = field(default_factory=Memory, repr=False)
    """The results that were computed from these features and weights, for every discount."""

    def weighted(self, weight: Floats) -> PairFeatures:
        """These rows with a weight for each logged row; moments are computed once for each array."""
        return replace(self, weight=weight, _memory=self._memory.recall(memory_of, Same(weight))())

    def on_sample(self) -> PairFeatures:
        """These features and weights for the rows in the log's sample."""
        if self.sampled is None:
            return self
        weight = self.sample_weight()
        return self.sampled() if weight is None else self.sampled().weighted(weight)

    def sample_weight(self) -> Floats | None:
        """The weights of the sample's rows; None: 1."""
        if self.weight is None or self.sample_rows is None:
            return self.weight
        return self._memory.recall(_picked)(self.weight, self.sample_rows())

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
    def next_size(self) -> int:
        """The number of features of a state: the others have mean 0 under the target."""
        return self.states.features.size

    def __iter__(self) -> Iterator[Batch]:
        """All rows, in batches that share their memory."""
        data, k, base = self.states.data, self.next_size, self.action_base
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

    def remembered(self, make: Callable[..., Result], *settings: Any) -> Callable[..., Result]:
        """A function whose results are kept with these features and weights, for every discount: see `Memory`."""
        return self._memory.recall(make, *settings)

    @property
    def steps(self) -> Steps:
        """The steps that follow the rows."""
        if self.plan is None:
            raise TypeError("these rows are a part of a log: what follows each of them is not planned")
        return self.plan()

    @property
    def ended(self) -> int:
        """How many rows end the task."""
        return int(self.states.ended.sum())

    @property
    def dropped(self) -> int:
        """Logged rows left out because the state after them is unknown."""
        return len(self.states.data) - len(self)

    def by_logged_row(self, values: Floats) -> Floats:
        """Values of the batches' rows at every logged row; 0 at rows that are left out."""
        spread = np.zeros((len(self.states.data), *values.shape[1:]))
        spread[self.rows] = values
        return spread

    def by_step(self, values: Floats) -> Floats:
        """Values of the batches' rows at every step of the plan."""
        return self.by_logged_row(values)[self.steps.rows]


def _picked(weight: Floats, rows: Integers) -> Floats:
    return weight[rows]


def memory_of(weight: object) -> Memory:
    """A memory of its own for each weighting."""
    return Memory()


def any_pairs(
    problem: Problem,
    n_features: int,
    draws: int,
    waves: int = WAVES,
    rich: bool = False,
) -> Pairs:
    """The features of the problem's pairs, of a log in memory or in parts; those of states are shared by all discounts.

    Args:
        problem: the question.
        n_features: random Fourier features of the state.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
        waves: of the state with which functions of the action are multiplied at most.
        rich: whether continuous actions have more functions than lines and parabolas.
    """
    if not problem.data.leads_on(problem.time_limit):
        raise ValueError(NOTHING_FOLLOWS)
    features = problem.of_policy(_state_features, n_features, problem.time_limit, problem.seed)
    memory = problem.of_policy(_memory_of_pairs, n_features, problem.time_limit, problem.seed, draws, waves, rich)
    base = problem.of_policy(_action_base, features, waves, problem.time_limit, rich)
    log, policy = problem.log, problem.policy
    if log.sample is log:
        states = problem.of_policy(_state_rows, features, problem.time_limit)
        centred = centred_features(problem, draws, rich)
        return PairFeatures(states, centred, base, plan=lambda: problem.steps, _memory=memory)
    from ope_vpm.ope.adapter.pair_stream import PairRecipe, PairStream, of_sample  # which builds upon this module

    functions = action_functions(problem, rich)
    recipe = PairRecipe(features, functions, base, draws, problem.seed, problem.time_limit, log.precision)
    if log.streamed:
        return PairStream(log, policy, recipe, _memory=memory)
    return PairFeatures(
        problem.of_policy(_state_rows, features, problem.time_limit),
        centred_features(problem, draws, rich),
        base,
        plan=lambda: problem.steps,
        sampled=lambda: memory.recall(of_sample)(recipe, log, policy),
        sample_rows=lambda: log.sample_rows,
        _memory=memory,
    )


def pair_features(
    problem: Problem,
    n_features: int,
    draws: int,
    waves: int = WAVES,
    rich: bool = False,
) -> PairFeatures:
    """The features of the pairs of a log that is in memory."""
    pairs = any_pairs(problem, n_features, draws, waves, rich)
    if not isinstance(pairs, PairFeatures):
        raise TypeError("the rows of a log that is read in parts are not all there")
    return pairs


def _memory_of_pairs(log: Log, policy: TargetPolicy, *settings: object) -> Memory:
    """The cache of results from features with these settings, for one policy and all discounts."""
    return Memory()


def _state_features(log: Log, policy: TargetPolicy, n_features: int, time_limit: TimeLimit, seed: int) -> StateFeatures:
    """V, its scales taken from the log's sample."""
    sample, usual = log.sample, None
    if not log.data.finite:
        rows = sample.rows[:: max(1, len(sample.rows) // SCALE_ROWS)]
        usual = ActionCoordinates.of(policy, sample.data.observations[rows], sample.data.actions[rows])
    clock, encoder = clock_of(log.data, time_limit), log.shared(state_encoder)
    return StateFeatures.draw(sample.data, n_features, seed, clock, usual, encoder)


def _state_rows(log: Log, policy: TargetPolicy, features: StateFeatures, time_limit: TimeLimit) -> StateRows:
    made = state_rows(log.data, features, time_limit, log.initial_episodes, log.precision)
    if log.sample is not log or features.encoder.shape is not None or len(made.rows) * features.linear > KEPT_NUMBERS:
        return made
    shared = log.memory_of(policy).lent().recall(_coordinates, time_limit)
    return replace(made, coordinates=lambda: shared(made))


def _coordinates(states: StateRows, time_limit: TimeLimit) -> Array:
    """The coordinates of each row's state: the policy, which may be a large network, is asked once for all features."""
    data, found = states.data, np.empty((len(states.rows), states.features.linear), states.precision)
    for part in chunks(len(found), BATCH_ROWS, of=[data.observations]):
        found[part] = states.features.coordinates(data.observations[states.at(part)], states.time[part])
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


def _action_base(
    log: Log, policy: TargetPolicy, features: StateFeatures, waves: int, time_limit: TimeLimit, rich: bool
) -> int:
    """How many features of the state each function of the action is multiplied with: as many waves as fit."""
    data, functions = log.sample.data, log.memory_of(policy).recall(_action_functions, rich)(log, policy)
    width = functions.number(policy, data.observations[:1], data.actions[:1])
    linear = 1 + features.linear
    most = min(ACTION_COLUMNS, log.data.leads_on(time_limit) // ROWS_PER_COLUMN)
    return min(linear + int(np.clip(most // max(width, 1) - linear, 0, waves)), features.size)


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
    return problem.of_policy(_centred_features, draws, problem.seed, rich)


def _centred_features(log: Log, policy: TargetPolicy, draws: int, seed: int, rich: bool) -> Array:
    """The functions u at each logged step, in the precision of the features.

    Policies that draw do so in the log's canonical order.

    Those of long logs draw in the order of the log, which may be read in parts.
    """
    data, rng, out = log.data, np.random.default_rng(seed), np.empty((0, 0), log.precision)
    functions = log.memory_of(policy).recall(_action_functions, rich)(log, policy)
    for part in chunks(len(data)):
        rows = log.rows[part] if log.sample is log else part
        values = functions(data.observations[rows], data.actions[rows], policy, rng, draws)
        if part.start == 0:
            out = np.empty((len(data), values.shape[1]), log.precision)
        out[rows] = values
    return out


def action_functions(problem: Problem, rich: bool = False) -> ActionFunctions:
    """The functions of the action that a problem's features have."""
    return problem.of_policy(_action_functions, rich)


def _action_functions(log: Log, policy: TargetPolicy, rich: bool) -> ActionFunctions:
    """Scales from the log's sample; rich ones as far as there is room for them beside the coordinates of states."""
    data = log.sample.data
    if data.discrete_actions:
        return ActionFunctions(None)
    scale, size = Standardiser.fit(data.actions), data.actions.shape[1]
    linear = 1 + log.shared(state_encoder).size + size
    room = min(ACTION_COLUMNS, len(log.data) // ROWS_PER_COLUMN) // linear - len(NEAR)
    if not rich or room < 2 * size:
        return ActionFunctions(scale)
    rows = log.sample.rows[:: max(1, len(log.sample.rows) // SCALE_ROWS)]
    usual = policy.action_moments(data.observations[rows], np.random.default_rng(0))[0]
    apart = np.sqrt(np.mean(np.square(scale(policy.clipping.clip(data.actions[rows])) - scale(usual)), axis=0))
    waves = (room // size - 2) // 2
    return ActionFunctions(scale, np.where(apart > 0, apart, 1.0), ACTION_FREQUENCIES[:waves])
