"""Tables with named columns, as in Parquet and CSV: `observation_0`, `action`, `reward`, ..."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import flag_column
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.files import MAP_NAMES, Options, require

NAMES = {
    "observations": ("observations", "observation", "obs", "state"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"),
    "next_observations": ("next_observations", "next_observation", "next_obs", "next_state"),
    "terminated": ("terminated", "terminals", "terminal"),
    "truncated": ("truncated", "timeouts", "timeout"),
    "episode": ("episode", "episode_id"),
    "next_known": ("next_known",),
    "behaviour_log_prob": ("behaviour_log_prob",),
    "from_reset": ("from_reset",),
}
"""The names a column may have; several columns are numbered `name_0`, `name_1`, ..."""

REQUIRED = ("observations", "actions", "rewards")


def from_table(path: object, table: Mapping[str, Array], options: Options) -> LoggedDataset:
    """A dataset from columns found by name, or by the user's own mapping."""
    mapping = dict(options.columns or {})
    unknown = sorted(set(mapping) - set(NAMES))
    if unknown:
        raise ValueError(f"columns maps {', '.join(unknown)}, but only {', '.join(NAMES)} can be mapped")
    found = {name: _find(path, table, name, mapping.get(name)) for name in NAMES}
    columns: dict[str, Any] = {name: array for name, array in found.items() if array is not None}
    missing = [name for name in REQUIRED if name not in columns]
    require(path, missing, table, MAP_NAMES)
    if not columns.keys() & {"terminated", "truncated", "episode"}:
        require(path, ("terminated",), table, f"or give an episode column or truncated; {MAP_NAMES}")
    resets = columns.pop("from_reset", None)
    data = LoggedDataset.from_arrays(
        **columns, observation_space=options.observation_space, action_space=options.action_space
    )
    return data if resets is None else data.with_resets(flag_column("from_reset", resets, len(data))[data.starts])


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
    mapping = options.columns or {}
    found = [_named(path, available, name, mapping.get(name)) for name in wanted]
    return [name for names in found if names is not None for name in ([names] if isinstance(names, str) else names)]


def _find(path: object, table: Mapping[str, Array], name: str, mapped: Any) -> Array | None:
    names = _named(path, list(table), name, mapped)
    if names is None:
        return None
    return table[names] if isinstance(names, str) else _stack([table[key] for key in names])


def _named(path: object, available: Sequence[str], name: str, mapped: Any) -> str | list[str] | None:
    """The name of the column that holds something, or the names of several that hold its coordinates."""
    if mapped is not None:
        chosen = [mapped] if isinstance(mapped, str) else list(mapped)
        require(path, chosen, available, f"columns maps {name} to them")
        return mapped if isinstance(mapped, str) else chosen
    for alias in NAMES[name]:
        if alias in available:
            return alias
        numbered = [key for key in available if re.fullmatch(rf"{alias}_\d+", key)]
        if numbered:
            return sorted(numbered, key=lambda key: int(key.rsplit("_", 1)[1]))
    return None


def _stack(columns: list[Array]) -> Array:
    return np.stack(columns, axis=1)
