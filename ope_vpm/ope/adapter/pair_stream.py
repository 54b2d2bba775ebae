"""Features of the pairs of a log that is too long to keep them: sums over its parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ope_vpm.linear.moments import Moments, accumulate
from ope_vpm.linear.passes import Coefficients
from ope_vpm.logged.streamed import Part
from ope_vpm.logged.sums import Several
from ope_vpm.ope.adapter.pair_features import PairFeatures, PairRecipe, PairSums
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.policy import TargetPolicy


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


def _sums_of_part(
    part: Part, policy: TargetPolicy, recipe: PairRecipe, asked: Sequence[Coefficients], weights: bool
) -> Several:
    found = recipe.pairs(part, policy).sums(asked, weights)
    return Several([replace(each, place=part.first_episode) for each in found])
