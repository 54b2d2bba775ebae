"""What one pass over a streamed log finds out about it, and its doctor.

Every row is looked at for what is wrong with single rows (numbers that are none, actions outside their space, a next
state that is not the following row's) and for constant columns; every episode for its length and for duplicates. The
other checks look at a sample of whole episodes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged.checks import (
    CHECKS,
    DUPLICATED,
    SHORTEST_DUPLICATE,
    actions_outside,
    broken_chain,
    constant_finding,
    flags_confused,
    not_finite,
    repeated,
)
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.doctor import SHOWN, Finding, finding
from ope_vpm.logged.episode import row_columns, take
from ope_vpm.logged.episode_table import RewardFacts
from ope_vpm.logged.fingerprint import Words, fingerprints
from ope_vpm.logged.finite_facts import FiniteFacts, finite_facts_of
from ope_vpm.logged.streamed import Part, StreamedDataset

OF_ROWS = {"not-finite": not_finite, "actions-outside": actions_outside, "broken-chain": broken_chain}
"""Checks that look at one row and the next, so that every part can be checked alone."""
OF_EPISODES = ("flags-confused", "constant-columns", "duplicated-episodes")
"""Checks of facts about whole episodes and columns."""


@dataclass(frozen=True)
class OfEpisodes:
    """Numbers of the episodes from one on; an episode that goes on in another part has numbers in both."""

    first: int
    prints: Words
    """(episodes, 2): see `fingerprint`."""
    returns: Floats
    """The sum of the rewards."""
    last: Floats
    """The reward of the last row, 0 where it is not here."""
    known: Bools
    """Whether the state after the last row is known; False where it is not here."""

    def merge(self, other: OfEpisodes) -> OfEpisodes:
        """Of two parts that follow one another."""
        shared = self.first + len(self.returns) - other.first  # 1 where an episode goes on, otherwise 0
        return OfEpisodes(
            self.first,
            _joined(self.prints, other.prints, shared),
            _joined(self.returns, other.returns, shared),
            _joined(self.last, other.last, shared),
            _joined(self.known, other.known, shared),
        )


def _joined(one: Array, other: Array, shared: int) -> Array:
    """Two arrays, one after another, with what both have added up."""
    both = np.concatenate([one, other[shared:]])
    both[len(one) - shared : len(one)] += other[:shared]
    return both


@dataclass(frozen=True)
class Facts:
    """Sums and extremes over rows."""

    episodes: OfEpisodes
    rows: int
    known: int
    """Rows with a known next state."""
    mean: float
    """Of the rewards."""
    squares: float
    """Σ (r - mean)²."""
    least: float
    largest: float
    inner: bool
    """Whether a row that is not the last one of its episode pays."""
    low: tuple[Array, Array]
    """The least observation and action of each column."""
    high: tuple[Array, Array]
    findings: tuple[Finding, ...]
    finite: FiniteFacts | None = None
    """More about finite states with discrete actions."""

    def merge(self, other: Facts) -> Facts:
        """Of two parts that follow one another; variances as by Chan, Golub and LeVeque (1983)."""
        rows, apart = self.rows + other.rows, other.mean - self.mean
        return Facts(
            episodes=self.episodes.merge(other.episodes),
            rows=rows,
            known=self.known + other.known,
            mean=self.mean + apart * other.rows / rows,
            squares=self.squares + other.squares + apart**2 * self.rows * other.rows / rows,
            least=min(self.least, other.least),
            largest=max(self.largest, other.largest),
            inner=self.inner or other.inner,
            low=(np.minimum(self.low[0], other.low[0]), np.minimum(self.low[1], other.low[1])),
            high=(np.maximum(self.high[0], other.high[0]), np.maximum(self.high[1], other.high[1])),
            findings=_together(self.findings, other.findings),
            finite=None if self.finite is None or other.finite is None else self.finite.merge(other.finite),
        )

    @property
    def rewards(self) -> RewardFacts:
        """As of a log in memory."""
        deviation = float(np.sqrt(self.squares / self.rows))
        return RewardFacts(self.least, self.largest, deviation, self.inner, self.episodes.last)


def facts_of(part: Part, ignore: Collection[str]) -> Facts:
    """Look at the rows of one part."""
    rewards, ends, here = part.rewards, part.ends, part.ends_here
    inner = np.asarray(rewards != 0)
    inner[ends[here]] = False
    mean, columns = float(rewards.mean()), (part.observations, part.actions)
    episodes = OfEpisodes(
        part.first_episode,
        fingerprints(part),
        np.add.reduceat(rewards, part.starts),
        np.where(here, rewards[ends], 0.0),
        part.next_known[ends] & here,
    )
    found = [check(part) for code, check in OF_ROWS.items() if code not in ignore]
    if "broken-chain" not in ignore:
        found.append(_broken_seam(part))
    return Facts(
        episodes=episodes,
        rows=len(part),
        known=int(np.count_nonzero(part.next_known)),
        mean=mean,
        squares=float(np.square(rewards - mean).sum()),
        least=float(rewards.min()),
        largest=float(rewards.max()),
        inner=bool(inner.any()),
        low=(columns[0].min(axis=0), columns[1].min(axis=0)),
        high=(columns[0].max(axis=0), columns[1].max(axis=0)),
        findings=tuple(_moved(each, part.first_row) for each in found if each is not None),
        finite=finite_facts_of(part) if part.finite and part.discrete_actions else None,
    )


def _broken_seam(part: Part) -> Finding | None:
    """A next state of the last row that is not the state of the row after this part."""
    if part.beyond is None or part.ends_here[-1] or not part.next_known[-1]:
        return None
    rows = slice(len(part) - 1, len(part))
    both = LoggedDataset.from_arrays(
        np.concatenate([part.observations[rows], part.beyond]),
        np.concatenate([part.actions[rows], part.actions[rows]]),
        np.zeros(2),
        np.concatenate([part.next_observations[rows], part.beyond]),
        terminated=[False, True],
    )
    found = broken_chain(both)
    return None if found is None else _moved(found, len(part) - 1)


def _moved(found: Finding, rows: int) -> Finding:
    return replace(found, rows=tuple(row + rows for row in found.rows))


def _together(one: tuple[Finding, ...], other: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings of one kind counted together."""
    found = {each.code: each for each in one}
    for each in other:
        before = found.get(each.code)
        if before is not None:
            each = replace(before, rows=(*before.rows, *each.rows)[:SHOWN], count=before.count + each.count)
        found[each.code] = each
    return tuple(found.values())


