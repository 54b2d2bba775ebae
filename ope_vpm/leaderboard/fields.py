"""From a TOML table to a frozen dataclass: unknown fields, missing ones and wrong types, each one sentence."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from ope_vpm.leaderboard.words import unknown

LARGEST = 10_000_000
"""Whole numbers in a suite are counts and sizes; beyond ten million they are slips or attacks."""
MOST_TOLD, LONGEST = 20, 100
"""Unknown fields that are told, and letters of each: the search for the nearest name takes its time."""
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def misfits(cls: type[Any], table: Mapping[str, Any], others: tuple[str, ...] = ()) -> list[str]:
    """What keeps the table from being a `cls`; `others` are fields that are read elsewhere."""
    hints = get_type_hints(cls)
    known = {field.name: field for field in fields(cls)}
    strange = [name for name in table if name not in known and name not in others]
    found = [unknown("field", name[:LONGEST], [*others, *known]) for name in strange[:MOST_TOLD]]
    for name, field in known.items():
        needed = field.default is MISSING and field.default_factory is MISSING
        if needed and name not in table:
            found.append(f"{name} is missing")
        if name in table and not fits(table[name], hints[name]):
            found.append(f"{name} must be {described(hints[name])}: got {table[name]!r:.100}")
    return found


def absurd(value: Any, name: str) -> list[str]:
    """A sentence for each number anywhere in a table that is not finite or beyond `LARGEST`."""
    if isinstance(value, dict):
        return [problem for key, entry in value.items() for problem in absurd(entry, str(key))]
    if isinstance(value, list):
        return [problem for entry in value for problem in absurd(entry, name)]
    if isinstance(value, int) and abs(value) > LARGEST:  # not printed: it may have a million digits
        return [f"{name} must be at most {LARGEST}: got a whole number of {value.bit_length()} bits"]
    if isinstance(value, float) and not math.isfinite(value):
        return [f"{name} must be a finite number: got {value}"]
    return []


def build(cls: type[Any], table: Mapping[str, Any]) -> Any:
    """The dataclass of a table that fits; whole numbers become floats and lists tuples where the fields say so."""
    hints = get_type_hints(cls)
    return cls(
        **{field.name: _as(table[field.name], hints[field.name]) for field in fields(cls) if field.name in table}
    )


def fits(value: Any, hint: Any) -> bool:
    """Whether a TOML value is of a field's type."""
    options = _options(hint)
    return any(_fits_one(value, option) for option in options)


def described(hint: Any) -> str:
    """A type in words."""
    option = _options(hint)[0]
    origin, inner = get_origin(option), get_args(option)
    if origin is tuple:
        return f"a list, each {described(inner[0])}"
    if origin is not None:
        return f"a table, each entry {described(inner[1])}"
    return WORDS[option]


def _options(hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return [option for option in get_args(hint) if option is not type(None)]
    return [hint]


def _fits_one(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        return isinstance(value, list) and all(fits(entry, inner[0]) for entry in value)
    if origin is not None:
        return isinstance(value, dict) and all(fits(entry, inner[1]) for entry in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))


def _as(value: Any, hint: Any) -> Any:
    option = _options(hint)[0]
    if get_origin(option) is tuple:
        return tuple(value)
    if get_origin(option) is not None:
        return {name: _as(entry, get_args(option)[1]) for name, entry in value.items()}
    return float(value) if option is float else value
