"""How the columns of a table became numbers, kept with the dataset so that names can be given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.logged.table_columns import Column, Kind, rows_of
from ope_vpm.suggestions import suggestion

FEW_GAPS = 10
"""Whole numbers from 0 up keep their own number where the largest is below ten times their count, so that tables of
probabilities fit them; numbers that lie farther apart, such as identifiers, are counted through."""


@dataclass(frozen=True)
class StateColumn:
    """One column of the state and the features that stand for it."""

    name: str
    kind: Kind
    levels: tuple[Any, ...] | None = None
    """The names that it takes, a feature each; None for a number. The last is None where values are missing."""
    filled: float | None = None
    """The number that stands in place of a missing one, beside a feature that says so; None where none is missing."""
    whole: bool = False
    """Whether its numbers are integers."""

    @classmethod
    def of(cls, column: Column, labels: bool) -> StateColumn:
        """How a column is encoded: its levels where it has `labels`, otherwise a number and perhaps "is missing"."""
        if column.missing.all():
            raise ValueError(f"{column.name!r} has no value in any row: leave it out, as by drop=[{column.name!r}]")
        if labels:
            none = (None,) if column.missing.any() else ()
            return cls(column.name, column.kind, (*levels_of(column), *none))
        known = column.values[~column.missing]
        filled = None
        if column.missing.any():
            filled = float(known.mean()) if column.kind == "number" else 0.0
        return cls(column.name, column.kind, None, filled, column.whole)

    @property
    def features(self) -> tuple[str, ...]:
        """The name of each of its features."""
        if self.levels is not None:
            return tuple(
                f"{self.name} is missing" if level is None else f"{self.name} = {level}" for level in self.levels
            )
        return (self.name,) if self.filled is None else (self.name, f"{self.name} is missing")

    def codes(self, column: Column) -> Integers:
        """The place of each value among the levels."""
        assert self.levels is not None
        values = column.values.astype(bool) if column.kind == "flag" else column.values
        return places(values.tolist(), column.missing, self.levels)

    def encode(self, column: Column) -> Floats:
        """Its features, (n, features)."""
        if self.levels is not None:
            return np.eye(len(self.levels))[self.codes(column)]
        if self.filled is None:
            return column.values.astype(np.float64)[:, None]
        values = np.where(column.missing, self.filled, column.values.astype(np.float64))
        return np.column_stack([values, column.missing.astype(np.float64)])

    def decode(self, features: Array) -> Array:
        """The values that features stand for, one per row: names, numbers, days since the episode's start."""
        if self.levels is not None:
            return self.named(features.argmax(axis=1))
        values: Array = features[:, 0]
        missing = features[:, 1] > 0.5 if self.filled is not None else np.zeros(len(values), dtype=np.bool_)
        if self.kind == "flag":
            flags: Array = values > 0.5
            if not missing.any():
                return flags
            found: Array = flags.astype(object)
            found[missing] = None
            return found
        if self.whole and bool((values == np.rint(values)).all()):
            return values.astype(np.int64)
        return np.where(missing, np.nan, values)

    def named(self, codes: Array) -> Array:
        """The levels of those numbers."""
        assert self.levels is not None
        names: Array = np.empty(len(self.levels), dtype=object)
        names[:] = self.levels
        found: Array = names[codes]
        return (
            found if None in self.levels else np.array(found.tolist(), dtype=None if self.kind != "label" else object)
        )


