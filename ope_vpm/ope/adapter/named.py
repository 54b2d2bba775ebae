"""Policies in the words of a table: functions of data frames, columns, probabilities by name, classifiers, groups.

They need the encoding of a dataset that came from a table: see `ope_vpm.from_table`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy import CategoricalPolicy, DeterministicPolicy, TargetPolicy
from ope_vpm.policy.discrete import one_hot
from ope_vpm.suggestions import suggestion

if TYPE_CHECKING:  # only logs that came from tables need them
    from ope_vpm.logged.encoding import Encoding
    from ope_vpm.logged.table_columns import Column

Rows = Callable[[Array], Floats]
"""From observations to the probabilities of all actions, or to continuous actions, a row each."""


def named_policy(encoding: Encoding, policy: Any) -> TargetPolicy:
    """The target policy, which may speak of columns and actions by name.

    Args:
        encoding: that of the dataset.
        policy: whatever `as_policy` takes; but a plain function takes a data frame of the state's columns and returns
            names of actions, one of them for all rows, or probabilities by name. So may be given: the name of a column
            that says what a rule would have done, such a column itself, probabilities of the table's rows by name, a
            fitted classifier of scikit-learn, and a dict from the values of a column to actions.
    """
    words = _Words(encoding)
    if isinstance(policy, str):
        return words.policy(words.column(policy), f"column {policy}")
    if hasattr(policy, "predict_proba"):
        return words.policy(words.classifier(policy), type(policy).__name__)
    if isinstance(policy, Mapping) and words.is_rule(policy):
        if _are_columns(policy):
            return words.policy(words.by_rows(policy, "the policy"), f"probabilities of {len(policy)} actions")
        return words.policy(words.groups(policy), f"dict of {len(policy)} groups")
    if _is_frame(policy) or (np.ndim(policy) == 1 and not callable(policy)):
        return words.policy(words.by_rows(policy, "the policy"), "said of each row of the table")
    if callable(policy) and type(policy).__module__ in ("builtins", "functools"):  # objects of libraries are known
        name = getattr(policy, "__name__", "function")
        return words.policy(lambda seen: words.read(policy(encoding.frame(seen)), len(seen), name), f"function {name}")
    return TargetPolicy.of(policy)


def is_one_policy(data: Any, policy: Mapping[Any, Any]) -> bool:
    """Whether a mapping is one policy, from groups to actions or from actions to probabilities, rather than several."""
    encoding: Encoding | None = getattr(data, "encoding", None)
    return encoding is not None and _Words(encoding).is_rule(policy)


def is_table(policy: Sequence[Any]) -> bool:
    """Whether a list is one table, each entry the probabilities of a state, rather than several policies."""
    return all(not callable(entry) and np.ndim(entry) == 1 for entry in policy)


class _Sourced:
    """A policy that prints where it came from."""

    source: str

    def described(self) -> list[str]:
        """A line about the source of the policy."""
        return [self.source]


class NamedPolicy(_Sourced, CategoricalPolicy):
    """Discrete actions by their names."""


class NamedDose(_Sourced, DeterministicPolicy):
    """Continuous actions, one in each state."""


class _Words:
    """Actions in the words of users, read by the encoding of their table."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    def policy(self, rows: Rows, source: str) -> TargetPolicy:
        """The policy of a function of observations."""
        actions = self.encoding.actions
        made = NamedDose(rows) if actions is None else NamedPolicy(rows, len(actions))
        made.source = source
        return made

    def read(self, said: Any, rows: int, said_by: str) -> Floats:
        """Probabilities, (n, actions), or continuous actions, (n, m), from names, numbers or columns by name."""
        actions = self.encoding.actions
        if _is_frame(said) or isinstance(said, Mapping):
            return self._by_name(said, rows, said_by)
        if isinstance(said, str) or np.ndim(said) == 0:
            said = [said] * rows
        values = _values(said)
        if len(values) != rows:
            raise ValueError(
                f"{said_by} must say one action per row, or one for all: got {len(values)} for {rows} rows"
            )
        if actions is None or values.ndim == 2:
            return np.asarray(values, dtype=np.float64).reshape(rows, -1)
        return one_hot(self.encoding.action_numbers(_plain(values), said_by), len(actions))

    def _by_name(self, said: Any, rows: int, said_by: str) -> Floats:
        """Columns of probabilities, or of continuous actions, by name; an action without a column has probability 0."""
        actions = self.encoding.actions
        names = list(said) if isinstance(said, Mapping) else _names(said)
        known = self.encoding.action if actions is None else actions
        found: Floats = np.zeros((rows, len(known)))
        given = {name: place for place, name in enumerate(known)} | {str(name): n for n, name in enumerate(known)}
        for name in names:
            if name not in given:
                raise ValueError(
                    f"{said_by} has a column {name!r}, which is no action: {suggestion(str(name), map(str, known))}"
                )
            column = np.asarray(_values(said[name]), dtype=np.float64)
            if column.shape not in ((), (rows,)):
                raise ValueError(f"{said_by} must have one number per row: {name!r} has {column.shape} for {rows} rows")
            found[:, given[name]] = column
        if actions is None and len(names) < len(known):
            raise ValueError(f"{said_by} must give every action, {', '.join(map(str, known))}: got {', '.join(names)}")
        return found

    def column(self, name: str) -> Rows:
        """The actions that a column of the table names, by state."""
        encoding = self.encoding
        if name in {column.name for column in encoding.state}:
            return lambda seen: self.read(encoding.columns(seen)[name], len(seen), f"the column {name!r}")
        if name not in encoding.others:
            raise ValueError(
                f"a policy that is a text names a column of the table: got {name!r}, "
                f"{suggestion(name, [*encoding.others, *(column.name for column in encoding.state)])} "
                "(a rule's column must not be part of the state: give state=[...] to from_table)"
            )
        column = encoding.others[name]
        return self._looked_up(self.read(_objects(column), len(column.values), f"the column {name!r}"), name)

    def by_rows(self, said: Any, said_by: str) -> Rows:
        """The actions that are given for each row of the table, in the table's own order."""
        rows = len(self.encoding.observations)
        found = self.read(said, rows, said_by)
        return self._looked_up(found if self.encoding.order is None else found[self.encoding.order], said_by)

    def _looked_up(self, said: Floats, said_by: str) -> Rows:
        """The mean of what was said of the table's rows with one state.

        Finite states that are not in the table play no part in any answer, and have equal probabilities.
        """
        keys, place = np.unique(_keys(self.encoding.observations), return_inverse=True)
        counts = np.bincount(place)
        mean = np.column_stack([np.bincount(place, weights=column) for column in said.T]) / counts[:, None]
        rounding = np.finfo(float).eps * counts[place, None] * np.abs(said).max(axis=0)  # of such a mean
        apart = (np.abs(mean[place] - said) > rounding).any(axis=1)
        if apart.any():
            warnings.warn(
                f"{said_by} says different things of rows with the same state ({apart.mean():.0%} of the rows), and is "
                "taken for a policy that does each as often: put what it looks at into the state",
                stacklevel=2,
            )
        finite, width = self.encoding.finite, said.shape[1]

        def rows(seen: Array) -> Floats:
            wanted = _keys(seen)
            found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            known = keys[found] == wanted
            if not known.all() and not finite:
                raise ValueError(
                    f"{said_by} says what to do in the rows of the table alone, and {(~known).sum()} of {len(seen)} "
                    "states are others: give the rule as a function of a data frame"
                )
            return np.where(known[:, None], mean[found], 1 / width)

        return rows

    def classifier(self, model: Any) -> Rows:
        """The probabilities of a fitted classifier, its classes being names of actions."""
        encoding, title = self.encoding, type(model).__name__
        if encoding.actions is None:
            raise ValueError(f"{title} chooses from classes, and the actions are continuous: give a function")
        if not hasattr(model, "classes_"):
            raise ValueError(f"a classifier must be fitted before it is a policy: {title} has no classes_ (call fit)")
        place = encoding.action_numbers(np.asarray(model.classes_).tolist(), title)
        names = getattr(model, "feature_names_in_", None)
        own = [column.name for column in encoding.state]
        for name in () if names is None else names:
            if name not in own:
                raise ValueError(
                    f"{title} was fitted on the column {name!r}, which is not part of the state: "
                    f"{suggestion(str(name), own)}"
                )

        def rows(seen: Array) -> Floats:
            found: Floats = np.zeros((len(seen), len(encoding.actions or ())))
            table = seen.reshape(len(seen), -1) if names is None else encoding.frame(seen, names)
            found[:, place] = model.predict_proba(table)
            return found

        return rows

    def groups(self, rule: Mapping[Any, Any]) -> Rows:
        """The action of the group to which a state belongs, by the one column that has such groups."""
        name = self._grouped_by(rule)
        assert name is not None
        groups = set(_plain(self.encoding.columns(self.encoding.observations)[name]))
        if not groups <= set(rule):
            missing = ", ".join(sorted(map(repr, groups - set(rule))))
            raise ValueError(f"a dict from groups to actions must name every {name}: {missing} is missing")

        def actions(seen: Array) -> list[Any]:
            return [rule[group] for group in _plain(self.encoding.columns(seen)[name])]

        return lambda seen: self.read(actions(seen), len(seen), "the dict")

    def is_rule(self, policy: Mapping[Any, Any]) -> bool:
        """Whether a mapping goes from groups to actions, or from actions to columns of probabilities."""
        if not policy or self.encoding.actions is None:
            return False
        if _are_columns(policy):
            return set(policy) <= {*self.encoding.actions, *map(str, self.encoding.actions)}
        known = set(self.encoding.actions)
        named = all(
            not callable(each) and type(each).__hash__ is not None and each in known for each in policy.values()
        )
        return named and self._grouped_by(policy) is not None

    def _grouped_by(self, rule: Mapping[Any, Any]) -> str | None:
        """The column of the state that takes the values that the rule names."""
        columns = self.encoding.columns(self.encoding.observations)
        levels = {column.name: set(column.levels or ()) for column in self.encoding.state}
        found = [name for name, values in columns.items() if set(rule) <= {*_plain(values), *levels[name]}]
        if len(found) > 1:
            raise ValueError(f"{', '.join(found)} all take the values {list(rule)}: give the rule as a function")
        return found[0] if found else None


