"""Tests in a process of their own, forked from one that has imported everything, with one expression changed in it.

A change inside a function replaces the code of the function that is loaded already, so that a mutant costs little more
than the tests that notice it. After a change of what runs on import the child imports everything anew.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutation.changes import ROOT, Mutant

LIBRARIES = ("torch", "scipy.stats", "scipy.sparse.linalg", "gymnasium", "stable_baselines3", "d3rlpy", "h5py")
TESTED = ("tests/linear", "tests/chain", "tests/logged", "tests/baselines", "tests/ope")
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-m", "not long")
BROKEN = 70
"""The exit code of a child that failed before its tests began; those end with 0 to 5."""
NO_SUCH_TEST = 4
"""The exit code of pytest where a test that was asked for does not exist."""
PATIENCE = 30
"""Seconds of a clock for a second of processor time, on a machine that others use, before a child counts as asleep."""


def preload() -> None:
    """Import the libraries and, by collecting all tests, everything that they test."""
    os.chdir(ROOT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in LIBRARIES:
            __import__(library)
    pytest.main([*QUIET, "--collect-only", "-q", "-q", *TESTED])
    _import_own_modules()
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and (thing.__module__ or "").startswith("ope_vpm"):
            _loaded[Path(thing.__code__.co_filename).resolve()].append(thing)
    gc.freeze()  # children share the memory of everything that is not looked at


def _import_own_modules() -> None:
    """Import what tests import only while they run, so that a mutant of it can be made before they run."""
    import ope_vpm

    for module in pkgutil.walk_packages(ope_vpm.__path__, "ope_vpm."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


_loaded: defaultdict[Path, list[FunctionType]] = defaultdict(list)
"""The functions of each file of the package, as they are loaded."""


def in_child(work: Callable[[], int], cpu_seconds: float) -> int | None:
    """The exit code of a forked process; None where it took too long and was ended."""
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            os.setsid()
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 5))
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + PATIENCE * cpu_seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


def first_failure(mutant: Mutant | None, tests: list[str], cpu_seconds: float) -> str | None:
    """The test that failed first, "time" where the time was up, "collection" where no test could begin; else None."""
    with tempfile.TemporaryDirectory() as folder:
        failed = Path(folder) / "failed"

        def work() -> int:
            if mutant is not None:
                apply(mutant)
            return int(pytest.main([*QUIET, "-x", *tests], plugins=[_FirstFailure(failed)]))

        code = in_child(work, cpu_seconds)
        if code == 0:
            return None
        if code == NO_SUCH_TEST and not failed.exists() and (mutant is None or mutant.in_function):
            raise RuntimeError(f"some of these tests are not there any more: measure them again: {', '.join(tests)}")
        if code == BROKEN and not failed.exists():
            if mutant is None or mutant.in_function:  # nothing ran the change: that says nothing about the tests
                raise RuntimeError("the change could not be made in the functions that are loaded")
            return "import"
        return failed.read_text() if failed.exists() else ("time" if code is None else "collection")


class _FirstFailure:
    """A plug-in of pytest that writes the name of the first test that failed into a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid)


def apply(mutant: Mutant) -> None:
    """Make the change, in this process."""
    place = (ROOT / mutant.file).resolve()
    code = compile(mutant.tree, str(place), "exec", dont_inherit=True)
    if mutant.in_function:
        _replace_functions(place, code)
    else:
        forget_own_modules()
        _load_instead(place, code)


def _replace_functions(place: Path, code: CodeType) -> None:
    new = {(each.co_name, each.co_firstlineno): each for each in _functions(code)}
    if not _loaded[place]:
        raise RuntimeError(f"no function of {place} is loaded")
    for function in _loaded[place]:
        own = function.__code__
        other = new.get((own.co_name, own.co_firstlineno))
        if other is not None and own.co_freevars == other.co_freevars:
            function.__code__ = other


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module and of its classes, and those within them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _functions(constant)


def forget_own_modules() -> None:
    """Let everything of this repository be imported anew."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve().is_relative_to(ROOT) and not name.startswith("tests.mutation"):
            del sys.modules[name]
    for name in [name for name in sys.modules if name == "tests" or name.startswith("ope_vpm")]:
        del sys.modules[name]


def _load_instead(place: Path, code: CodeType) -> None:
    """Import the changed code in the place of a file."""
    usual = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, name: str) -> Any:
        return code if Path(self.path).resolve() == place else usual(self, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[assignment]
