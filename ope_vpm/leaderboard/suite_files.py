"""A suite's TOML file, as it comes from outside: found, parsed, refused where it is absurd, made into dataclasses."""

import math
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from ope_vpm.outside import one_line
from ope_vpm.suggestions import unknown

LARGEST_FILE = 1 << 20
"""Bytes of a suite's file: the largest shipped one has 3 KB, and reading takes a second a megabyte."""


def shipped() -> list[str]:
    """The suites that come with the package."""
    folder = files("ope_vpm.leaderboard") / "suites"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def read_table(name: str, trust: bool) -> tuple[dict[str, Any], Path]:
    """The table of a suite's TOML file, and the folder to which its paths are relative."""
    text, folder = _text(name)
    try:
        table = tomllib.loads(text)
        numbers = absurd(table, name)
    except (ValueError, RecursionError) as error:  # the second where it nests too deeply
        raise SuiteError(name, [f"this is not TOML: {one_line(error)}"]) from error
    if numbers or (not trust and _asks_for_trust(table)):
        # Told before any task is made: making one reads its files.
        raise SuiteError(name, numbers or ["trust = true lets its files run code: pass --trust if you know them"])
    return table, folder


def _text(name: str) -> tuple[str, Path]:
    if name in shipped():
        return (files("ope_vpm.leaderboard") / "suites" / f"{name}.toml").read_text(encoding="utf-8"), Path()
    path = Path(name).expanduser()
    if not name.endswith(".toml"):
        raise ValueError(unknown("suite", name, shipped()) + " (your own is a file that ends in .toml)")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.stat().st_size > LARGEST_FILE:
        raise SuiteError(name, [f"a suite must be smaller than {LARGEST_FILE} bytes: it has {path.stat().st_size}"])
    try:
        return path.read_text(encoding="utf-8"), path.parent
    except UnicodeDecodeError as error:
        raise SuiteError(name, ["this is not TOML: it is not UTF-8 text"]) from error


def _asks_for_trust(table: dict[str, Any]) -> bool:
    tasks = table.get("tasks")
    return isinstance(tasks, list) and any(isinstance(task, dict) and task.get("trust", False) for task in tasks)


def with_paths(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The table with its paths seen from the suite's folder; that of `dataset` is `dataset_file`."""
    given = dict(table)
    if isinstance(table.get("dataset"), str):
        given["dataset_file"] = _beside(table["dataset"], folder)
    if isinstance(table.get("policies"), dict):
        policies = table["policies"].items()
        given["policies"] = {key: _beside(path, folder) if isinstance(path, str) else path for key, path in policies}
    return given


def missing_files(given: dict[str, Any]) -> list[str]:
    """Policies that are not there; whether a log is one may only be known by reading it, as with Minari's ids."""
    policies = given.get("policies")
    paths = policies.values() if isinstance(policies, dict) else []
    log = given.get("dataset_file")
    paths = [*([log] if isinstance(log, str) and Path(log).suffix else []), *paths]
    return [f"there is no file {path}" for path in paths if isinstance(path, str) and not Path(path).exists()]


def _beside(path: str, folder: Path) -> str:
    try:
        inside = folder / Path(path).expanduser()
        return str(inside.resolve()) if inside.exists() else path  # which may be a Minari id
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, an unknown user: no path at all
        return path


class SuiteError(ValueError):
    """An invalid suite; the message has one sentence per problem."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        if len(self.problems) == 1:
            super().__init__(f"{name}: {self.problems[0]}")
        else:
            lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(self.problems, 1))
            super().__init__(f"{name} has {len(self.problems)} problems:\n{lines}")


LARGEST = 10_000_000
"""Whole numbers in a suite are counts and sizes; beyond ten million they are slips or attacks."""
MOST_TOLD, LONGEST = 20, 100
"""Unknown fields that are told, and letters of each: the search for the nearest name takes its time."""
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def misfits(cls: type[Any], table: Mapping[str, Any], others: tuple[str, ...] = ()) -> list[str]:
    """Why a table does not fit a dataclass, one sentence each; `others` are fields that are read elsewhere."""
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
    """Describe a type in words, for error messages."""
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
