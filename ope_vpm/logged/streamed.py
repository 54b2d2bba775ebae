"""A log that is read in parts: what is known of it as a whole, and its rows some ten thousand at a time.

Nothing that grows with the number of rows is kept in memory, only a few numbers for each episode. A part is a run of
rows that begins at a multiple of `PART_ROWS`, wherever episodes begin and end; each part knows which episodes its rows
belong to and how much of them came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode_marks import EpisodeTable, RewardFacts
from ope_vpm.logged.spaces import Space, state_sizes
from ope_vpm.logged.sums import Asked, Result, Source, each_of_part, merged, read_ahead, runs
from ope_vpm.threads import cached_property, gathered

PART_ROWS = 1 << 16
"""Rows of a part: 20 MB of 40 columns, and a multiple of the batches in which features are computed, so that these are
the same as those of a log in memory."""
HEAD_ROWS = 1000
"""First rows by which states, actions and policies are recognised."""

Rows = TypeVar("Rows", bound=LoggedDataset)


@dataclass(frozen=True, eq=False, repr=False)
class Part(LoggedDataset):
    """Some rows of a log; its first episode may have begun before them, and its last one may go on after them."""

    first_row: int = 0
    """The number of the first row in the log."""
    first_episode: int = 0
    """The number of its first episode in the log."""
    whole: EpisodeTable | None = None
    """The whole episodes to which the rows belong."""
    log_limit: int | None = None
    """The time limit that the whole log shows."""
    earlier: int = 0
    """How many rows of the first episode came before."""
    beyond: Array | None = None
    """The observation of the row after these; None after the last row of the log."""

    @cached_property
    def table(self) -> EpisodeTable:
        """The lengths and ends of the whole episodes."""
        assert self.whole is not None
        return self.whole

    @property
    def limit(self) -> int | None:
        """The time limit that the whole log shows."""
        return self.log_limit

    @cached_property
    def time(self) -> Integers:
        """Steps since the first row of each row's episode, in this part or before it."""
        time: Integers = np.arange(len(self)) - np.repeat(self.starts, self.lengths)
        time[: int(self.lengths[0])] += self.earlier
        return time

    @property
    def ends_here(self) -> Bools:
        """(episodes,): whether an episode's last row is among these rows."""
        here = np.ones(self.n_episodes, dtype=np.bool_)
        here[-1] = self.time[-1] + 1 == self.table.lengths[-1]
        return here


@dataclass(frozen=True)
class Charge:
    """Other rewards: keep·r - price·1[the task ends with this row]."""

    keep: float
    price: float
    time_limit: str
    """Whether a truncation ends the task: see `EpisodeTable.ended`."""

    def __call__(self, part: Rows) -> Rows:
        """Some rows with these rewards in place of theirs."""
        ended = part.table.ended(self.time_limit, part.limit)
        rewards = self.keep * part.rewards
        rewards[part.ends[ended & part.ends_here]] -= self.price
        return replace(part, rewards=rewards)


def head_of(source: Source) -> LoggedDataset:
    """The first rows."""
    (head,) = source.read(0, min(HEAD_ROWS, source.rows), HEAD_ROWS)
    return head


