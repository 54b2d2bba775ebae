"""A suite's TOML file, as it comes from outside: found, parsed, and refused where it is absurd or asks for trust."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from ope_vpm.leaderboard.fields import absurd
from ope_vpm.leaderboard.words import SuiteError, unknown
from ope_vpm.outside import one_line

LARGEST_FILE = 1 << 20
"""Bytes of a suite's file: the largest shipped one has 3 KB, and reading takes a second a megabyte."""


def shipped() -> list[str]:
    """The suites that come with the package."""
    folder = files("ope_vpm.leaderboard") / "suites"
    return sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))


def read_table(name: str, trust: bool) -> tuple[dict[str, Any], Path]:
    """What a suite's file holds, and the folder from which its paths are seen."""
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
