"""Logged steps as batches of features of pairs (s, a), for the passes over rows in `ope_vpm.linear`.

The features of a pair are Φ(s, a) = [V(s), u(s, a)⊗(1, z, some of V's Fourier features)]: V features of the state, z
its standardised coordinates, among them the target's mean action there, and u functions of the action with
E_π[u(s, ·)] = 0. Averaged over the target's actions, those of the next pair are then [V(s'), 0], and no action has to
be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers, chunks
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.linear.moments import Batch, Moments, accumulate
from ope_vpm.linear.passes import Coefficients, GroupSums, apply_to_groups
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.action_functions import (
    ACTION_COLUMNS,
    FOURIER,
    ROWS_PER_COLUMN,
    ActionFunctions,
    centred_features,
    functions_of_action,
)
from ope_vpm.ope.adapter.ends import NOTHING_FOLLOWS, TimeLimit
from ope_vpm.ope.adapter.states import StateFeatures, StateRows, rows_of_log, state_features, state_rows
from ope_vpm.ope.log import Log, Precision
from ope_vpm.ope.memory import Memory, Same, remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

if TYPE_CHECKING:
    from ope_vpm.ope.adapter.pair_stream import Pairs


def any_pairs(
    problem: Problem, n_features: int | None, draws: int, fourier: int = FOURIER, rich: bool = False
) -> Pairs:
    """The features of the problem's pairs, of a log in memory or in parts; those of states are shared by all discounts.

    Args:
        problem: the question.
        n_features: random Fourier features of the state; None: `features_for` the rows of the log.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
        fourier: how many Fourier features of the state functions of the action are multiplied with at most.
        rich: whether continuous actions have more functions than lines and parabolas.
    """
    log, policy, time_limit, seed = problem.log, problem.policy, problem.time_limit, problem.seed
    if not log.data.leads_on(time_limit):
        raise ValueError(NOTHING_FOLLOWS)
    recipe = pair_recipe(log, policy, n_features, draws, seed, time_limit, fourier, rich)
    if log.streamed:
        from ope_vpm.ope.adapter.pair_stream import PairStream  # for logs in parts alone

        return PairStream(log, policy, recipe)
    states = rows_of_log(log, policy, n_features, time_limit, seed)
    return PairFeatures(states, centred_features(problem, draws, rich), recipe, memory=recipe.memory)


def pair_features(problem: Problem, n_features: int | None, draws: int, fourier: int = FOURIER) -> PairFeatures:
    """The features of the pairs of a log that is in memory."""
    pairs = any_pairs(problem, n_features, draws, fourier)
    if not isinstance(pairs, PairFeatures):
        raise TypeError("the rows of a log that is read in parts are not all there")
    return pairs


def on_sample(problem: Problem, pairs: Pairs) -> PairFeatures:
    """Features and weights of a problem's pairs for the rows in the log's sample."""
    log = problem.log
    if log.sample is log:
        assert isinstance(pairs, PairFeatures)
        return pairs
    sampled = of_sample(log, problem.policy, pairs.recipe)
    if not isinstance(pairs, PairFeatures) or pairs.weight is None:
        return sampled
    return sampled.weighted(_weight_at(pairs, Same(log.sample_rows)))


@remembered
def of_sample(log: Log, policy: TargetPolicy, recipe: PairRecipe) -> PairFeatures:
    """The features that a recipe makes of the log's sample."""
    return replace(recipe, precision=log.sample.precision).pairs(log.sample.data, policy)


@remembered
def _weight_at(pairs: PairFeatures, rows: Same) -> Floats:
    assert pairs.weight is not None
    return pairs.weight[rows.array]


@remembered
def pair_recipe(
    log: Log,
    policy: TargetPolicy,
    n_features: int | None,
    draws: int,
    seed: int,
    time_limit: TimeLimit,
    fourier: int,
    rich: bool,
) -> PairRecipe:
    """The recipe of a log's pairs; arguments as in `any_pairs`.

    Each function of the action is multiplied with as many Fourier features of the state as fit.
    """
    features, functions = (
        state_features(log, policy, n_features, time_limit, seed),
        functions_of_action(log, policy, rich),
    )
    width = functions.number(policy, log.sample.data.observations[:1], log.sample.data.actions[:1])
    linear, most = 1 + features.linear, min(ACTION_COLUMNS, log.data.leads_on(time_limit) // ROWS_PER_COLUMN)
    base = min(linear + int(np.clip(most // max(width, 1) - linear, 0, fourier)), features.size)
    return PairRecipe(features, functions, base, draws, seed, time_limit, log.precision)


@dataclass(frozen=True, eq=False)
class PairRecipe:
    """How features of pairs are made from logged rows: all that is chosen beforehand, from the log's sample."""

    features: StateFeatures
    """V."""
    functions: ActionFunctions
    """The functions u of the action."""
    action_base: int
    """How many features of the state each u is multiplied with: 1, the coordinates, and some Fourier features."""
    draws: int
    seed: int
    time_limit: TimeLimit
    precision: Precision
    weighting: Weighting | None = None
    """The weight of each row; None: 1."""
    memory: Memory = field(default_factory=Memory, repr=False)
    """The results that were computed from these features and weights."""

    @remembered
    def weighted(self, weighting: Weighting) -> PairRecipe:
        """This recipe with a weight for each row; moments are computed once for each function."""
        return replace(self, weighting=weighting, memory=Memory())

    def pairs(self, data: LoggedDataset, policy: TargetPolicy) -> PairFeatures:
        """The features of a part of the log."""
        first: Integers = np.flatnonzero(data.from_reset)
        states = state_rows(data, self.features, self.time_limit, first, self.precision)
        rng = np.random.default_rng([self.seed, data.first_row])
        centred = self.functions(data.observations, data.actions, policy, rng, self.draws)
        weight = None if self.weighting is None else self.weighting(data, policy)
        return PairFeatures(states, centred.astype(self.precision, copy=False), self, weight)


class Weighting(Protocol):
    """A function that weighs logged rows."""

    def __call__(self, data: LoggedDataset, policy: TargetPolicy) -> Floats:
        """(n,): the weight of each row."""


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
