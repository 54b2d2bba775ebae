"""The log as all policies share it: checked once, in an order of its own, with no policy in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.linear.features import DistinctColumns, Standardiser
from ope_vpm.logged import Finding, LoggedDataset
from ope_vpm.logged.checks import CHECKS, DUPLICATED, STEP_NUMBER, copied_episodes
from ope_vpm.logged.columns import are_numbers
from ope_vpm.logged.doctor import check_ignored, examined, refuse_errors
from ope_vpm.logged.episode import take
from ope_vpm.logged.facts import episodes_of, examine, facts_of, fitting
from ope_vpm.logged.fingerprint import colours, number_contents
from ope_vpm.logged.step_number import with_step_number
from ope_vpm.logged.streamed import Charge, StreamedDataset
from ope_vpm.logged.sums import Mergeable
from ope_vpm.ope.adapter.ends import TimeLimit, rows_of
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.policy import TargetPolicy
from ope_vpm.threads import cached_property

Merged = TypeVar("Merged", bound=Mergeable)

HELD_OUT = 5
"""Every fifth episode judges what was fitted on the others: enough to choose a ridge by, few enough to miss."""
COPIES = 2
"""A log whose episodes occur more often than this on average repeats itself by nature, not because it was copied: one
concatenated with itself has two of each."""

SAMPLE_ROWS = 100_000
"""Rows, in whole episodes, from which a longer log chooses what sums over rows cannot: scales, the clone of the
behaviour, how far the answer depends on the features (note 013)."""
SINGLE_PRECISION_ROWS = 100_000
"""Rows from which on features are in single precision, which halves the time of a pass: rounding then moves the value
by less than a hundredth of its standard error (note 013), which many rows make small, but not as small."""

STEP_LEFT_OUT = (
    "the step number explains what state and action do not, and rows that are read in parts do not hold it: add it to "
    "the observations, or read the rows into memory with load_dataset"
)

Precision = type[np.floating[Any]]


def precision_for(rows: int) -> Precision:
    """The precision of features of so many rows."""
    return np.float32 if rows >= SINGLE_PRECISION_ROWS else np.float64


@dataclass(frozen=True, eq=False)
class Log:
    """A data set that was checked at the door: build it by `Log.check`.

    No answer may depend on the order in which episodes were logged, random draws included, nor on units, the order of
    columns, or the names of finite states and actions. So episodes have a canonical order, by what happens in them
    (`_placed`); rows stay where they are (nothing is copied), and whatever draws random numbers goes through them in
    that order. Episodes of long logs, which may be read in parts, are ordered by a hash of their bytes instead.
    """

    data: LoggedDataset
    warnings: tuple[str, ...]
    """The doctor's warnings, in sentences."""
    content: Integers
    """(episodes,): equal numbers for episodes with equal states and actions, rising in the canonical order."""
    step_matters: bool = False
    """Whether the doctor found that the step number explains more than state and action do."""
    kept: Bools | None = None
    """(rows that were given,): which ones are here, where copies of episodes were left out."""
    sample_of_parts: Log | None = None
    """The sample of a log whose rows are read in parts; the `data` of such a log have no columns of rows."""
    memory: Memory = field(default_factory=Memory, repr=False)

    @classmethod
    def check(cls, data: LoggedDataset | StreamedDataset, ignore: Collection[str] = ()) -> Log:
        """Examine the data; those in which the doctor finds errors are refused.

        Args:
            data: the log.
            ignore: codes of the doctor's findings to pass over.
        """
        check_ignored(ignore)
        if isinstance(data, StreamedDataset):
            # So few rows fit into memory, and states that cannot be counted in parts must.
            if len(data) <= SAMPLE_ROWS or (data.finite and not data.discrete_actions):
                return cls.check(data.read(), ignore)
            data = data.of_facts(data.total(facts_of, tuple(ignore), title="checking"))
            return cls.check(data.read(), ignore) if data.finite and not data.countable else _log_of_parts(data, ignore)
        if not isinstance(data, LoggedDataset):
            raise TypeError(f"data must be a LoggedDataset: got {type(data).__name__} (see ope_vpm.load_dataset)")
        findings = examined(data, ignore)
        refuse_errors(findings)
        codes, kept = {found.code for found in findings}, None
        if DUPLICATED in codes:
            copied = copied_episodes(data)
            data, kept = data.select(~copied), ~copied[data.episode]
        return cls(data, _in_words(findings), _contents(data), STEP_NUMBER in codes, kept)

    def of_given_rows(self, weights: Floats) -> Floats:
        """The weights of the rows, with 0 for those of copied episodes, which were left out."""
        if self.kept is None:
            return weights
        given = np.zeros(len(self.kept))
        given[self.kept] = weights
        return given

    def forgetful(self) -> Log:
        """A copy of the checked log with nothing computed on it yet."""
        return replace(self, memory=Memory())

    def with_rewards(self, rewards: Floats) -> Log:
        """The checked log with other rewards, and with nothing computed on it yet."""
        return replace(self.forgetful(), data=replace(self.data, rewards=rewards))

    @remembered
    def with_step_number(self) -> Log:
        """The checked log with the step number as the last coordinate of every observation."""
        return replace(self.forgetful(), data=with_step_number(self.data), step_matters=False)

    def charged(self, keep: float, price: float, time_limit: TimeLimit) -> Log:
        """The checked log with the rewards keep·r - price·1[the task ends]; nothing is computed on it yet."""
        charge = Charge(keep, price, time_limit)
        if not isinstance(self.data, StreamedDataset):
            return replace(self.forgetful(), data=charge(self.data))
        data = replace(self.data, charge=charge)
        return replace(self.forgetful(), data=data.of_facts(data.total(facts_of, tuple(CHECKS), title="reading")))

    def total(self, function: Callable[..., Merged], *settings: Any) -> Merged:
        """The merged results of a function of the log's parts: see `LoggedDataset.total`."""
        return self.data.total(function, *settings)

    @property
    def facts(self) -> Any:
        """The `Facts` that the first pass over a log that is read in parts has found."""
        return cast(StreamedDataset, self.data).facts

    @property
    def streamed(self) -> bool:
        """Whether the rows are read in parts, so that nothing may ask for all of them at once."""
        return isinstance(self.data, StreamedDataset)

    def for_actions(self, policy: TargetPolicy) -> Log:
        """The log for a policy with discrete actions, which takes floats that are their numbers for them."""
        if policy.n_actions is None or self.data.discrete_actions or self.data.action_space is not None:
            return self
        return _with_discrete_actions(self)

    @property
    def precision(self) -> Precision:
        """The type of the features' numbers."""
        return precision_for(len(self.data))

    @property
    def sample(self) -> Log:
        """As many whole episodes as fit into `SAMPLE_ROWS` rows; the log itself where it is no longer than that.

        They are the first ones of the canonical order, which is as good as random. A result never refers to
        the object that caches it, here as elsewhere: such a log would be kept, with all features of its rows, until
        Python looks for cycles.
        """
        return self if len(self.data) <= SAMPLE_ROWS else self.sample_of_parts or self._sample

    @cached_property
    def _sample(self) -> Log:
        return self.beginning(SAMPLE_ROWS)

    def beginning(self, rows: int) -> Log:
        """As many of the first episodes of the canonical order as fit into so many rows."""
        if len(self.data) <= rows:
            return self
        chosen = self.episodes[: fitting(self.data.lengths[self.episodes], rows)]
        return sampled(take(self.data, chosen, rows), self.content[chosen])

    @cached_property
    def sample_rows(self) -> Integers:
        """The numbers of the sample's rows; a single episode that is longer than the sample is cut there."""
        if len(self.data) <= SAMPLE_ROWS:
            return np.arange(len(self.data))
        episodes = self.episodes[: fitting(self.data.lengths[self.episodes], SAMPLE_ROWS)]
        return rows_of(self.data, episodes)[:SAMPLE_ROWS]

    @property
    def finite(self) -> bool:
        """Whether states and actions are finite, so that their pairs can be counted."""
        return self.data.finite and self.data.discrete_actions

    @cached_property
    def episodes(self) -> Integers:
        """The episodes' numbers in the canonical order; those with equal states and actions by what they pay."""
        return np.lexsort((self.data.returns, self.content))

    @cached_property
    def rows(self) -> Integers:
        """The rows' numbers, episode after episode in the canonical order."""
        return rows_of(self.data, self.episodes)

    @cached_property
    def initial_episodes(self) -> Integers:
        """The episodes that begin at a reset, in the canonical order."""
        return self.episodes[self.data.from_reset[self.episodes]]

    @property
    def initial_observations(self) -> Array:
        """The states that followed a reset, in the canonical order."""
        return self.data.observations[self.data.starts[self.initial_episodes]]

    @cached_property
    def held_out(self) -> Bools:
        """(n,): the rows of every fifth episode, which judge what was fitted on the others."""
        place = np.empty_like(self.episodes)
        place[self.episodes] = np.arange(len(place))
        return (place % HELD_OUT == HELD_OUT - 1)[self.data.episode]

    def folds(self, count: int) -> Integers:
        """(episodes,): the fold of each episode; equal episodes share one, so that no fold sees itself in another.

        Where episodes repeat each other as a rule, as the single steps of a bandit do, a repetition is no copy: each
        fold then has its share of every kind, or none but one would know what that kind pays.
        """
        if len(self.content) <= COPIES * (int(self.content.max()) + 1):
            return self.content % count
        return np.argsort(self.episodes) % count