@dataclass(frozen=True, eq=False)
class Encoding:
    """The names behind the numbers of a dataset that came from a table."""

    state: tuple[StateColumn, ...]
    """The columns of the state, in the order of the observations' coordinates."""
    finite: bool
    """Whether the one column's levels are the states; otherwise columns are features side by side."""
    action: tuple[str, ...]
    """The names of the action's columns; several for continuous actions only."""
    actions: tuple[Any, ...] | None
    """The names of the discrete actions by their numbers; None where actions are continuous."""
    frame_kind: str | None = None
    """The library whose data frames policies are given: the table's own, or one that is installed; None: dicts."""
    taken: str = ""
    """One sentence that says what each column was taken for."""
    observations: Array = field(default_factory=lambda: np.empty(0), repr=False)
    """The encoded states of the table's rows, for `others`."""
    order: Array | None = field(default=None, repr=False)
    """The table's number of each of these rows; None where they stand as in the table."""
    others: Mapping[str, Column] = field(default_factory=dict, repr=False)
    """Columns that play no part in the log, by name: one of them may say what a rule would have done in each row."""

    @property
    def features(self) -> tuple[str, ...]:
        """The name of each coordinate of an observation; for finite states, of the one column."""
        if self.finite:
            return (self.state[0].name,)
        return tuple(name for column in self.state for name in column.features)

    def columns(self, observations: Array) -> dict[str, Array]:
        """The state's columns by name, as they stood in the table."""
        if self.finite:
            return {self.state[0].name: self.state[0].named(np.asarray(observations))}
        edges = np.cumsum([len(column.features) for column in self.state])[:-1]
        parts = np.split(np.asarray(observations), edges, axis=1)
        return {column.name: column.decode(part) for column, part in zip(self.state, parts, strict=True)}

    def frame(self, observations: Array, names: Sequence[str] | None = None) -> Any:
        """The columns of the state as a data frame of the table's own kind; `names` chooses columns and their order."""
        columns = self.columns(observations)
        columns = columns if names is None else {name: columns[name] for name in names}
        if self.frame_kind is None:
            return columns
        import narwhals.stable.v1 as nw

        return nw.from_dict(columns, backend=self.frame_kind).to_native()  # type: ignore[arg-type]

    def state_name(self, number: int) -> str:
        """The name of a finite state."""
        return f"{self.state[0].name} = {(self.state[0].levels or ())[number]}"

    def state_said(self, observation: Array) -> str:
        """A state by the names of its columns, as in "region = south, age = 30"."""
        columns = self.columns(np.asarray(observation)[None])
        return ", ".join(f"{name} = {values.tolist()[0]}" for name, values in columns.items())

    def action_said(self, action: Array) -> str:
        """An action by its name, or by the names of its columns."""
        if self.actions is not None:
            return str(self.actions[int(action)])
        return ", ".join(
            f"{name} = {number:.4g}" for name, number in zip(self.action, np.atleast_1d(action), strict=True)
        )

    def action_numbers(self, names: Sequence[Any], said_by: str) -> Integers:
        """The numbers of discrete actions that are given by their names.

        Args:
            names: one per row.
            said_by: who named them, for the error.
        """
        assert self.actions is not None
        missing = np.array([name is None for name in names], dtype=np.bool_)
        if missing.any():
            raise ValueError(f"{said_by} must name an action in every row: it names none in {rows_of(missing)}")
        try:
            return places(names, missing, self.actions)
        except KeyError as error:
            name = str(error.args[0])
            raise ValueError(
                f"{said_by} names the action {name!r}, which {self.action[0]!r} does not have: "
                f"{suggestion(name, map(str, self.actions))}"
            ) from error


def levels_of(column: Column) -> tuple[Any, ...]:
    """The levels of a column; whole numbers from 0 up with few gaps keep their own number."""
    levels = column.levels
    if column.whole and levels[0] >= 0 and levels[-1] < FEW_GAPS * len(levels):
        return tuple(range(levels[-1] + 1))
    return levels


def places(values: Sequence[Any], missing: Array, levels: tuple[Any, ...]) -> Integers:
    """The place of each value among the levels; where it is missing, that of None."""
    index = {level: place for place, level in enumerate(levels)}
    found = [index[None if absent else value] for value, absent in zip(values, missing, strict=True)]
    return np.array(found, dtype=np.int64)
