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