def _keys(observations: Array) -> Array:
    """One value per row that is equal where rows are."""
    rows = np.asarray(observations)
    if rows.ndim == 1:
        return rows
    rows = np.ascontiguousarray(rows, dtype=np.float64) + 0.0  # -0 is 0
    keys: Array = rows.view(f"V{rows.itemsize * rows.shape[1]}")[:, 0]
    return np.array([key.tobytes() for key in keys], dtype=object)


def _objects(column: Column) -> list[Any]:
    """The values of a column as they stood in the table; None where they are missing."""
    values = column.values.astype(bool) if column.kind == "flag" else column.values
    return [None if absent else value for value, absent in zip(values.tolist(), column.missing, strict=True)]


def _plain(values: Array) -> list[Any]:
    """The values of an array; None where they are missing."""
    from ope_vpm.logged.table_columns import is_missing  # imported here: only logs that came from tables need it

    return [None if is_missing(value) else value for value in values.tolist()]


def _are_columns(policy: Mapping[Any, Any]) -> bool:
    return all(not isinstance(each, str) and np.ndim(each) == 1 for each in policy.values())


def _is_frame(said: Any) -> bool:
    """Whether it is a table with named columns."""
    return hasattr(said, "__getitem__") and (hasattr(said, "columns") or hasattr(said, "column_names"))


def _names(frame: Any) -> list[Any]:
    return list(getattr(frame, "column_names", None) or frame.columns)


def _values(said: Any) -> Array:
    """A series, a list or an array as an array, as NumPy reads it; names stay names."""
    values = said.to_numpy() if hasattr(said, "to_numpy") else said
    if isinstance(values, list | tuple) and any(isinstance(each, str) or each is None for each in values):
        return np.array(values, dtype=object)
    return np.asarray(values)
