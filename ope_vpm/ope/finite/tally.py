"""Counts of transitions that are added up part by part: memory for the different ones, however many rows there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.logged.streamed import Part
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.part_steps import StepPlan, step_plan
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered

SPARE = 1 << 18
"""Entries that may wait to be added up, 10 MB: adding each part at once would sort all that is known for every one."""


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each half of the episodes has seen each transition (s, a, s'), by code, and what it paid.

    Rewards are kept as means and squared distances from them, which are merged without cancellation (Chan, Golub and
    LeVeque 1983): where a transition always pays the same, its variance is 0 to the last digit.
    """

    code: Integers
    """2·(pair · width + state after it + 1), see `StepPlan`, and 1 more in the second half of the episodes. A code may
    come several times until the tally is summed."""
    weight: Floats
    """How much the steps count together."""
    steps: Floats
    """How many there are, each copy of a restart for itself."""
    reward: Floats
    """Their mean reward."""
    spread: Floats
    """Σ weight·(r - mean)²."""
    different: int = 0
    """How many codes there were when it was last summed."""

    @classmethod
    def of_part(cls, part: Part, plan: StepPlan) -> Tally:
        """Count the steps of a part."""
        pairs, found = plan.pairs(part) * plan.width, []
        for steps in plan.steps(part):
            ones = np.ones(len(steps.rows))
            second = plan.second[part.first_episode + part.episode[steps.rows]]
            code, reward = 2 * (pairs[steps.rows] + steps.after + 1) + second, part.rewards[steps.rows]
            found.append(cls(code, steps.weight, ones, reward, np.zeros_like(ones)).summed())
        return cls.joined(found)

    @classmethod
    def joined(cls, tallies: list[Tally]) -> Tally:
        """One after another, not summed."""
        none: Floats = np.zeros(0)
        all_of = [cls(np.zeros(0, dtype=np.int64), none, none, none, none), *tallies]
        names = ("code", "weight", "steps", "reward", "spread")
        columns = {name: np.concatenate([getattr(each, name) for each in all_of]) for name in names}
        return cls(**columns, different=max(each.different for each in all_of))

    def merge(self, other: Tally) -> Tally:
        """The tally of both; summed whenever as many entries wait as there are different ones."""
        both = Tally.joined([self, other])
        return both.summed() if len(both.code) > 2 * both.different + SPARE else both

    def summed(self) -> Tally:
        """This tally with every code once, rising."""
        if len(self.code) == 0:
            return self
        order = np.argsort(self.code, kind="stable")
        code = self.code[order]
        first = np.flatnonzero(np.diff(code, prepend=-1))
        weight, reward = self.weight[order], self.reward[order]
        total = np.add.reduceat(weight, first)
        mean = np.add.reduceat(weight * reward, first) / total
        apart = reward - np.repeat(mean, np.diff(first, append=len(code)))
        spread = np.add.reduceat(self.spread[order] + weight * apart**2, first)
        return Tally(code[first], total, np.add.reduceat(self.steps[order], first), mean, spread, len(first))


@remembered
def count_stream(log: Log, on_end: OnEnd, time_limit: TimeLimit, seed: int) -> PairCounts:
    """Count the pairs of a log that is read in parts, in one pass; arguments as in `plan_steps`."""
    plan = planned(log, on_end, time_limit, seed)
    return _numbered(plan, log.total(Tally.of_part, plan).summed(), log)


@remembered
def planned(log: Log, on_end: OnEnd, time_limit: TimeLimit, seed: int) -> StepPlan:
    """The plan of a log that is read in parts, which all passes share."""
    return step_plan(log, on_end, time_limit, seed)


def _numbered(plan: StepPlan, tally: Tally, log: Log) -> PairCounts:
    """The counts with states and pairs numbered from 0, as those of a log in memory."""
    transition, half = np.divmod(tally.code, 2)
    pair_code, after = np.divmod(transition, plan.width)
    after -= 1
    code, pair = np.unique(pair_code, return_inverse=True)
    labels = np.unique(np.concatenate([code // plan.actions, after[after >= 0], plan.initial]))
    observations = plan.encoder.observations(labels, log.data.head.observations)
    assert observations is not None  # states without codes are not counted in parts
    return PairCounts(
        labels=labels,
        observations=observations,
        pair=pair,
        next_state=np.where(after >= 0, np.searchsorted(labels, after), -1),
        weight=tally.weight,
        rewards=tally.reward,
        state_of_pair=np.searchsorted(labels, code // plan.actions),
        action_of_pair=code % plan.actions,
        initial_states=np.searchsorted(labels, plan.initial),
        initial_weight=np.ones(len(plan.initial)),
        second=half == 1,
        steps=tally.steps,
        spread=tally.spread,
    )
