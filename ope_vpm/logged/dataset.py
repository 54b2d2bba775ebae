"""Logged experience: episodes of (s, a, r, s', terminated, truncated) in column arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from ope_vpm.arrays import Array, Bools, Floats, Integers, read_only
from ope_vpm.logged.columns import (
    action_column,
    as_precise,
    finite_states,
    flag_column,
    next_state_column,
    number_column,
    numbered_actions,
    observation_column,
)
from ope_vpm.logged.episode_marks import EpisodeMarks, EpisodeTable, RewardFacts
from ope_vpm.logged.spaces import Space, check_columns, simple_space
from ope_vpm.threads import cached_property

if TYPE_CHECKING:
    from ope_vpm.logged.describe import Description
    from ope_vpm.logged.encoding import Encoding
    from ope_vpm.logged.episode import Episode

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, repr=False)
class LoggedDataset:
    """Logged steps, one row each, in the order of time; no behaviour probabilities are needed.

    Build it by `from_arrays`, `from_episodes` or `load_dataset`. Arrays are held as read-only views, so
    memory maps stay on disk. Do not write to the originals afterwards.
    """

    observations: Array
    """Integers (n,): finite states; integers (n, k): multi-discrete; floats (n, d): continuous states."""
    actions: Array
    """Integers (n,): discrete; floats (n, m): continuous."""
    rewards: Floats
    """(n,)"""
    next_observations: Array
    """Like `observations`; NaN (or -1) where `next_known` is False."""
    terminated: Bools
    """(n,): the task ended with this step."""
    truncated: Bools
    """(n,): the logging stopped after this step, as at a time limit."""
    next_known: Bools
    """(n,): whether the state after the step was logged."""
    starts: Integers
    """(episodes,): the first row of each episode."""
    from_reset: Bools
    """(episodes,): whether that row follows a reset, so that its state is an initial one."""
    behaviour_log_prob: Floats | None = None
    """(n,): the log-probability (or density) of each action under the policy that took it, if logged."""
    observation_space: Space | None = None
    """Discrete, MultiDiscrete or a flat Box, where known."""
    action_space: Space | None = None
    """Discrete or a flat Box, where known."""
    encoding: Encoding | None = None
    """The names behind the numbers, where the log came from a table: see `ope_vpm.from_table`."""

    def __post_init__(self) -> None:
        check_columns(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, field.name, read_only(value))

    @classmethod
    def from_arrays(
        cls,
        observations: object,
        actions: object,
        rewards: object,
        next_observations: object | None = None,
        terminated: object | None = None,
        truncated: object | None = None,
        *,
        episode: object | None = None,
        next_known: object | None = None,
        behaviour_log_prob: object | None = None,
        observation_space: Space | None = None,
        action_space: Space | None = None,
    ) -> LoggedDataset:
        """Columns in the order of time, one row a step.

        Args:
            observations: the state before each step; a mapping or tuple of columns is laid side by side.
            actions: the action taken.
            rewards: the reward received.
            next_observations: the state after each step; NaN after an episode's last step is a state that was not
                logged. Without it the following row's state is taken; after the last step it is then unknown.
            terminated: where the task ended.
            truncated: where the logging stopped, as at a time limit.
            episode: one number per row, which changes where a new episode begins, so that an episode's rows follow one
                another. Without it an episode ends where either flag is set, and at the last row.
            next_known: False where a row of `next_observations` holds no state.
            behaviour_log_prob: log-probabilities of the logged actions, if they were logged.
            observation_space: of any kind that fits the observations; it is laid flat like them.
            action_space: Discrete or Box; the doctor checks the actions against it. Combinations of a MultiDiscrete or
                MultiBinary are numbered, the last coordinate changing fastest.
        """
        states = finite_states("observations", observation_column("observations", observations), observation_space)
        if next_observations is not None:
            next_observations = observation_column("next_observations", next_observations)
            states, next_observations = as_precise(states, next_observations)
        length = len(states)
        if length == 0:
            raise ValueError("observations are empty: a dataset needs at least one step")
        given = {"terminated": terminated, "truncated": truncated}
        flags = {name: flag_column(name, values, length) for name, values in given.items()}
        actions, action_space = numbered_actions(actions, action_space)
        starts = EpisodeMarks.of(flags | ({} if episode is None else {"episode": episode})).refuse_turns().starts
        log_prob = behaviour_log_prob
        if log_prob is not None:
            log_prob = number_column("behaviour_log_prob", log_prob, length)
        following, known = next_state_column(states, next_observations, next_known, starts)
        return cls(
            observations=states,
            actions=action_column(actions),
            rewards=number_column("rewards", rewards, length),
            next_observations=following,
            terminated=flags["terminated"],
            truncated=flags["truncated"],
            next_known=known,
            starts=starts,
            from_reset=np.ones(len(starts), dtype=np.bool_),
            behaviour_log_prob=log_prob,
            observation_space=simple_space(observation_space),
            action_space=simple_space(action_space),
        )

    @classmethod
    def from_episodes(
        cls,
        episodes: Iterable[Episode | dict[str, Any]],
        *,
        observation_space: Space | None = None,
        action_space: Space | None = None,
    ) -> LoggedDataset:
        """Whole episodes, each an `Episode` or a mapping with its fields; see `Episode`."""
        from ope_vpm.logged.episode import columns_of

        columns = columns_of(episodes)
        return cls.from_arrays(**columns, observation_space=observation_space, action_space=action_space)

    @classmethod
    def concatenate(cls, parts: Sequence[LoggedDataset]) -> LoggedDataset:
        """Several datasets of one task one after another, as of several behaviour policies."""
        from ope_vpm.logged.episode import join

        return join(parts)

    def __len__(self) -> int:
        return len(self.observations)

    def __repr__(self) -> str:
        states = "finite states" if self.finite else f"{self.observations.shape[1]}-dimensional states"
        actions = f"{self.n_actions} actions" if self.n_actions else f"{self.actions.shape[1]}-dimensional actions"
        return f"LoggedDataset({len(self)} steps, {self.n_episodes} episodes, {states}, {actions})"

    @property
    def n_episodes(self) -> int:
        """How many episodes there are."""
        return len(self.starts)

    @property
    def finite(self) -> bool:
        """Whether observations are integers: discrete or multi-discrete."""
        return self.observations.dtype.kind == "i"

    @property
    def discrete_actions(self) -> bool:
        """Whether actions are integers."""
        return self.actions.dtype.kind == "i"

    @cached_property
    def n_actions(self) -> int | None:
        """How many discrete actions the space has, or the data show; None for continuous ones."""
        if isinstance(self.action_space, spaces.Discrete):
            return int(self.action_space.n)
        return int(self.actions.max()) + 1 if self.discrete_actions else None

    @cached_property
    def lengths(self) -> Integers:
        """Steps of each episode."""
        return np.diff(self.starts, append=len(self))

    @cached_property
    def ends(self) -> Integers:
        """The last row of each episode."""
        return self.starts + self.lengths - 1

    @cached_property
    def episode(self) -> Integers:
        """The number of each row's episode."""
        return np.repeat(np.arange(self.n_episodes), self.lengths)

    @cached_property
    def time(self) -> Integers:
        """Steps since the first row of each row's episode."""
        time: Integers = np.arange(len(self))
        time -= np.repeat(self.starts, self.lengths)
        return time

    @cached_property
    def table(self) -> EpisodeTable:
        """The lengths and ends of the whole episodes."""
        ends = self.ends
        return EpisodeTable(self.lengths, self.from_reset, self.terminated[ends], self.truncated[ends])

    @property
    def limit(self) -> int | None:
        """The task's time limit, as the log shows it."""
        return self.table.limit

    @property
    def ends_here(self) -> Bools:
        """(episodes,): whether an episode's last row is among these rows; it is, unless they are a part of a log."""
        return np.ones(self.n_episodes, dtype=np.bool_)

    @cached_property
    def fingerprints(self) -> npt.NDArray[np.uint64]:
        """(episodes, 2): equal for episodes with equal states and actions; see `ope_vpm.logged.fingerprint`."""
        from ope_vpm.logged.fingerprint import fingerprints

        return fingerprints(self)

    @property
    def states_seen(self) -> Array:
        """One more than the largest number of each coordinate of finite states."""
        return np.maximum(self.observations.max(axis=0), self.next_observations.max(axis=0)) + 1

    @property
    def head(self) -> LoggedDataset:
        """Rows by which states, actions and policies are recognised."""
        return self

    @property
    def first_row(self) -> int:
        """The number of the first row in the log; 0, unless these rows are a part of one."""
        return 0

    @property
    def first_episode(self) -> int:
        """The number of the first episode in the log; 0, unless these rows are a part of one."""
        return 0

    def total(self, function: Callable[..., Result], *settings: Any) -> Result:
        """The merged results of a function of a log's parts and some settings; a log in memory is one part."""
        return function(self, *settings)

    def leads_on(self, time_limit: str) -> int:
        """How many rows have a known next state, or end the task: see `ope_vpm.ope.adapter.ends`."""
        ended = self.table.ended(time_limit, self.limit)
        return int(np.count_nonzero(self.next_known)) + int((ended & ~self.next_known[self.ends]).sum())

    @cached_property
    def reward_facts(self) -> RewardFacts:
        """The range of the rewards, and what the ends of episodes pay."""
        return RewardFacts.of(self.rewards, self.ends)

    @property
    def initial_observations(self) -> Array:
        """The states that followed a reset."""
        return self.observations[self.starts[self.from_reset]]

    @property
    def returns(self) -> Floats:
        """The undiscounted sum of rewards of each episode."""
        return np.add.reduceat(self.rewards, self.starts)

    def select(self, episodes: int | slice | Sequence[int] | npt.NDArray[Any]) -> LoggedDataset:
        """Some of the episodes, by number, slice, list or mask; repeated ones are repeated."""
        from ope_vpm.logged.episode import take

        return take(self, np.atleast_1d(np.arange(self.n_episodes)[episodes]))

    def with_resets(self, from_reset: object) -> LoggedDataset:
        """These data with another statement of which episodes begin at a reset."""
        return replace(self, from_reset=np.asarray(from_reset, dtype=np.bool_))

    def describe(self) -> Description:
        """Counts, returns, lengths and ranges; prints as a small table."""
        from ope_vpm.logged.describe import describe

        return describe(self)

    def save(self, path: str | Path) -> None:
        """Write to `.npz`, `.parquet` or `.h5`, whole or not at all.

        `.h5` is d3rlpy's format, which has no place for states after last steps, propensities and spaces: truncated
        rows are left out of an evaluation that reads it. The other two keep everything.
        """
        from ope_vpm.logged.formats import save

        save(self, path)

    def to_d3rlpy(self) -> Any:
        """These episodes as a d3rlpy `ReplayBuffer`; states after last steps are lost there."""
        from ope_vpm.logged.formats.d3rlpy import to_d3rlpy

        return to_d3rlpy(self)

    def to_minari(self, dataset_id: str) -> Any:
        """Write a new local Minari dataset and return it."""
        from ope_vpm.logged.formats.minari import to_minari

        return to_minari(self, dataset_id)
