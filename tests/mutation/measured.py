"""Which test runs which line, and how long it takes, measured one test file at a time and kept."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.changes import ROOT
from tests.mutation.process import QUIET, TESTED, forget_own_modules, in_child

MOST_MINUTES = 20
"""Of processor time for one test file."""
IMPORTED = ""
"""The name of the test under which lines count that run when their module is imported."""


@dataclass(frozen=True)
class Lines:
    """The tests that run each line, those that import each file, and their processor seconds."""

    tests: dict[tuple[str, int], set[str]]
    importing: dict[str, set[str]]
    """All tests of the test files that import a file."""
    seconds: dict[str, float]

    def of(self, file: str, line: int, on_import: bool) -> list[str] | None:
        """The tests that notice a line; all that import its file where it runs on import; None where nothing runs it.

        A test may notice a constant without running a line of its file, and a file that is imported within a test is
        no more that test's than any other's.
        """
        names = self.tests.get((file, line))
        if names is None:
            return None
        names = names - {IMPORTED}
        return sorted(self.importing[file] if on_import or not names else names)


def measure(folder: Path, without: Collection[str] = ()) -> None:
    """Measure the test files that are new or have changed, but for some."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in test_files():
        if file.stem in without:
            continue
        kept = folder / f"{file.relative_to(ROOT / 'tests').with_suffix('')}.json".replace("/", ".")
        if kept.exists() and json.loads(kept.read_text())["content"] == _content(file):
            continue
        begin = time.monotonic()
        code = in_child(lambda file=file, kept=kept: _measure(file, kept), 60 * MOST_MINUTES)
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise RuntimeError(f"{file.relative_to(ROOT)} cannot be measured: exit code {code}")
        print(f"measured {file.relative_to(ROOT)} in {time.monotonic() - begin:.0f} s", flush=True)


def test_files() -> Iterator[Path]:
    """Of the rooms that are mutated."""
    for place in TESTED:
        yield from sorted((ROOT / place).rglob("test_*.py"))


def measured(folder: Path) -> Lines:
    """What was measured, together."""
    tests: dict[tuple[str, int], set[str]] = defaultdict(set)
    importing: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    for kept in sorted(folder.glob("*.json")):
        found = json.loads(kept.read_text())
        names = list(found["seconds"])
        if (
            not names or not (ROOT / names[0].split("::")[0]).exists()
        ):  # the test file is gone: its tests would all fail
            continue
        seconds |= found["seconds"]
        for file, lines in found["lines"].items():
            importing[file] |= set(names)
            for line, numbers in lines.items():
                tests[file, int(line)] |= {names[number] if number >= 0 else IMPORTED for number in numbers}
    return Lines(dict(tests), dict(importing), seconds)


def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


class _Watch:
    """A plug-in of pytest: the lines of each test, under its name, and its processor time."""

    def __init__(self, cover: Any) -> None:
        self.cover = cover
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.cover.switch_context(item.nodeid)
        begin = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - begin


def _measure(file: Path, kept: Path) -> int:
    import coverage

    forget_own_modules()
    cover = coverage.Coverage(data_file=None, source=[str(ROOT / "ope_vpm"), str(ROOT / "baselines")])
    watch = _Watch(cover)
    cover.start()
    name = str(file.relative_to(ROOT))
    code = pytest.main([*QUIET, name], plugins=[watch])
    cover.stop()
    passed = {name: time for name, time in watch.seconds.items() if name not in watch.failed}
    lines = _by_number(cover.get_data(), list(passed), watch.failed)
    found = {"content": _content(file), "code": int(code), "seconds": passed, "lines": lines}
    kept.write_text(json.dumps(found))
    return int(code)


def _by_number(data: Any, names: list[str], failed: set[str]) -> dict[str, dict[int, list[int]]]:
    """For every file and line the numbers of the tests that run it but for those that failed; -1 for its import."""
    number = {name: place for place, name in enumerate(names)}
    lines: dict[str, dict[int, list[int]]] = defaultdict(dict)
    for name in data.measured_files():
        file = str(Path(name).resolve().relative_to(ROOT.resolve()))
        for line, contexts in data.contexts_by_lineno(name).items():
            found = [number.get(context, -1) for context in contexts if context not in failed]
            if found:
                lines[file].setdefault(line, []).extend(found)
    return lines
