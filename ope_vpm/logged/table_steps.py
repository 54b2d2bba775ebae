"""The columns of a table, by their roles, as the steps of a log."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.encoding import Encoding, StateColumn, levels_of
from ope_vpm.logged.table_columns import DAY, Column, rows_of

End = Literal["terminated", "truncated"]

MOST_ACTIONS = 50
"""Different whole numbers in the action's column beyond which they are taken for amounts, such as a dose."""
RECURS = 2
"""Rows per whole number of a single state column, on average, from which on the numbers are taken for names of states:
a state that does not recur cannot be counted."""
FEW_VALUES = 10
"""Different whole numbers of a state column up to which it may as well hold names, such as the number of a shop."""
MOST_LEVELS = 256
"""Levels of one of several state columns, each of which becomes a feature: beyond that it is rather an identifier, and
kernels of so many features see all rows equally far apart."""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table with their roles, on the way to a dataset."""

    columns: dict[str, Column]
    roles: dict[str, list[str]]
    labels: list[str]
    numbers: list[str]
    refuse_missing: bool
    ends: End
    one_step: bool
    """Whether each row is an episode."""
    frame_kind: str | None
    order: Integers | None = None
    """The number that each row had in the table, after they were sorted."""

    def role(self, name: str) -> Column | None:
        """The one column of a role, complete; None where the role is not played."""
        names = self.roles[name]
        return self.columns[names[0]].require(name) if names else None

    def sorted(self) -> Table:
        """Rows of one episode one after another in the order of time; episodes in the order in which they appear."""
        self._check()
        episode, time = self.role("episode"), self.role("time")
        length = len(next(iter(self.columns.values())).values)
        keys: list[Array] = []
        if time is not None:
            if time.kind == "label":
                raise TypeError(f"time must be numbers or dates: {time.name!r} holds texts, such as {time.values[0]!r}")
            keys.append(time.values)
        if episode is not None:
            _, first, number = np.unique(episode.values, return_index=True, return_inverse=True)
            keys.append(first[number])
        if not keys or self.one_step:
            return self
        order = np.lexsort(keys) if len(keys) > 1 else np.argsort(keys[0], kind="stable")
        if (order == np.arange(length)).all():
            return self
        columns = {
            name: replace(each, values=each.values[order], missing=each.missing[order])
            for name, each in self.columns.items()
        }
        return replace(self, columns=columns, order=order)

    def _check(self) -> None:
        """Refuse what cannot be used while rows still have the table's numbers, by which errors name them."""
        self.columns[self.roles["reward"][0]].numbers("reward")
        self._log_prob(discrete=self._actions()[1] is not None)
        for role in ("terminal", "truncated"):
            self._said(role)
        for name in self.roles["state"] if self.refuse_missing else ():
            if self.columns[name].missing.any():
                raise ValueError(
                    f"the state must be given in every row, as missing='refuse' asks: {name!r} is missing in "
                    f"{rows_of(self.columns[name].missing)}"
                )

    def dataset(self) -> LoggedDataset:
        """Make the dataset, with its encoding."""
        rewards = self.columns[self.roles["reward"][0]].numbers("reward")
        episode = self._episode(len(rewards))
        encoding, observations = self._states(episode)
        actions, levels = self._actions()
        encoding = replace(encoding, actions=levels, observations=observations, order=self.order)
        data = LoggedDataset.from_arrays(
            observations,
            actions,
            rewards,
            terminated=self._flags(episode, "terminated"),
            truncated=self._flags(episode, "truncated"),
            episode=episode,
            behaviour_log_prob=self._log_prob(discrete=levels is not None),
            observation_space=spaces.Discrete(len(encoding.state[0].levels or ())) if encoding.finite else None,
            action_space=None if levels is None else spaces.Discrete(len(levels)),
        )
        return replace(data, encoding=replace(encoding, taken=self._taken(encoding, data)))

    def _episode(self, length: int) -> Integers:
        """The number of each row's episode; it changes after a row at which the task ended or was cut off."""
        column = self.role("episode")
        if self.one_step:
            return np.arange(length)
        changes = np.zeros(length, dtype=np.bool_)
        if column is not None:
            changes[1:] = column.values[1:] != column.values[:-1]
        for ended in (self._said("terminal"), self._said("truncated")):
            changes[1:] |= False if ended is None else ended[:-1]
        return np.cumsum(changes)

    def _said(self, role: str) -> Bools | None:
        """Where a column says that an episode ended; None where there is no such column."""
        column = self.role(role)
        if column is None:
            return None
        values = column.numbers(role)
        if not np.isin(values, (0, 1)).all():
            wrong = ~np.isin(values, (0, 1))
            raise ValueError(
                f"{role} must hold only true or false, 1 or 0: {column.name!r} is {values[wrong][0]:g} in "
                f"{rows_of(wrong)}"
            )
        return values == 1

    def _flags(self, episode: Integers, which: End) -> Bools:
        """Where the task ended, or where an episode was cut off."""
        last = np.append(episode[1:] != episode[:-1], True)
        ended, cut = self._said("terminal"), self._said("truncated")
        if ended is None and cut is None:
            return last & (which == self.ends)
        if ended is None:
            assert cut is not None
            ended = last & ~cut
        return ended if which == "terminated" else last & ~ended

    def _states(self, episode: Integers) -> tuple[Encoding, Array]:
        """The encoding and the observations."""
        names = self.roles["state"]
        used = {name for each in self.roles.values() for name in each}
        others = {name: column for name, column in self.columns.items() if name not in used}
        finite = len(names) == 1 and self._has_labels(self.columns[names[0]], alone=True)
        columns = [self._days(self.columns[name], episode) for name in names]
        state = tuple(StateColumn.of(each, finite or self._has_labels(each, alone=False)) for each in columns)
        encoding = Encoding(state, finite, tuple(self.roles["action"]), None, self.frame_kind, others=others)
        if finite:
            return encoding, state[0].codes(columns[0])
        for each in state:
            if each.levels is not None and len(each.levels) > MOST_LEVELS:
                raise ValueError(
                    f"{each.name!r} has {len(each.levels)} levels, more than {MOST_LEVELS}, and each is a feature: "
                    f"group them, or leave it out with drop=[{each.name!r}]"
                )
        return encoding, np.hstack([each.encode(column) for each, column in zip(state, columns, strict=True)])

    def _has_labels(self, column: Column, alone: bool) -> bool:
        """Whether a column of the state holds names; `alone`, recurring whole numbers and flags are some, too."""
        if column.name in self.numbers:
            return False
        if column.kind == "label" or column.name in self.labels:
            return True
        recurs = column.whole and len(column.values) >= RECURS * len(column.levels)
        return alone and (column.kind == "flag" or recurs)

    def _days(self, column: Column, episode: Integers) -> Column:
        """Dates as days since the episode's start; other columns as they are."""
        if column.kind != "date":
            return column
        time = self.role("time")
        clock = time if time is not None and time.kind == "date" else column
        known = np.flatnonzero(~clock.missing)
        if self.one_step:
            start = clock.values[known].min() if len(known) else np.datetime64("NaT")
        else:
            dates = clock.values.astype(np.int64)
            first = np.full(episode[-1] + 1, np.iinfo(np.int64).max)
            np.minimum.at(first, episode[known], dates[known])
            start = first.astype("datetime64[us]")[episode]
        days: Floats = (column.values - start) / DAY
        return replace(column, values=np.where(column.missing, np.nan, days))

    def _actions(self) -> tuple[Array, tuple[Any, ...] | None]:
        """The actions, and their names where they are discrete."""
        names = self.roles["action"]
        if len(names) > 1:
            return np.column_stack([self.columns[name].numbers("action") for name in names]), None
        column = self.columns[names[0]].require("action")
        few = column.whole and len(column.levels) <= MOST_ACTIONS
        discrete = column.kind in ("label", "flag") or few or column.name in self.labels
        if not discrete or column.name in self.numbers:
            return column.numbers("action"), None
        levels = levels_of(column)
        return StateColumn(column.name, column.kind, levels).codes(column), levels

    def _log_prob(self, discrete: bool) -> Floats | None:
        column = self.role("propensity")
        if column is None:
            return None
        values = column.numbers("propensity")
        wrong = ~(values > 0) | (discrete & (values > 1))
        if wrong.any():
            raise ValueError(
                f"propensity must be the probability of the logged action, above 0 and at most 1: {column.name!r} is "
                f"{values[np.argmax(wrong)]:g} in {rows_of(wrong)}"
            )
        return np.log(values)

    def _taken(self, encoding: Encoding, data: LoggedDataset) -> str:
        """One sentence that says what each column was taken for."""
        if self.one_step:
            end = "each row is an episode of one step"
        elif self.roles["terminal"]:
            end = "other last rows of episodes are cut off"
        elif self.roles["truncated"]:
            end = "at other last rows of episodes the task ended"
        else:
            other = "truncated" if self.ends == "terminated" else "terminated"
            end = f"the last row of an episode is taken for {self.ends} (ends={other!r} for the other)"
        return f"{len(data)} rows, {data.n_episodes} episodes: {described(self.roles, encoding)}; {end}"

    def ask(self) -> None:
        """Warn of what may as well mean something else: whole-number columns, and rows at one time of an episode."""
        self._warn_of_ties()
        alone = len(self.roles["state"]) == 1
        said = {*self.labels, *self.numbers}
        whole = [self.columns[name] for name in self.roles["state"] if name not in said and self.columns[name].whole]
        names = [column.name for column in whole if self._has_labels(column, alone=alone)]
        amounts = [each.name for each in whole if each.name not in names and len(each.levels) <= FEW_VALUES]
        if names:
            warnings.warn(
                f"the whole numbers of {', '.join(names)} are taken for names of states: say numbers={names!r} if they "
                f"are amounts, labels={names!r} if they are not",
                stacklevel=3,
            )
        if amounts:
            warnings.warn(
                f"the few whole numbers of {', '.join(amounts)} are taken for amounts: say labels={amounts!r} if they "
                f"are names, numbers={amounts!r} if they are not",
                stacklevel=3,
            )

    def _warn_of_ties(self) -> None:
        """Warn of rows that the time does not put in order; the table is sorted."""
        time, episode = self.role("time"), self.role("episode")
        if time is None or self.one_step:
            return
        same = time.values[1:] == time.values[:-1]
        same &= episode is None or episode.values[1:] == episode.values[:-1]
        if same.any():
            after = int(np.argmax(same)) + 1
            rows = (after - 1, after) if self.order is None else tuple(self.order[after - 1 : after + 1])
            warnings.warn(
                f"{time.name} does not order all rows of an episode: {np.count_nonzero(same)} have the time of the one "
                f"before, such as rows {rows[0]} and {rows[1]}, and stay in the order of the table",
                stacklevel=4,
            )


def described(roles: Mapping[str, list[str]], encoding: Encoding) -> str:
    """Which column plays which role."""
    states = f"{len(encoding.state[0].levels or ())} finite states"
    if not encoding.finite:
        states = f"{len(encoding.features)} features"
    words = [f"state {', '.join(roles['state'])} ({states})"]
    actions = "continuous" if encoding.actions is None else _few(encoding.actions)
    words.append(f"action {', '.join(roles['action'])} ({actions})")
    words += [f"{role} {names[0]}" for role, names in roles.items() if role not in ("state", "action") and names]
    return "; ".join(words)


def _few(names: Sequence[Any], most: int = 8) -> str:
    """The first names of a list."""
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
