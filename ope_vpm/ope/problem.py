"""One question, data and target and gamma, with everything that several estimators can share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged import LoggedDataset, inspect
from ope_vpm.ope.adapter.pairs import Pairs, check_match, pairs
from ope_vpm.ope.adapter.steps import (
    OnEnd,
    Steps,
    TimeLimit,
    check_choices,
    ending_rows,
    steps,
)
from ope_vpm.policy import TargetPolicy, as_policy

Made = TypeVar("Made")
WITHOUT_GAMMA = ("target", "action ratio")
"""What is made of the policy and the data alone."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A question that was checked at the door: build it by `Problem.pose`.

    Episodes are held in an order of their own, so that no answer depends on the order they were logged in,
    random draws included.
    """

    data: LoggedDataset
    policy: TargetPolicy
    gamma: float
    seed: int
    on_end: OnEnd
    time_limit: TimeLimit
    warnings: tuple[str, ...]
    """What the doctor would have the user know."""
    order: Integers
    """The number that each of the data's rows has in the log as it was given."""
    _of_data: dict[str, Any] = field(default_factory=dict, repr=False)
    _own: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def pose(
        cls,
        data: LoggedDataset,
        policy: Any,
        *,
        gamma: float = 1.0,
        seed: int = 0,
        on_end: OnEnd | None = None,
        time_limit: TimeLimit = "continue",
        ignore: Collection[str] = (),
    ) -> Problem:
        """Check everything once.

        Args:
            data: the log; data in which the doctor finds errors are refused.
            policy: a `TargetPolicy`, or whatever `as_policy` takes.
            gamma: the discount; 1 for the average reward.
            seed: makes everything random repeatable.
            on_end: what follows a termination; see `ope_vpm.ope.steps.steps`.
            time_limit: what follows a truncation; see there.
            ignore: codes of the doctor's findings to pass over.
        """
        if not isinstance(data, LoggedDataset):
            raise TypeError(f"data must be a LoggedDataset: got {type(data).__name__} (see ope_vpm.load_dataset)")
        choice = check_choices(gamma, on_end, time_limit)
        target = as_target(policy)
        check_match(data, target)
        if gamma < 1 and not data.from_reset.any():
            raise ValueError(f"gamma = {gamma} needs initial states, and no episode begins at a reset: use gamma = 1")
        report = inspect(data, ignore)
        report.raise_for_errors()
        warnings = tuple(f"the data look odd ({found.code}): {found.message}" for found in report.warnings)
        ordered, order = canonical(data)
        return cls(ordered, target, gamma, seed, choice, time_limit, warnings, order)

    def with_policy(self, policy: Any) -> Problem:
        """The same question about another policy; what depends on the data alone stays shared."""
        target = as_target(policy)
        check_match(self.data, target)
        return replace(self, policy=target, _own={})

    def with_gamma(self, gamma: float, on_end: OnEnd | None = None, time_limit: TimeLimit | None = None) -> Problem:
        """The same question at another discount; what does not depend on it stays shared."""
        time_limit = time_limit or self.time_limit
        choice = check_choices(gamma, on_end, time_limit)
        if gamma < 1 and not self.data.from_reset.any():
            raise ValueError(f"gamma = {gamma} needs initial states, and no episode begins at a reset: use gamma = 1")
        of_data = {key: made for key, made in self._of_data.items() if key != "steps"}
        own = {key: made for key, made in self._own.items() if key in WITHOUT_GAMMA}
        changed: dict[str, Any] = {"gamma": gamma, "on_end": choice, "time_limit": time_limit}
        return replace(self, **changed, _of_data=of_data, _own=own)

    def once(self, key: str, make: Callable[[], Made], of_data: bool = False) -> Made:
        """What `make` returns, made at most once; `of_data` where the policy plays no part in it."""
        memory = self._of_data if of_data else self._own
        if key not in memory:
            memory[key] = make()
        return cast(Made, memory[key])

    def pairs(self, draws: int = 1) -> Pairs:
        """The transitions over (s, a), shared."""
        choices: dict[str, Any] = {"on_end": self.on_end, "time_limit": self.time_limit, "draws": draws}
        return self.once(
            f"pairs {draws}", lambda: pairs(self.data, self.policy, gamma=self.gamma, seed=self.seed, **choices)
        )

    @property
    def finite(self) -> bool:
        """Whether pairs of state and action can be counted."""
        return self.data.finite and self.data.discrete_actions

    @property
    def steps(self) -> Steps:
        """What follows each logged step, shared."""
        choices: dict[str, Any] = {"on_end": self.on_end, "time_limit": self.time_limit}
        return self.once("steps", lambda: steps(self.data, gamma=self.gamma, seed=self.seed, **choices), of_data=True)

    @property
    def following(self) -> Array:
        """The observation after each of the steps; where nothing follows, its own, so that it can be asked about."""
        after = np.array(self.steps.next_observations)
        absorbed = self.steps.absorbed
        after[absorbed] = self.data.observations[self.steps.rows[absorbed]]
        return after

    @property
    def ending(self) -> Bools:
        """(n,): the rows with which the task ended, rather than its log."""
        return ending_rows(self.data, self.time_limit)

    @property
    def ends(self) -> Bools:
        """(episodes,): whether the task ended with the episode."""
        return self.ending[self.data.ends]

    @property
    def target_log_prob(self) -> Floats:
        """Log π of each logged action, shared."""
        return self.once("target", lambda: self.policy.log_chance(self.data.observations, self.data.actions))

    def folds(self, count: int) -> Integers:
        """(episodes,): a fold for each, in turn; equal episodes share one, so that no fold sees itself in another."""
        data = self.data
        digests = np.array([_digest(data, *span) for span in zip(data.starts, data.lengths, strict=True)])
        return np.unique(digests, return_inverse=True)[1] % count

    def as_logged(self, weights: Floats) -> Floats:
        """One number a row of `data`, in the order of the log as it was given."""
        given = np.empty_like(weights)
        given[self.order] = weights
        return given


def as_target(policy: Any) -> TargetPolicy:
    """A policy, or what can be made one."""
    return policy if isinstance(policy, TargetPolicy) else as_policy(policy)


def canonical(data: LoggedDataset) -> tuple[LoggedDataset, Integers]:
    """The episodes sorted by a hash of their states and actions, and the rows' numbers in the given log."""
    digests = [_digest(data, start, length) for start, length in zip(data.starts, data.lengths, strict=True)]
    episodes = np.argsort(np.array(digests), kind="stable")
    if (episodes == np.arange(len(episodes))).all():
        return data, np.arange(len(data))
    rows = [np.arange(data.starts[e], data.starts[e] + data.lengths[e]) for e in episodes]
    return data.select(episodes), np.concatenate(rows)


def _digest(data: LoggedDataset, start: int, length: int) -> bytes:
    rows = slice(start, start + length)
    content = hashlib.blake2b(np.ascontiguousarray(data.observations[rows]).tobytes(), digest_size=16)
    content.update(np.ascontiguousarray(data.actions[rows]).tobytes())
    return content.digest()