@remembered
def _with_discrete_actions(log: Log) -> Log:
    if log.streamed or not are_numbers(log.data.actions):
        return log
    data = replace(log.data, actions=log.data.actions[:, 0].astype(np.int64))
    return replace(log.forgetful(), data=data, content=_contents(data))


def _in_words(findings: Sequence[Finding]) -> tuple[str, ...]:
    """The warnings among the doctor's findings."""
    warnings = [found for found in findings if found.level == "warning"]
    return tuple(f"the data look odd ({found.code}): {found.message}" for found in warnings)


def _log_of_parts(data: StreamedDataset, ignore: Collection[str]) -> Log:
    """The log whose rows are read in parts, once a pass over them has found its facts."""
    content = number_contents(data.facts.episodes.prints)
    order = np.lexsort((data.returns, content))
    chosen = order[: fitting(data.lengths[order], SAMPLE_ROWS)]
    sample = sampled(episodes_of(data, chosen, SAMPLE_ROWS), content[chosen])
    findings = examine(data, data.facts, sample.data, ignore)
    refuse_errors(findings)
    words = *_in_words(findings), *(STEP_LEFT_OUT for found in findings if found.code == STEP_NUMBER)
    return Log(cast(LoggedDataset, data), words, content, sample_of_parts=sample)


