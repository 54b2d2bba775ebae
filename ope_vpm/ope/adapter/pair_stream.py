"""Features of the pairs of a log that is too long to keep them: how they are made of some rows, and sums over parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Moments, accumulate
from ope_vpm.linear.passes import Coefficients
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.streamed import Part
from ope_vpm.ope.adapter.ends import NOTHING_FOLLOWS, TimeLimit
from ope_vpm.ope.adapter.pair_features import (
    ACTION_COLUMNS,
    FOURIER,
    ROWS_PER_COLUMN,
    PairFeatures,
    PairSums,
    centred_features,
    functions_of_action,
)
from ope_vpm.ope.adapter.state_features import ActionFunctions, StateFeatures
from ope_vpm.ope.adapter.state_rows import rows_of_log, state_features, state_rows
from ope_vpm.ope.log import Log, Precision
from ope_vpm.ope.memory import Memory, Same, remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy


class Weighting(Protocol):
    """A function that weighs logged rows."""

    def __call__(self, data: LoggedDataset, policy: TargetPolicy) -> Floats:
        """(n,): the weight of each row."""


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
class PairStream:
    """Features of the pairs of a log that is read in parts: each pass reads it once, and sums are all that is kept."""

    log: Log
    policy: TargetPolicy
    recipe: PairRecipe

    @property
    def memory(self) -> Memory:
        """The results that were computed from these features and weights, for every discount."""
        return self.recipe.memory

    @property
    @remembered
    def moments(self) -> Moments:
        """The moments of all rows and initial states, made in one pass when they are first asked for."""
        return self.log.total(_moments_of_part, self.policy, self.recipe)

    def sums(self, asked: Sequence[Coefficients], weights: bool = False) -> list[PairSums]:
        """As `PairFeatures.sums`, over all parts."""
        return self.log.total(_sums_of_part, self.policy, self.recipe, asked, weights).each

    def __len__(self) -> int:
        return self.log.data.leads_on(self.recipe.time_limit)


Pairs = PairFeatures | PairStream
"""Features of the pairs of a log that is in memory, or is not."""


def _moments_of_part(part: Part, policy: TargetPolicy, recipe: PairRecipe) -> Moments:
    return accumulate(recipe.pairs(part, policy))


@dataclass(frozen=True)
class _SumsOfAll:
    """The sums for each of several sets of coefficients."""

    each: list[PairSums]

    def merge(self, other: _SumsOfAll) -> _SumsOfAll:
        """The sums of both parts."""
        return _SumsOfAll([one.merge(two) for one, two in zip(self.each, other.each, strict=True)])


def _sums_of_part(
    part: Part, policy: TargetPolicy, recipe: PairRecipe, asked: Sequence[Coefficients], weights: bool
) -> _SumsOfAll:
    found = recipe.pairs(part, policy).sums(asked, weights)
    return _SumsOfAll([replace(each, place=part.first_episode) for each in found])


@remembered
def of_sample(log: Log, policy: TargetPolicy, recipe: PairRecipe) -> PairFeatures:
    """The features that a recipe makes of the log's sample."""
    return replace(recipe, precision=log.sample.precision).pairs(log.sample.data, policy)


@remembered
def _weight_at(pairs: PairFeatures, rows: Same) -> Floats:
    assert pairs.weight is not None
    return pairs.weight[rows.array]


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
        return PairStream(log, policy, recipe)
    states = rows_of_log(log, policy, n_features, time_limit, seed)
    return PairFeatures(states, centred_features(problem, draws, rich), recipe, memory=recipe.memory)


def pair_features(
    problem: Problem, n_features: int | None, draws: int, fourier: int = FOURIER, rich: bool = False
) -> PairFeatures:
    """The features of the pairs of a log that is in memory."""
    pairs = any_pairs(problem, n_features, draws, fourier, rich)
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
    if isinstance(pairs, PairStream) or pairs.weight is None:
        return sampled
    return sampled.weighted(_weight_at(pairs, Same(log.sample_rows)))
