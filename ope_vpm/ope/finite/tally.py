"""Counts of a log that is read in parts: memory for the different transitions, however many rows there are.

What follows an end is decided by facts about episodes alone, so that every part knows it without the others. It is
what `plan_steps` decides for a log in memory: an ending row is spread over initial states, dealt in a shuffled round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged.streamed import PART_ROWS, Part
from ope_vpm.ope.adapter.ends import NO_INITIAL_STATES, NOTHING_FOLLOWS, OnEnd, TimeLimit, ended_episodes
from ope_vpm.ope.adapter.given import Encoder
from ope_vpm.ope.finite.counts import LoggedSteps, PairCounts, SomeSteps, Sums, second_half
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered

NOTHING = -1
"""The code of the state after a step that nothing follows."""
SPARE = 1 << 18
"""Entries that may wait to be added up, 10 MB: adding each part at once would sort all that is known for every one."""


@remembered
def count_stream(log: Log, on_end: OnEnd, time_limit: TimeLimit, seed: int) -> PairCounts:
    """Count the pairs of a log that is read in parts, in one pass; arguments as in `plan_steps`."""
    plan = planned(log, on_end, time_limit, seed)
    return _numbered(plan, log.total(Tally.of_part, plan).summed(), log)


@remembered
def planned(log: Log, on_end: OnEnd, time_limit: TimeLimit, seed: int) -> StepPlan:
    """The plan of a log that is read in parts, which all passes share."""
    return step_plan(log, on_end, time_limit, seed)


def step_plan(log: Log, on_end: OnEnd, time_limit: TimeLimit, seed: int) -> StepPlan:
    """Decide what follows each row; arguments as in `plan_steps`."""
    data, order = log.data, log.episodes
    if data.leads_on(time_limit) == 0:
        raise ValueError(NOTHING_FOLLOWS)
    encoder = Encoder.fit(data, 1, absorbs=False)
    ended = ended_episodes(data, time_limit)
    end = np.full(data.n_episodes, -1)
    canonical = order[ended[order]]
    end[canonical] = np.arange(len(canonical))
    initial = encoder.states(_initial(log)[log.initial_episodes])
    dealt, copies = np.zeros(0, dtype=np.int64), 1
    if on_end == "restart" and len(canonical):
        if len(initial) == 0:
            raise ValueError(NO_INITIAL_STATES)
        dealt = np.random.default_rng(seed).permutation(initial)
        copies = min(len(initial), max(1, len(data) // len(canonical)))
    return StepPlan(encoder, int(log.facts.actions.largest[0]) + 1, end, initial, dealt, copies, second_half(log))


def _initial(log: Log) -> Array:
    """The first observation of each episode."""
    first: Array = log.facts.episodes.initial
    return first


@dataclass(frozen=True, eq=False)
class StepPlan:
    """What follows each row of a log, and how states and actions are written as numbers."""

    encoder: Encoder
    actions: int
    """How many were seen."""
    end: Integers
    """(episodes,): the number of the end of each episode in the canonical order; -1 where the task did not end."""
    initial: Integers
    """(episodes from a reset,): the codes of the initial states, in the canonical order."""
    dealt: Integers
    """These codes in a shuffled order; empty where nothing restarts."""
    copies: int
    """Initial states over which one ending row is spread."""
    second: Bools
    """(episodes,): whether each is in the second half: see `second_half`."""

    @property
    def width(self) -> int:
        """One more than the number of states, so that `NOTHING` has a place among them."""
        assert self.encoder.shape is not None
        return int(np.prod(self.encoder.shape, dtype=np.int64)) + 1

    def pairs(self, part: Part) -> Integers:
        """The code of each row's pair, s·actions + a."""
        codes: Integers = self.encoder.states(part.observations) * self.actions + part.actions
        return codes

    def steps(self, part: Part) -> Iterator[PartSteps]:
        """The steps of a part, those that go on first, then ends, in pieces that are no longer than a part."""
        ended = self.end[part.first_episode : part.first_episode + part.n_episodes]
        here = (ended >= 0) & part.ends_here
        ends, number = part.ends[here], ended[here]
        inner = np.array(part.next_known)
        inner[ends] = False
        rows = np.flatnonzero(inner)
        if len(rows):
            yield PartSteps(rows, self.encoder.states(part.next_observations[rows]), np.ones(len(rows)), False)
        if not len(self.dealt):
            if len(ends):
                yield PartSteps(ends, np.full(len(ends), NOTHING), np.ones(len(ends)), True)
            return
        many = max(1, PART_ROWS // self.copies)
        for first in range(0, len(ends), many):
            some = slice(first, first + many)
            place = number[some, None] * self.copies + np.arange(self.copies)
            after = self.dealt[place.reshape(-1) % len(self.dealt)]
            yield PartSteps(np.repeat(ends[some], self.copies), after, np.full(len(after), 1 / self.copies), True)


@dataclass(frozen=True, eq=False)
class PartSteps:
    """Some steps of a part."""

    rows: Integers
    """The row of each in the part."""
    after: Integers
    """The code of the state that follows, or `NOTHING`."""
    weight: Floats
    """How much each counts; the copies of one row count 1 together."""
    end: bool
    """Whether the task ends with them."""


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


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of states and pairs, by their codes."""

    states: Integers
    """The code of each state number, rising."""
    pairs: Integers
    """The code of each pair number, rising."""

    def of_states(self, codes: Integers) -> Integers:
        """The number of each state; -1 for `NOTHING`."""
        return np.where(codes == NOTHING, -1, np.searchsorted(self.states, codes))

    def of_pairs(self, codes: Integers) -> Integers:
        """The number of each pair; any number for pairs that were not counted."""
        return np.minimum(np.searchsorted(self.pairs, codes), len(self.pairs) - 1)


def numbers_of(counts: PairCounts, plan: StepPlan) -> Numbers:
    """The numbers that counts have given."""
    return Numbers(counts.labels, counts.labels[counts.state_of_pair] * plan.actions + counts.action_of_pair)


def steps_of_part(
    part: Part, plan: StepPlan, numbers: Numbers, ended: Bools, function: Callable[..., Sums], *settings: Any
) -> Sums:
    """The function of one part."""
    pair, ending = numbers.of_pairs(plan.pairs(part)), np.zeros(len(part), dtype=np.bool_)
    here = ended[part.first_episode : part.first_episode + part.n_episodes] & part.ends_here
    ending[part.ends[here]] = True

    def pieces() -> Iterator[SomeSteps]:
        for steps in plan.steps(part):
            row, end = steps.rows, ending[steps.rows]
            some = pair[row], numbers.of_states(steps.after), steps.weight, part.rewards[row]
            yield SomeSteps(part.first_row + row, *some, part.episode[row], end, end & part.truncated[row])

    return function(LoggedSteps(part, part.first_episode, pieces()), *settings)
