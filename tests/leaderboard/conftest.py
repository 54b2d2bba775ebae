"""Estimators of another package that make trouble, installed for a while, also for the processes that tests start."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import contextmanager

import pytest

from ope_vpm import others
from ope_vpm.leaderboard.jobs import code_version

MODULE = """
import dataclasses
import os
import sys
import time
import warnings

import ope_vpm as ov


class Constant:
    name = "constant"

    def __init__(self, *, answer=7.0, seconds=0.0):
        self.answer, self.seconds = answer, seconds

    def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
        with open(__file__ + ".log", "a") as log:
            log.write(f"{os.getppid()} {os.getpid()} {self.name} {seed}\\n")
        time.sleep(self.seconds)
        return ov.PolicyValue(
            estimator=self.name, value=self.answer + seed, gamma=gamma, standard_error=None,
            interval=(0.0, 100.0), effective_sample_size=None, verdict="caution", reasons=("it is made up",),
        )


class Gated(Constant):
    name = "gated"

    def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
        said = super().estimate(data, policy, gamma=gamma, seed=seed)
        while not os.path.exists(__file__ + ".open"):
            time.sleep(0.02)
        return said


class Fails(Constant):
    name = "fails"

    def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
        if seed == 1:
            raise KeyError("<b>seed one</b>")
        return super().estimate(data, policy, gamma=gamma, seed=seed)


class Kills(Constant):
    name = "kills"

    def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
        if seed == 1:
            os._exit(9)
        return super().estimate(data, policy, gamma=gamma, seed=seed)


class Busy(Constant):
    name = "busy"

    def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
        super().estimate(data, policy, gamma=gamma, seed=seed)
        return sum(range(10**12))  # hours in C, and no other thread of the process gets a turn


class Speechless(Exception):
    def __str__(self):
        raise RuntimeError("not even this")


class Rude(Constant):
    name = "rude"  # does at each seed something else that no estimator should do

    def estimate(self, data, policy, *, gamma=1.0, seed=0, **choices):
        said = super().estimate(data, policy, gamma=gamma, seed=seed)
        if seed == 0:
            sys.exit("that is all")
        if seed == 1:
            raise KeyboardInterrupt("me too")
        if seed == 2:
            raise GeneratorExit("and me")
        if seed == 3:
            raise ValueError("lone \\udc80 surrogate")
        if seed == 4:
            raise Speechless
        if seed == 5:
            raise ValueError("x" * 1_000_000)
        if seed == 6:
            return None
        changes = {
            7: {"value": "high"}, 8: {"value": 10**400}, 9: {"interval": (1.0, 2.0, 3.0)}, 10: {"interval": "ab"},
            11: {"verdict": "splendid"}, 12: {"standard_error": [1.0]},
            13: {"reasons": ("lone \\udc80 surrogate",), "diagnostics": {"\\udc80": "\\udc80", "object": object()}},
        }
        warnings.warn("lone \\udc80 surrogate")
        return dataclasses.replace(said, **changes.get(seed, {}))
"""
NAMES = ("Constant", "Gated", "Fails", "Kills", "Busy", "Rude")
LOG = "trouble_estimators.py.log"


def open_gate(folder):
    """Let the estimator that waits for it answer."""
    (folder / "trouble_estimators.py.open").touch()


def computed(folder):
    """What the made-up estimators have been asked: parent, process, estimator, seed."""
    log = folder / LOG
    rows = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return [(int(parent), int(process), *rest) for parent, process, *rest in rows]


@contextmanager
def new_path(folder):
    """A folder of packages, in front of the others here and in new processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        before = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{before}" if before else str(folder))
        importlib.invalidate_caches()
        _forget()
        yield folder
    _forget()


def _forget():
    others.points.cache_clear()
    code_version.cache_clear()


@contextmanager
def trouble_in(path):
    """constant, fails and kills, found by entry points."""
    folder = path / "trouble-1.0.dist-info"
    folder.mkdir()
    (path / "trouble_estimators.py").write_text(MODULE)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: trouble\nVersion: 1.0\n")
    points = "\n".join(f"{name.lower()} = trouble_estimators:{name}" for name in NAMES)
    (folder / "entry_points.txt").write_text(f"[ope_vpm.estimators]\n{points}\n")
    with new_path(path):
        yield path
    sys.modules.pop("trouble_estimators", None)


@pytest.fixture
def trouble(tmp_path):
    """Where they are installed."""
    with trouble_in(tmp_path) as path:
        yield path
