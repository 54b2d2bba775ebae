"""Features of the pairs of a log that is too long to keep them: how they are made of some rows, and sums over parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Coefficients, Moments, accumulate
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.streamed import Part
from ope_vpm.ope.adapter.encoding import ActionFunctions, StateFeatures
from ope_vpm.ope.adapter.ends import TimeLimit, ended_episodes
from ope_vpm.ope.adapter.pair_features import PairFeatures, Result, memory_of, state_rows
from ope_vpm.ope.adapter.pair_sums import PairSums
from ope_vpm.ope.log import Log, Memory, Precision
from ope_vpm.policy import TargetPolicy


@dataclass(frozen=True, eq=False)
class PairRecipe:
    """How features of pairs are made from logged rows: all that is chosen beforehand, from the log's sample."""

    features: StateFeatures
    """V."""
    functions: ActionFunctions
    """The functions u of the action."""
    action_base: int
    """The number of state features that each u is multiplied with: see `PairFeatures`."""
    draws: int
    seed: int
    time_limit: TimeLimit
    precision: Precision
    weighting: Weighting | None = None
    """The weight of each row; None: 1."""

    def pairs(self, data: LoggedDataset, policy: TargetPolicy) -> PairFeatures:
        """The features of a part of the log."""
        first: Integers = np.flatnonzero(data.from_reset)
        states = state_rows(data, self.features, self.time_limit, first, self.precision)
        rng = np.random.default_rng([self.seed, data.first_row])
        centred = self.functions(data.observations, data.actions, policy, rng, self.draws)
        weight = None if self.weighting is None else self.weighting(data, policy)
        return PairFeatures(states, centred.astype(self.precision, copy=False), self.action_base, weight)


class Weighting(Protocol):
    """A function that weighs logged rows."""

    def __call__(self, data: LoggedDataset, policy: TargetPolicy) -> Floats:
        """(n,): the weight of each row."""


@dataclass(frozen=True, eq=False)
class PairStream:
    """Features of the pairs of a log that is read in parts: each pass reads it once, and sums are all that is kept."""

    log: Log
    policy: TargetPolicy
    recipe: PairRecipe
    _memory: Memory = field(default_factory=Memory, repr=False)

    def weighted_by(self, weighting: Weighting) -> PairStream:
        """These rows with a weight for each; moments are computed once for each function."""
        recipe = replace(self.recipe, weighting=weighting)
        return replace(self, recipe=recipe, _memory=self._memory.recall(memory_of, weighting)())

    def on_sample(self) -> PairFeatures:
        """These features and weights for the rows in the log's sample."""
        return self._memory.recall(of_sample)(self.recipe, self.log, self.policy)

    def sample_weight(self) -> Floats | None:
        """The weights of the sample's rows; None: 1."""
        return self.on_sample().weight

    @property
    def moments(self) -> Moments:
        """The moments of all rows and initial states, made in one pass when they are first asked for."""
        return self._memory.recall(_moments_of_stream)(self)

    def sums(self, asked: Sequence[Coefficients], weights: bool = False) -> list[PairSums]:
        """As `PairFeatures.sums`, over all parts."""
        return self.log.total(_sums_of_part, self.policy, self.recipe, asked, weights).each

    def remembered(self, make: Callable[..., Result], *settings: Any) -> Callable[..., Result]:
        """As `PairFeatures.remembered`."""
        return self._memory.recall(make, *settings)

    @property
    def clock(self) -> int | None:
        """The length of episodes that a time limit ends, where the features know the time."""
        clock = self.recipe.features.clock
        return None if clock is None else clock.length

    def __len__(self) -> int:
        return self.log.data.leads_on(self.recipe.time_limit)

    @property
    def dropped(self) -> int:
        """Logged rows left out because the state after them is unknown."""
        return len(self.log.data) - len(self)

    @property
    def ended(self) -> int:
        """How many rows end the task."""
        return int(ended_episodes(self.log.data, self.recipe.time_limit).sum())


Pairs = PairFeatures | PairStream
"""Features of the pairs of a log that is in memory, or is not."""


def _moments_of_stream(stream: PairStream) -> Moments:
    return stream.log.total(_moments_of_part, stream.policy, stream.recipe)


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


def of_sample(recipe: PairRecipe, log: Log, policy: TargetPolicy) -> PairFeatures:
    """The features that a recipe makes of the log's sample."""
    return replace(recipe, precision=log.sample.precision).pairs(log.sample.data, policy)