def sampled(data: LoggedDataset, content: Integers) -> Log:
    """The log of a sample, whose doctor has seen the whole; `content` as in `Log`."""
    return Log(data, (), np.unique(content, return_inverse=True)[1].astype(np.int64))


def _contents(data: LoggedDataset) -> Integers:
    """(episodes,): see `Log.content`."""
    if len(data) > SAMPLE_ROWS:
        return number_contents(data.fingerprints)
    number = np.unique(data.fingerprints, axis=0, return_inverse=True)[1].reshape(-1)
    last = np.zeros_like(number)  # the prints do not know where last steps led, and colours do
    if data.finite:
        led = data.next_observations[data.ends].reshape(len(number), -1)
        last = np.where(data.next_known[data.ends], 1 + np.unique(led, axis=0, return_inverse=True)[1].reshape(-1), 0)
    _, first, times = np.unique(np.column_stack([number, last]), axis=0, return_index=True, return_counts=True)
    least = np.ones(int(number.max()) + 1)  # of episodes that are equal but for where they led
    np.minimum.at(least, number[first], _placed(data.select(first), times))
    rank: Integers = np.argsort(np.argsort(least, kind="stable"))
    return rank[number]


def _placed(data: LoggedDataset, times: Integers) -> Floats:
    """(episodes,): numbers in [0, 1), as good as random, that depend on no units, no names and no order of columns.

    A sum over the rows of an episode, of colours of finite states or of standardised columns, is taken modulo a tenth:
    rounding errors move it a little, so that they seldom change the order, as they would with a hash.

    Args:
        data: different episodes.
        times: how often each of them was logged.
    """
    if data.finite:
        rows = np.concatenate([data.observations, data.next_observations]).reshape(2 * len(data), -1)
        state, after = np.split(np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1), 2)
        action = data.actions if data.discrete_actions else np.zeros(len(data), dtype=np.int64)
        often = (times // np.gcd.reduce(times))[data.episode]  # all of them twice is the same log
        words = colours(state, action, np.where(data.next_known, after, -1), data.time, often)
        value = (words >> np.uint64(11)).astype(np.float64) / (1 << 53)
    else:
        z = DistinctColumns.fit(data.observations, data.time)(data.observations)
        value = z @ np.cos(np.arange(1, z.shape[1] + 1))
    if not data.discrete_actions:
        value = value + Standardiser.fit(data.actions)(data.actions) @ np.sin(np.arange(1, data.actions.shape[1] + 1))
    sums = np.add.reduceat(value * (2 + np.cos(data.time)), data.starts)
    return np.round(10 * sums % 1, 6)  # ties are left to the fingerprints, whatever rounding does