def examine(data: StreamedDataset, facts: Facts, sample: LoggedDataset, ignore: Collection[str]) -> list[Finding]:
    """All findings: of every row, of every episode, and of a sample of whole episodes."""
    found: list[Finding | None] = [*facts.findings]
    if "flags-confused" not in ignore:
        found.append(flags_confused(data))  # type: ignore[arg-type]  # it asks about episodes alone
    if "constant-columns" not in ignore:
        equal = [np.atleast_1d(low == high) for low, high in zip(facts.low, facts.high, strict=True)]
        found.append(constant_finding(equal[0], equal[1], data.finite))
    if "duplicated-episodes" not in ignore:
        found.append(_duplicates(data, facts))
    others = (check for code, check in CHECKS.items() if code not in (*ignore, *OF_ROWS, *OF_EPISODES))
    return [each for each in (*found, *(check(sample) for check in others)) if each is not None]


def _duplicates(data: StreamedDataset, facts: Facts) -> Finding | None:
    """Episodes with the fingerprint and the return of an earlier one."""
    again = repeated(facts.episodes.prints, facts.episodes.returns)
    again &= data.lengths >= SHORTEST_DUPLICATE[data.finite]
    return finding("duplicated-episodes", "warning", DUPLICATED, data.starts[again])


@dataclass(frozen=True)
class _Rows:
    """Columns of some rows, in several pieces."""

    pieces: tuple[dict[str, Array], ...]

    def merge(self, other: _Rows) -> _Rows:
        return _Rows(self.pieces + other.pieces)


def fitting(lengths: Integers, rows: int) -> int:
    """How many of some episodes, by their lengths, fit into so many rows; at least one does."""
    return max(int(np.searchsorted(np.cumsum(lengths), rows, side="right")), 1)


def episodes_of(data: StreamedDataset, episodes: Integers, longest: int) -> LoggedDataset:
    """Some episodes in the given order, in memory, each with its first `longest` steps at most."""
    chosen = np.sort(episodes)
    lengths = np.minimum(data.lengths[chosen], longest)
    first, last = data.starts[chosen] // data.part_rows, (data.starts[chosen] + lengths - 1) // data.part_rows
    needed = {number for a, b in zip(first.tolist(), last.tolist(), strict=True) for number in range(a, b + 1)}
    found = data.total(_chosen_rows, chosen, longest, title="sampling", only=sorted(needed)).pieces
    columns: dict[str, Any] = {name: np.concatenate([piece[name] for piece in found]) for name in found[0]}
    whole = LoggedDataset(
        **columns,
        starts=np.cumsum(lengths) - lengths,
        from_reset=data.from_reset[chosen],
        observation_space=data.observation_space,
        action_space=data.action_space,
    )
    return take(whole, np.searchsorted(chosen, episodes))


def _chosen_rows(part: Part, episodes: Integers, longest: int) -> _Rows:
    number = part.episode + part.first_episode
    rows = np.flatnonzero(np.isin(number, episodes) & (part.time < longest))
    columns = {name: getattr(part, name) for name in row_columns()}
    return _Rows(({name: column[rows] for name, column in columns.items() if column is not None},))
