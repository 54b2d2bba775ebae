"""Tests in a process of their own, forked from one that has imported everything, with one expression changed in it.

A change inside a function replaces the code of the function that is loaded already, so that a mutant costs little more
than the tests that notice it. After a change of what runs on import the child imports everything anew.
"""

from __future__ import annotations

import contextlib
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
TESTED = ("tests/linear", "tests/chain", "tests/logged", "tests/baselines", "tests/ope", "tests/questions")
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-m", "not long")
BROKEN = 70
"""The exit code of a child that failed before its tests began; those end with 0 to 5."""
MOST_MEMORY = 8 << 30
"""Bytes that a child may ask for: several times what the tests need, so that a mutant of a size harms nobody else."""
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
            with contextlib.suppress(ImportError):  # of an extra that goes with no other, as rllib
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
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
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


def first_failure(mutant: Mutant, tests: list[str], cpu_seconds: float) -> str | None:
    """The test that failed first, "time" where the time was up, "collection" where no test could begin; else None.

    A failure counts only if the same tests pass, in half of the time, in a child that was made in the same way without
    the change. A single test that does not, because it needs a browser or the like, is left out from then on, and the
    others are tried again; where none can be named, the run stops.
    """
    anew = not _replacements(mutant)
    while tests := [name for name in tests if (anew, (name,)) not in _unsound]:
        found = _in_child(lambda: apply(mutant), tests, cpu_seconds)
        if found is None:
            return None
        noticed = (found,) if found in tests else tuple(tests)
        if (anew, noticed) in _sound or _passes(anew, noticed, cpu_seconds / 2):
            _sound.add((anew, noticed))
            return found
        if len(noticed) > 1:
            raise RuntimeError(f"some of these fail without a change: {', '.join(noticed)}")
        print(f"left out, for it fails without a change: {found}", flush=True)
        _unsound.add((anew, noticed))
    return None


_sound: set[tuple[bool, tuple[str, ...]]] = set()
"""Tests that passed without a change, and whether everything was imported anew before."""
_unsound: set[tuple[bool, tuple[str, ...]]] = set()
"""Tests that did not."""


def _passes(anew: bool, tests: tuple[str, ...], cpu_seconds: float) -> bool:
    """Whether tests pass without a change."""
    return _in_child(forget_own_modules if anew else _no_change, list(tests), cpu_seconds) is None


def _no_change() -> None:
    pass


def _in_child(change: Callable[[], None], tests: list[str], cpu_seconds: float) -> str | None:
    """What `first_failure` says, of one child that makes a change and then runs the tests."""
    with tempfile.TemporaryDirectory() as folder:
        failed, begun = Path(folder) / "failed", Path(folder) / "begun"

        def work() -> int:
            change()
            begun.touch()
            return int(pytest.main([*QUIET, "-x", *tests], plugins=[_FirstFailure(failed)]))

        code = in_child(work, cpu_seconds)
        if not begun.exists():
            raise RuntimeError(f"the change could not be made before {', '.join(tests)}")
        if code == 0:
            return None
        return failed.read_text() if failed.exists() else "time" if code is None else "collection"


class _FirstFailure:
    """A plug-in of pytest that writes the name of the first test that failed into a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.file.exists():
            self.file.write_text(report.nodeid)


def apply(mutant: Mutant) -> None:
    """Make the change, in this process."""
    replacements = _replacements(mutant)
    if replacements:
        for function, code in replacements:
            function.__code__ = code
    else:
        forget_own_modules()
        _load_instead(_place(mutant), _compiled(mutant))


def _replacements(mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
    """The functions that are loaded and changed, each with its new code; none for a change of what runs on import."""
    if not mutant.in_function:
        return []
    new = {(each.co_name, each.co_firstlineno): each for each in _functions(_compiled(mutant))}
    pairs = [(each, new.get((each.__code__.co_name, each.__code__.co_firstlineno))) for each in _loaded[_place(mutant)]]
    return [
        (function, code)
        for function, code in pairs
        if code is not None and code != function.__code__ and code.co_freevars == function.__code__.co_freevars
    ]


def _compiled(mutant: Mutant) -> CodeType:
    return compile(mutant.tree, str(_place(mutant)), "exec", dont_inherit=True)


def _place(mutant: Mutant) -> Path:
    return (ROOT / mutant.file).resolve()


def _functions(code: CodeType) -> Iterator[CodeType]:
    """The functions of a module and of its classes, and those within them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _functions(constant)


def forget_own_modules() -> None:
    """Let everything of this repository be imported anew, but for this program."""
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/").resolve()
        ours = file.is_relative_to(ROOT) and "site-packages" not in file.parts
        if ours and not name.startswith(("tests.mutation", "__main__")):
            del sys.modules[name]
    for name in [name for name in sys.modules if name == "tests" or name.startswith("ope_vpm")]:
        del sys.modules[name]


def _load_instead(place: Path, code: CodeType) -> None:
    """Import the changed code in the place of a file."""
    usual = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, name: str) -> Any:
        return code if Path(self.path).resolve() == place else usual(self, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[assignment]