@dataclass(frozen=True, eq=False)
class StreamedDataset:
    """A log that is read in parts; build it by `ope_vpm.scan_dataset`.

    It is asked the same questions as a `LoggedDataset`, but for its rows, of which there may be too many.
    """

    source: Source
    table: EpisodeTable
    """The lengths and ends of the episodes."""
    head: LoggedDataset
    """Its first rows."""
    progress: Callable[[str, int], Callable[[int], None]] | None = None
    """Called with a title and the number of rows of each pass: it returns what is called with the rows done."""
    facts: Any = None
    """The `Facts` that a pass over all rows has found; None before it."""
    part_rows: int = field(default_factory=lambda: PART_ROWS)
    """Rows of a part."""
    charge: Charge | None = None
    """The rewards that are asked about, where they are not the logged ones."""

    def __len__(self) -> int:
        return self.source.rows

    def __repr__(self) -> str:
        shown = repr(self.head).partition(", ")[2].partition(", ")[2].rstrip(")")
        return f"StreamedDataset({len(self)} steps, {self.n_episodes} episodes, {shown})"

    @property
    def n_episodes(self) -> int:
        """How many episodes there are."""
        return len(self.table)

    @property
    def lengths(self) -> Integers:
        """Steps of each episode."""
        return self.table.lengths

    @property
    def from_reset(self) -> Bools:
        """(episodes,): whether the first row follows a reset."""
        return self.table.from_reset

    @cached_property
    def starts(self) -> Integers:
        """The first row of each episode."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def ends(self) -> Integers:
        """The last row of each episode."""
        return self.starts + self.lengths - 1

    @property
    def limit(self) -> int | None:
        """The task's time limit, as the log shows it."""
        return self.table.limit

    @property
    def finite(self) -> bool:
        """Whether observations are integers: discrete or multi-discrete."""
        return self.head.finite

    @property
    def discrete_actions(self) -> bool:
        """Whether actions are integers."""
        return self.head.discrete_actions

    @property
    def observation_space(self) -> Space | None:
        """The space of the states, where known."""
        return self.head.observation_space

    @property
    def action_space(self) -> Space | None:
        """The space of the actions, where known."""
        return self.head.action_space

    def of_facts(self, facts: Any) -> StreamedDataset:
        """This log with the facts that a pass over its rows has found."""
        return replace(self, facts=facts)

    @property
    def n_actions(self) -> int | None:
        """How many discrete actions the space has, or the data show; None for continuous ones."""
        if not self.discrete_actions:
            return None
        shown = self.head.n_actions or 0
        known = self.action_space is not None or self.facts is None
        return shown if known else max(shown, int(self.facts.actions.largest[0]) + 1)

    @property
    def states_seen(self) -> Array:
        """One more than the largest number of each coordinate of finite states."""
        return self.facts.reached + 1

    @property
    def countable(self) -> bool:
        """Whether states and actions are finite, and each (s, a, s') has a number of 63 bits to be counted by.

        One more bit says in which half of the episodes it was seen.
        """
        if not (self.finite and self.discrete_actions):
            return False
        states = prod(state_sizes(self.observation_space, self.states_seen))
        return states * (self.n_actions or 1) * (states + 1) < 1 << 62

    @property
    def returns(self) -> Floats:
        """(episodes,): the sum of each one's rewards."""
        return self.facts.episodes.returns

    @property
    def reward_facts(self) -> RewardFacts:
        """The range of the rewards, and what the ends of episodes pay."""
        return self.facts.reward_facts

    def leads_on(self, time_limit: str) -> int:
        """How many rows have a known next state, or end the task."""
        ended = self.table.ended(time_limit, self.limit)
        return int(self.facts.known) + int((ended & ~self.facts.episodes.known).sum())

    def parts(self, only: Sequence[int] | None = None) -> Iterator[Part]:
        """All parts in order, or those of some numbers, read ahead by one."""
        return read_ahead(self._parts(range(self.count) if only is None else only))

    @property
    def count(self) -> int:
        """How many parts there are."""
        return -(-len(self) // self.part_rows)

    def _parts(self, numbers: Sequence[int]) -> Iterator[Part]:
        for first, last in runs(numbers):
            rows = self.source.read(first * self.part_rows, min(last * self.part_rows, len(self)), self.part_rows)
            for number, data in zip(range(first, last), rows, strict=True):
                yield self._part(number * self.part_rows, data)

    def _part(self, first: int, data: LoggedDataset) -> Part:
        """A part, from its rows and the one after them."""
        last = min(first + self.part_rows, len(self))
        count = last - first
        episode = int(np.searchsorted(self.starts, first, side="right")) - 1
        until = int(np.searchsorted(self.starts, last, side="left"))
        starts = np.maximum(self.starts[episode:until] - first, 0)
        from_reset = self.from_reset[episode:until].copy()
        earlier = first - int(self.starts[episode])
        from_reset[0] &= earlier == 0
        columns = {each.name: getattr(data, each.name) for each in fields(LoggedDataset)}
        columns |= {name: column[:count] for name, column in columns.items() if _by_row(name, column)}
        beyond = data.observations[count : count + 1] if len(data) > count else None
        part = Part(
            **columns | {"starts": starts, "from_reset": from_reset},
            first_row=first,
            first_episode=episode,
            whole=self.table.part(episode, until),
            log_limit=self.limit,
            earlier=earlier,
            beyond=beyond,
        )
        return part if self.charge is None else self.charge(part)

    def total(
        self, function: Callable[..., Result], *settings: Any, title: str = "reading", only: Sequence[int] | None = None
    ) -> Result:
        """The merged results of a function of a part and some settings, over all parts or some of them.

        Several works that ask at the same time share a pass (`ope_vpm.threads`).

        Args:
            function: at the top level of a module, so that other machines can find it.
            settings: its further arguments.
            title: of the progress.
            only: the numbers of the parts to visit.
        """
        if only is not None:
            return self.passed(function, *settings, title=title, only=only)
        found: Result = gathered(self.source, partial(self._several, title), (self.charge, function, settings))
        return found

    def _several(self, title: str, asked: Sequence[Asked]) -> list[Any]:
        """The results of one pass for all that is asked."""
        return replace(self, charge=None).passed(each_of_part, asked, title=title).each

    def passed(
        self, function: Callable[..., Result], *settings: Any, title: str = "reading", only: Sequence[int] | None = None
    ) -> Result:
        """As `total`, in a pass of its own."""
        told = None if self.progress is None else self.progress(title, len(self))
        return merged(self.parts(only), function, settings, told)

    def read(self) -> LoggedDataset:
        """All rows, in memory."""
        (data,) = self.source.read(0, len(self), len(self))
        return replace(data, from_reset=self.from_reset)


def _by_row(name: str, column: object) -> bool:
    return isinstance(column, np.ndarray) and name not in ("starts", "from_reset")
