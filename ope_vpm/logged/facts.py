"""The facts that one pass over a log read in parts finds, and the doctor's findings by them.

Every row is looked at for what is wrong with single rows (numbers that are none, actions outside their space, a next
state that is not the following row's) and for constant columns; every episode for its length and for duplicates. The
other checks look at a sample of whole episodes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged.checks import (
    CHECKS,
    DUPLICATED,
    actions_outside,
    broken_chain,
    constant_finding,
    copies,
    flags_confused,
    not_finite,
)
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.doctor import SHOWN, Finding, finding
from ope_vpm.logged.episode import ROW_COLUMNS, take
from ope_vpm.logged.episode_marks import RewardFacts
from ope_vpm.logged.fingerprint import Words, fingerprints
from ope_vpm.logged.streamed import Part, StreamedDataset
from ope_vpm.logged.sums import ColumnSums, RewardCounts

OF_ROWS = {"not-finite": not_finite, "actions-outside": actions_outside, "broken-chain": broken_chain}
"""Checks that look at one row and the next, so that every part can be checked alone."""
OF_EPISODES = ("flags-confused", "constant-columns", DUPLICATED)
"""Checks of facts about whole episodes and columns."""


@dataclass(frozen=True)
class EpisodeFacts:
    """Numbers of the episodes from one on; an episode that goes on in another part has numbers in both."""

    first: int
    prints: Words
    """(episodes, 2): see `fingerprint`."""
    returns: Floats
    """(episodes,): the sum of the rewards."""
    last: Floats
    """(episodes,): the reward of the last row, 0 where it is not here."""
    known: Bools
    """(episodes,): whether the state after the last row is known; False where it is not here."""
    initial: Array
    """(episodes, k): the first observation where states are finite, 0 where it is not here; otherwise nothing."""

    def merge(self, other: EpisodeFacts) -> EpisodeFacts:
        """The facts of two parts that follow one another: what both hold of a shared episode is added up."""
        shared = self.first + len(self.returns) - other.first  # 1 where an episode goes on, otherwise 0
        names = [field.name for field in fields(self)[1:]]
        return EpisodeFacts(self.first, *(_joined(getattr(self, n), getattr(other, n), shared) for n in names))


def _joined(one: Array, other: Array, shared: int) -> Array:
    """Two arrays, one after another, with what both have added up."""
    both = np.concatenate([one, other[shared:]])
    both[len(one) - shared : len(one)] += other[:shared]
    return both


@dataclass(frozen=True)
class Facts:
    """Sums and extremes over rows."""

    episodes: EpisodeFacts
    rows: int
    known: int
    """Rows with a known next state."""
    mean: float
    """The mean reward."""
    squares: float
    """Σ (r - mean)²."""
    inner: bool
    """Whether a row that is not the last one of its episode pays."""
    paid: ColumnSums
    """The rewards."""
    observations: ColumnSums
    actions: ColumnSums
    findings: tuple[Finding, ...]
    reached: Array
    """The largest number of each coordinate of a finite state, before or after a step."""
    rewards: RewardCounts | None
    """How often each reward was paid, where states and actions are finite."""

    def merge(self, other: Facts) -> Facts:
        """The facts of two parts that follow one another; variances as by Chan, Golub and LeVeque (1983)."""
        rows, apart = self.rows + other.rows, other.mean - self.mean
        return Facts(
            episodes=self.episodes.merge(other.episodes),
            rows=rows,
            known=self.known + other.known,
            mean=self.mean + apart * other.rows / rows,
            squares=self.squares + other.squares + apart**2 * self.rows * other.rows / rows,
            inner=self.inner or other.inner,
            paid=self.paid.merge(other.paid),
            observations=self.observations.merge(other.observations),
            actions=self.actions.merge(other.actions),
            findings=_together(self.findings, other.findings),
            reached=np.maximum(self.reached, other.reached),
            rewards=None if self.rewards is None or other.rewards is None else self.rewards.merge(other.rewards),
        )

    @property
    def reward_facts(self) -> RewardFacts:
        """The facts about rewards that intervals and verdicts use."""
        least, largest = float(self.paid.least[0]), float(self.paid.largest[0])
        return RewardFacts(least, largest, float(np.sqrt(self.squares / self.rows)), self.inner, self.episodes.last)


def facts_of(part: Part, ignore: Collection[str]) -> Facts:
    """Look at the rows of one part."""
    rewards, ends, here = part.rewards, part.ends, part.ends_here
    inner = np.asarray(rewards != 0)
    inner[ends[here]] = False
    mean = float(rewards.mean())
    return Facts(
        episodes=EpisodeFacts(
            part.first_episode,
            fingerprints(part),
            np.add.reduceat(rewards, part.starts),
            np.where(here, rewards[ends], 0.0),
            part.next_known[ends] & here,
            _initial(part),
        ),
        rows=len(part),
        known=int(np.count_nonzero(part.next_known)),
        mean=mean,
        squares=float(np.square(rewards - mean).sum()),
        inner=bool(inner.any()),
        paid=ColumnSums.of(rewards),
        observations=ColumnSums.of(part.observations),
        actions=ColumnSums.of(part.actions),
        findings=_findings_of_rows(part, ignore),
        reached=part.states_seen - 1,
        rewards=RewardCounts.of(rewards) if part.finite and part.discrete_actions else None,
    )


def _initial(part: Part) -> Array:
    """The first observation of each episode, where it is finite and among these rows."""
    if not part.finite:
        return np.zeros((part.n_episodes, 0))
    initial = np.array(part.observations[part.starts])
    initial[0] *= part.earlier == 0
    return initial


def _findings_of_rows(part: Part, ignore: Collection[str]) -> tuple[Finding, ...]:
    """Findings about single rows, by their numbers in the log."""
    found = [check(part) for code, check in OF_ROWS.items() if code not in ignore]
    if "broken-chain" not in ignore:
        found.append(_broken_seam(part))
    return tuple(_moved(each, part.first_row) for each in found if each is not None)


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
        equal = [each.least == each.largest for each in (facts.observations, facts.actions)]
        found.append(constant_finding(equal[0], equal[1], data.finite))
    if DUPLICATED not in ignore:
        found.append(_duplicates(data, facts))
    others = (check for code, check in CHECKS.items() if code not in (*ignore, *OF_ROWS, *OF_EPISODES))
    return [each for each in (*found, *(check(sample) for check in others)) if each is not None]


TWICE = "episodes that repeat an earlier one exactly: counted twice, they feign certainty (drop them)"
USUALLY_SHARED = {True: 9, False: 0}
"""Steps that two different episodes are taken to begin with, by whether states are finite: parts do not tell."""


def _duplicates(data: StreamedDataset, facts: Facts) -> Finding | None:
    """Episodes with the fingerprint and the return of an earlier one, which stay in a log that is read in parts."""
    keys = np.column_stack([facts.episodes.prints, facts.episodes.returns.view(np.uint64)])
    number = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return finding(DUPLICATED, "warning", TWICE, data.starts[copies(number, data.lengths, USUALLY_SHARED[data.finite])])


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
    columns = {name: getattr(part, name) for name in ROW_COLUMNS}
    return _Rows(({name: column[rows] for name, column in columns.items() if column is not None},))
