"""The steps of one part of a log of finite states: their codes, and where the ends of episodes restart.

What follows an end is decided by facts about episodes alone, so that every part knows it without the others. It is
what `plan_steps` decides for a log in memory: an ending row is spread over initial states, dealt in a shuffled round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged.streamed import PART_ROWS, Part
from ope_vpm.ope.adapter.encoding import Encoder
from ope_vpm.ope.adapter.ends import NO_INITIAL_STATES, NOTHING_FOLLOWS, OnEnd, TimeLimit, ended_episodes
from ope_vpm.ope.finite.counts import second_half
from ope_vpm.ope.log import Log

NOTHING = -1
"""The code of the state after a step that nothing follows."""


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
