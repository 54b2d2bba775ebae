"""The door of a LoggedDataset: what each column may look like, and one sentence where it does not."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array, Bools, Floats, Integers, chunks
from ope_vpm.joint_actions import combination_numbers
from ope_vpm.logged.spaces import Space, numbered_space, same_length
from ope_vpm.optional import is_tensor
from ope_vpm.outside import parse_number


def observation_column(name: str, values: object) -> Array:
    """Integers (n,): states; integers (n, k): multi-discrete; floats (n, d): continuous states.

    Mappings and tuples of columns are laid side by side, mappings in the order of their sorted keys. Axes
    beyond the second, as of images, are flattened.
    """
    if isinstance(values, Mapping):
        parts = [observation_column(f"{name}[{key!r}]", values[key]) for key in sorted(values)]
        return _side_by_side(name, parts)
    if isinstance(values, tuple):
        parts = [observation_column(f"{name}[{index}]", part) for index, part in enumerate(values)]
        return _side_by_side(name, parts)
    array = _numbers(name, values)
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
        return array if array.dtype.kind == "f" else _as_floats(array)
    return _column(array)


def finite_states(name: str, states: Array, space: Space | None) -> Array:
    """States as integers where their space says that they are discrete, however they are stored."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary) and states.dtype.kind == "f":
        return _column(whole_numbers(name, states))
    return states


def action_column(values: object) -> Array:
    """Integers (n,): discrete actions counted from 0; floats (n, m): continuous ones."""
    array = _numbers("actions", values)
    if array.ndim > 2:
        raise ValueError(f"actions must have shape (n,) or (n, m): got {array.shape} (flatten them to (n, m) first)")
    array = _column(array)
    if array.dtype.kind == "i" and array.ndim == 2:
        raise ValueError(
            f"integer actions must have shape (n,): got {array.shape} "
            "(number multi-discrete actions by np.ravel_multi_index, or give floats)"
        )
    if array.dtype.kind == "i" and array.size and int(array.min()) < 0:
        row = int(np.argmin(array))
        raise ValueError(f"discrete actions are counted from 0: row {row} is {array[row]}")
    return array


def numbered_actions(values: object, space: Space | None) -> tuple[Any, Space | None]:
    """Multi-discrete and multi-binary actions as numbers of their combinations, with the space of these numbers.

    Discrete actions are numbers already, whatever their type, and those of a Box are floats; others stay as they are.
    """
    if isinstance(space, spaces.Discrete):
        return whole_numbers("actions", _numbers("actions", values)), space
    if isinstance(space, spaces.Box):
        array = _numbers("actions", values)
        return (array if array.dtype.kind == "f" else array.astype(np.float64)), space
    if not isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        return values, space
    numbers = combination_numbers(whole_numbers("actions", _numbers("actions", values)), space)
    return numbers, numbered_space(space)


def whole_numbers(name: str, values: Array) -> Array:
    """Integers from numbers that are all whole."""
    if not are_whole(values):
        raise ValueError(f"{name} must be whole numbers: they are discrete")
    return values.astype(np.int64, copy=False)


def are_whole(values: Array) -> bool:
    """Whether all numbers are whole, and small enough for floats to tell neighbours apart."""
    if values.dtype.kind != "f":
        return True
    return all(
        bool((np.isfinite(part) & (np.abs(part) < 2**53) & (part % 1 == 0)).all())
        for part in (values[rows] for rows in chunks(len(values), of=[values]))
    )


def are_numbers(actions: Array) -> bool:
    """Whether actions that are stored as floats, (n, 1), may be the numbers of discrete ones: 0.0, 1.0, 2.0."""
    return actions.shape[1:] == (1,) and bool(actions.min() >= 0) and are_whole(actions)


def number_column(name: str, values: object, length: int) -> Floats:
    """One number a row, as float64; (n, 1) is taken for (n,)."""
    array = _one_a_row(name, values, length)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numbers: {instead_of_numbers(array)}")
    return array.astype(np.float64, copy=False)


def instead_of_numbers(array: Array) -> str:
    """The part of an error that says what came in place of numbers: the first such text with its row, or the type."""
    if array.dtype.kind == "U":
        for row, texts in enumerate(array.reshape(len(array), -1).tolist()):
            for text in texts:
                try:
                    parse_number(text)
                except ValueError:
                    return f"row {row} is {text[:40]!r}"
    return f"got dtype {array.dtype}"


def episode_column(values: object, length: int) -> Array:
    """One label a row, a number or a text, that changes where a new episode begins; none may be missing."""
    array = _one_a_row("episode", values, length)
    if array.dtype.kind not in "fiubUS":
        raise TypeError(f"episode must hold numbers or texts: got dtype {array.dtype}")
    missing = np.zeros(length, dtype=np.bool_)
    if array.dtype.kind == "f":
        missing = np.isnan(array)
    elif array.dtype.kind in "US":
        missing = np.char.str_len(array) == 0
    if missing.any():
        raise ValueError(f"episode must be given in every row: row {int(np.argmax(missing))} has none")
    return array


