"""Logged steps as batches of features of pairs (s, a), for the passes over rows in `ope_vpm.linear`.

The features of a pair are Φ(s, a) = [V(s), u(s, a)⊗(1, z, some of V's Fourier features)]: V features of the state, z
its standardised coordinates, among them the target's mean action there, and u functions of the action with
E_π[u(s, ·)] = 0. Averaged over the target's actions, those of the next pair are then [V(s'), 0], and no action has to
be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS, Standardiser
from ope_vpm.linear.moments import Batch, Moments, accumulate
from ope_vpm.linear.passes import Coefficients, GroupSums, apply_to_groups
from ope_vpm.ope.adapter.state_features import NEAR, ActionFunctions
from ope_vpm.ope.adapter.state_rows import SCALE_ROWS, StateRows, state_encoder
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import Memory, Same, remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy
from ope_vpm.policy.target import DRAWS

if TYPE_CHECKING:
    from ope_vpm.ope.adapter.pair_stream import PairRecipe, Pairs

FOURIER, ACTION_COLUMNS = 40, 400
"""Waves that functions of the action are multiplied with, and columns that all these products may have. Functions that
are linear in the state are too few where the effect of an action changes its sign (a pole that leans to the left or to
the right): on Pendulum, Acrobot, CartPole and Hopper (seeds 100 and 101) errors fall by another tenth. Columns cost
time by their square."""
ROWS_PER_COLUMN = 10
"""Rows for each of these columns at least: with fewer, methods that choose no ridge would fit noise."""
ACTION_FREQUENCIES = (1.5, 3.0)
"""Frequencies of the Fourier features of an action, in radians for each standard deviation of the logged actions. Root
mean squared errors of LSTD-Q for deterministic targets (note 015, tasks A, seed 100) with none, the first, both and 4.5
as well: bids 0.033, 0.009, 0.007, 0.010; peak 0.33, 0.24, 0.09, 0.04; thresholds 0.084, 0.037, 0.023, 0.024; linear
0.026, 0.031, 0.037, 0.044."""


@dataclass(frozen=True)
class PairSums:
    """Sums of a second pass over the rows of each episode, for m columns of coefficients; those of parts are merged."""

    place: int
    """The number of the first episode."""
    groups: GroupSums
    """Over the rows of each episode."""
    rows: Integers
    """(episodes,): how many there are."""
    first: Floats
    """(episodes, m): E_π[Φ(s₀, ·)ᵀθ] at the initial states; 0 where an episode does not begin here at a reset."""

    def merge(self, other: PairSums) -> PairSums:
        """The sums of both parts; an episode may have rows in both."""
        place, total = min(self.place, other.place), max(self._last, other._last)
        mine, theirs = (slice(each.place - place, each._last - place) for each in (self, other))
        rows = np.zeros(total - place, dtype=np.int64)
        first = np.zeros((total - place, self.first.shape[1]))
        for part, where in ((self, mine), (other, theirs)):
            rows[where] += part.rows
            first[where] += part.first
        return PairSums(place, self.groups.merge(other.groups, mine, theirs), rows, first)

    @property
    def _last(self) -> int:
        return self.place + len(self.rows)


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
    @remembered
    def moments(self) -> Moments:
        """The moments of all rows and initial states, made in one pass when they are first asked for."""
        return accumulate(self)

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

    def sums(self, asked: Sequence[Coefficients], weights: bool = False) -> list[PairSums]:
        """Sums of τ·δ and more over the rows of each episode, in a second pass.

        Args:
            asked: coefficients of shape (features, columns), as of several discounts.
            weights: whether sums of the weights τ are wanted, too.
        """
        data = self.states.data
        episode, count = data.episode[self.rows], data.n_episodes
        found, rows = [], np.bincount(episode, minlength=count)
        for each, sums in zip(asked, apply_to_groups(self, episode, count, asked, weights), strict=True):
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
    fourier = (room // size - 2) // 2
    return ActionFunctions(scale, np.where(apart > 0, apart, 1.0), ACTION_FREQUENCIES[:fourier])
