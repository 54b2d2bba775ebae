"""Tables with named columns, as in Parquet and CSV: `observation_0`, `action`, `reward`, ..., LeRobot's, RLlib's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import flag_column, instead_of_numbers
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import MAP_NAMES, Options, require

NAMES = {
    "observations": ("observations", "observation", "obs", "state", "observation.state"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward", "next.reward"),
    "next_observations": ("next_observations", "next_observation", "next_obs", "next_state", "new_obs"),
    "terminated": ("terminated", "terminals", "terminal", "next.done", "terminateds"),
    "truncated": ("truncated", "timeouts", "timeout", "truncateds"),
    "episode": ("episode", "episode_id", "episode_index", "eps_id"),
    "frame": ("frame_index",),
    "next_known": ("next_known",),
    "behaviour_log_prob": ("behaviour_log_prob",),
    "from_reset": ("from_reset",),
}
"""The names a column may have; several columns are numbered `name_0`, `name_1`, ..."""

NUMBERS = ("observations", "actions", "rewards", "next_observations", "behaviour_log_prob")
"""Columns that hold numbers: others are flags and labels, which are checked where they are used."""
REQUIRED = ("observations", "actions", "rewards")


def from_table(path: object, table: Mapping[str, Array], options: Options) -> LoggedDataset:
    """A dataset from columns found by name, or by the user's own mapping."""
    mapping = dict(options.columns or {})
    unknown = sorted(set(mapping) - set(NAMES))
    if unknown:
        raise ValueError(f"columns maps {', '.join(unknown)}, but only {', '.join(NAMES)} can be mapped")
    found = _names(path, list(table), mapping)
    columns: dict[str, Any] = {ours: _column(path, table, ours, theirs) for ours, theirs in found.items()}
    missing = [name for name in REQUIRED if name not in columns]
    require(path, missing, table, MAP_NAMES)
    if not columns.keys() & {"terminated", "truncated", "episode"}:
        require(path, ("terminated",), table, f"or give an episode column or truncated; {MAP_NAMES}")
    frame, resets = columns.pop("frame", None), columns.pop("from_reset", None)
    data = LoggedDataset.from_arrays(**columns, **options.spaces())
    if frame is not None:
        _check_order(path, frame, data)
    if resets is None:
        return data
    if len(resets) != data.n_episodes:  # one for each row rather than for each episode
        resets = flag_column("from_reset", resets, len(data))[data.starts]
    return data.with_resets(flag_column("from_reset", resets, data.n_episodes))


def _check_order(path: object, frame: Array, data: LoggedDataset) -> None:
    """Refuse rows of one episode whose numbers do not rise: each is taken for the step before the next."""
    falls = (np.diff(frame) <= 0) & (data.episode[1:] == data.episode[:-1])
    if falls.any():
        row = int(np.argmax(falls))
        raise ValueError(
            f"frames of {path} must be in the order of time: {frame[row]} is followed by {frame[row + 1]} in one "
            "episode (sort the rows by episode and frame)"
        )


def check_unique(path: object, names: Sequence[str]) -> None:
    """Refuse columns of one name: which of them is meant cannot be told."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(
            f"columns of {path} must have different names: {', '.join(map(repr, twice))[:200]} comes twice"
        )


def to_table(data: LoggedDataset) -> dict[str, Array]:
    """A dataset's columns by the names that `from_table` finds."""
    table: dict[str, Array] = {}
    for name in ("observations", "actions", "next_observations"):
        column = getattr(data, name)
        short = NAMES[name][1]
        if column.ndim == 1:
            table[short] = column
        else:
            table |= {f"{short}_{index}": column[:, index] for index in range(column.shape[1])}
    table["reward"] = data.rewards
    table |= {name: getattr(data, name) for name in ("terminated", "truncated", "next_known", "episode")}
    table["from_reset"] = data.from_reset[data.episode]
    if data.behaviour_log_prob is not None:
        table["behaviour_log_prob"] = data.behaviour_log_prob
    return table


def names_of(
    path: object, available: Sequence[str], options: Options, wanted: Sequence[str] = tuple(NAMES)
) -> list[str]:
    """The names of a table's columns that a dataset, or some of its columns, are made of."""
    found = _names(path, available, options.columns or {}, wanted)
    return [name for names in found.values() for name in ([names] if isinstance(names, str) else names)]


def _names(
    path: object,
    available: Sequence[str],
    mapping: Mapping[str, str | Sequence[str]],
    wanted: Sequence[str] = tuple(NAMES),
) -> dict[str, str | Sequence[str]]:
    """For each of our columns that a table has: the name of its column, or the names of several, one per coordinate."""
    known, numbered = set(available), _numbered(available)
    found: dict[str, str | Sequence[str]] = {}
    for ours in wanted:
        theirs = mapping.get(ours)
        if theirs is not None:
            require(path, [theirs] if isinstance(theirs, str) else theirs, known, f"columns maps {ours} to them")
            found[ours] = theirs
            continue
        alias = next((alias for alias in NAMES[ours] if alias in known or alias in numbered), None)
        if alias is not None:
            found[ours] = (
                alias if alias in known else sorted(numbered[alias], key=lambda name: int(name.split("_")[-1]))
            )
    return found


def _numbered(names: Sequence[str]) -> dict[str, list[str]]:
    """Names such as `state_0` and `state_1`, by what stands before the number."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        stem, _, number = name.rpartition("_")
        if number.isascii() and number.isdigit():
            found[stem].append(name)
    return found


def _column(path: object, table: Mapping[str, Array], ours: str, theirs: str | Sequence[str]) -> Array:
    """One column, or several side by side."""
    names = [theirs] if isinstance(theirs, str) else theirs
    columns = [table[name] for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind == "U" and ours in NUMBERS:
            raise TypeError(f"column {name!r} of {path} must hold numbers: {instead_of_numbers(column)}")
    return columns[0] if isinstance(theirs, str) else np.stack(columns, axis=1)