def refuse_turns(label: Array, rows: Integers) -> None:
    """Refuse a label that comes twice, in a log whose every row has another label than the row before it.

    Episodes that take turns row by row, as a vector of environments logs them, would each be cut into single rows, and
    every state be an initial one. Only all rows of a log together can tell.

    Args:
        label: the episodes of the rows that no flag ends.
        rows: the numbers of these rows.
    """
    labels, first, times = np.unique(label, return_index=True, return_counts=True)
    if (times > 1).any():
        again = labels[times > 1][np.argmin(first[times > 1])]
        before, row = rows[np.flatnonzero(label == again)[:2]]
        raise ValueError(
            f"rows of one episode must follow one another: episode {again} has row {before} and then row {row} "
            "(sort the rows by episode, keeping their order in time)"
        )


def as_precise(first: Array, second: Array) -> tuple[Array, Array]:
    """Both columns in the more precise of their types, where both hold floats."""
    if first.dtype.kind != "f" or second.dtype.kind != "f":
        return first, second
    common = np.result_type(first, second)
    return first.astype(common, copy=False), second.astype(common, copy=False)


def flag_column(name: str, values: object | None, length: int) -> Bools:
    """One truth value a row; numbers must be 0 or 1, None is all False."""
    if values is None:
        return np.zeros(length, dtype=np.bool_)
    array = _one_a_row(name, values, length)
    wrong = np.ones(length, dtype=np.bool_) if array.dtype.kind not in "fiub" else ~np.isin(array, (0, 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"{name} must hold only true or false, 1 or 0: row {row} is {str(array[row])[:40]!r}")
    return array.astype(np.bool_, copy=False)


def _column(array: Array) -> Array:
    """(n,) floats become (n, 1); (n, 1) integers become (n,)."""
    if array.dtype.kind == "f" and array.ndim == 1:
        return array[:, None]
    if array.dtype.kind == "i" and array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    return array


def _side_by_side(name: str, parts: list[Array]) -> Array:
    if not parts:
        raise ValueError(f"{name} has no entries: give at least one column")
    for part in parts[1:]:
        if len(part) != len(parts[0]):
            raise ValueError(f"parts of {name} must have the same length: {len(parts[0])} != {len(part)}")
    return np.hstack([part.reshape(len(part), -1) for part in parts])


def _numbers(name: str, values: object) -> Array:
    """An array of int64 or floats, the caller's own memory where the type allows."""
    try:
        array = _plain(name, values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array: its rows have different shapes (ragged)") from error
    if array.ndim == 0:
        raise ValueError(f"{name} must hold one row a step: got the single value {array}")
    if len(array) and array.size == 0:
        raise ValueError(f"{name} must have at least one column: got shape {array.shape}")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit in 64-bit integers: got {array.max()}")
    if array.dtype.kind in "iub":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "f":
        # Half precision fits into float32; long doubles and other byte orders become the float64 that is computed in.
        return array.astype(np.float32 if array.dtype.itemsize <= 4 else np.float64, copy=False)
    raise TypeError(f"{name} must be an array of integers or floats: {instead_of_numbers(array)}")


def _plain(name: str, values: Any) -> Array:
    """An array of whatever is like one; a tensor without its gradient."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: leave masked rows out, or give .filled(...)")
    return np.asanyarray(values.detach().cpu() if is_tensor(values) else values)


def _as_floats(integers: Array) -> Array:
    """Floats that hold the integers exactly: float32 does up to 2^24, as for the pixels of images."""
    small = integers.size == 0 or max(abs(int(integers.min())), abs(int(integers.max()))) <= 1 << 24
    return integers.astype(np.float32 if small else np.float64)


def _one_a_row(name: str, values: object, length: int) -> Array:
    array = _plain(name, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must hold one value a row: got shape {array.shape}")
    same_length(name, array, length)
    return array


def next_state_column(
    states: Array, array: Array | None, known: object | None, starts: Integers
) -> tuple[Array, Bools]:
    """The state after each step, and whether it is known.

    Args:
        states: the state before each step.
        array: the states after them as they were given; None: each is the state of the following row.
        known: whether each was logged; None: all but those after last steps that are nothing but NaN.
        starts: the first row of each episode.
    """
    length = len(states)
    last = np.append(starts[1:] - 1, length - 1)
    if array is not None:
        same_length("next_observations", array, length)
        given = _given(array, last) if known is None else flag_column("next_known", known, length)
        return _of_kind(states, array, given), given
    array = np.empty_like(states, subok=False)
    array[:-1] = states[1:]
    array[last] = np.nan if states.dtype.kind == "f" else -1
    inside = np.ones(length, dtype=np.bool_)
    inside[last] = False
    return array, inside


def _given(array: Array, last: Integers) -> Bools:
    """Which next states were logged: all, except for those after an episode's last step that are nothing but NaN."""
    given = np.ones(len(array), dtype=np.bool_)
    if array.dtype.kind == "f":
        given[last] = ~np.isnan(array[last].reshape(len(last), -1)).all(axis=1)
    return given


def _of_kind(states: Array, array: Array, given: Bools) -> Array:
    """Next states as integers where states are: a column with missing numbers is stored as floats."""
    if states.dtype.kind != "i" or array.dtype.kind != "f" or array.size != states.size or not are_whole(array[given]):
        return array
    numbers = array.reshape(states.shape)
    known = given.reshape(-1, *[1] * (states.ndim - 1))
    return np.where(known, np.where(known, numbers, 0.0).astype(np.int64), -1)
