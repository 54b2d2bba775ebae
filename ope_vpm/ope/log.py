"""The log as all policies share it: checked once, in an order of its own, with no policy in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged import LoggedDataset, inspect
from ope_vpm.ope.adapter.ends import rows_of
from ope_vpm.policy import TargetPolicy

Settings = ParamSpec("Settings")
Result = TypeVar("Result")

HELD_OUT = 5
"""Every fifth episode judges what was fitted on the others: enough to choose a ridge by, few enough to miss."""
COPIES = 2
"""A log whose episodes occur more often than this on average repeats itself by nature, not because it was copied: one
concatenated with itself has two of each."""


class Memory:
    """Results of functions, kept by the function and its settings, so that each is computed once."""

    def __init__(self) -> None:
        self._results: dict[Any, Any] = {}

    def recall(self, make: Callable[..., Result], *given: Any, **settings: Any) -> Callable[..., Result]:
        """A function of what does not enter the key (the log, the policy): it computes only at its first call."""
        key = (make, given, tuple(sorted(settings.items())))

        def result(*shared: Any) -> Result:
            if key not in self._results:
                self._results[key] = make(*shared, *given, **settings)
            found: Result = self._results[key]
            return found

        return result


@dataclass(frozen=True, eq=False)
class Same:
    """An array as a setting of a function that is remembered: equal to the very same array, and to no other."""

    array: Array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.array is self.array

    def __hash__(self) -> int:
        return id(self.array)


@dataclass(frozen=True, eq=False)
class Log:
    """A data set that was checked at the door: build it by `Log.check`.

    No answer may depend on the order in which episodes were logged, random draws included. So episodes have a canonical
    order, by a hash of their contents; rows stay where they are (nothing is copied), and whatever draws random numbers
    goes through them in the canonical order.
    """

    data: LoggedDataset
    warnings: tuple[str, ...]
    """What the doctor would have the user know, in sentences."""
    content: Integers
    """(episodes,): equal numbers for episodes with equal states and actions, rising in the canonical order."""
    _memory: Memory = field(default_factory=Memory, repr=False)
    _of_policies: WeakKeyDictionary[TargetPolicy, Memory] = field(default_factory=WeakKeyDictionary, repr=False)

    @classmethod
    def check(cls, data: LoggedDataset, ignore: Collection[str] = ()) -> Log:
        """Examine the data; those in which the doctor finds errors are refused.

        Args:
            data: the log.
            ignore: codes of the doctor's findings to pass over.
        """
        if not isinstance(data, LoggedDataset):
            raise TypeError(f"data must be a LoggedDataset: got {type(data).__name__} (see ope_vpm.load_dataset)")
        report = inspect(data, ignore)
        report.raise_for_errors()
        warnings = tuple(f"the data look odd ({found.code}): {found.message}" for found in report.warnings)
        digests = [_digest(data, start, length) for start, length in zip(data.starts, data.lengths, strict=True)]
        return cls(data, warnings, np.unique(np.array(digests), return_inverse=True)[1].astype(np.int64))

    def shared(
        self, make: Callable[Concatenate[Log, Settings], Result], *given: Settings.args, **settings: Settings.kwargs
    ) -> Result:
        """What `make(log, *given, **settings)` returns, computed once for all policies.

        The function sees the log and hashable settings only, so that nothing of a policy can get into its result.
        """
        return self._memory.recall(make, *given, **settings)(self)

    def forgetful(self) -> Log:
        """The same checked log with nothing computed on it yet."""
        return replace(self, _memory=Memory(), _of_policies=WeakKeyDictionary())

    def with_rewards(self, rewards: Floats) -> Log:
        """The same checked log with other rewards, and with nothing computed on it yet."""
        return replace(self.forgetful(), data=replace(self.data, rewards=rewards))

    def memory_of(self, policy: TargetPolicy) -> Memory:
        """What was computed for one policy on this log; forgotten with the policy."""
        return self._of_policies.setdefault(policy, Memory())

    @property
    def finite(self) -> bool:
        """Whether states and actions are finite, so that their pairs can be counted."""
        return self.data.finite and self.data.discrete_actions

    @cached_property
    def episodes(self) -> Integers:
        """The episodes' numbers in the canonical order."""
        return np.argsort(self.content, kind="stable")

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
        held: Bools = (place % HELD_OUT == HELD_OUT - 1)[self.data.episode]
        return held

    def folds(self, count: int) -> Integers:
        """(episodes,): the fold of each episode; equal episodes share one, so that no fold sees itself in another.

        Where episodes repeat each other as a rule, as the single steps of a bandit do, a repetition is no copy: each
        fold then has its share of every kind, or none but one would know what that kind pays.
        """
        if len(self.content) <= COPIES * (int(self.content.max()) + 1):
            return self.content % count
        place = np.empty_like(self.content)
        place[np.lexsort((self.data.returns, self.content))] = np.arange(len(place))
        return place % count


def _digest(data: LoggedDataset, start: int, length: int) -> bytes:
    rows = slice(start, start + length)
    content = hashlib.blake2b(np.ascontiguousarray(data.observations[rows]).tobytes(), digest_size=16)
    content.update(np.ascontiguousarray(data.actions[rows]).tobytes())
    return content.digest()
