"""The cells of a leaderboard: what each is to compute, the key under which it is remembered, and what came of it.

Results of other code are not mistaken for those of this one: a hash of the code that decides numbers is part of a key.
What lies beside the code, such as shipped policies, is part of a task's identity instead.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from ope_vpm.leaderboard.suites import Entry, Setting, Suite
from ope_vpm.leaderboard.tasks import hash_of
from ope_vpm.ope.estimator import estimator_class
from ope_vpm.optional import versions
from ope_vpm.others import PLACES

APART = ("leaderboard", "studies", "cli.py", "progress.py")
"""Parts of the package that decide no number of a cell; everything else is taken to."""
DECIDING = ("leaderboard/tasks", "leaderboard/compute.py")
"""Parts of those that do."""
LIBRARIES = ("numpy", "scipy", "torch")


@cache
def code_version(estimator: str | None = None) -> str:
    """Return a hash of our code and the numerical libraries' versions, and of another package's estimator."""
    content = hashlib.blake2b(digest_size=16)
    root = Path(str(files("ope_vpm")))
    for part in [*filter(_decides, sorted(root.iterdir())), *(root / part for part in DECIDING)]:
        _add(content, part)
    content.update(str(versions(LIBRARIES)).encode())
    if estimator is not None and estimator not in PLACES:
        module = sys.modules[estimator_class(estimator).__module__.partition(".")[0]]
        if module.__file__ is not None:
            place = Path(module.__file__)
            _add(content, place.parent if place.name == "__init__.py" else place)
    return content.hexdigest()


def _decides(place: Path) -> bool:
    return place.name not in APART and (place.suffix == ".py" or (place / "__init__.py").is_file())


def _add(content: hashlib.blake2b, place: Path) -> None:
    for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        content.update(str(file.relative_to(place.parent)).encode())
        content.update(file.read_bytes())


MOST_CELLS = 2_000_000
"""Planning and reporting that many take minutes and a few gigabytes; more is rather a slip of the hand."""


@dataclass(frozen=True)
class Job:
    """One cell to compute, with the hash under which its result is stored."""

    key: str
    setting: Setting
    policy: str
    entry: Entry | None
    """None: the truth and the on-policy floor instead of an estimate."""
    run: int
    seed: int

    def describe(self) -> dict[str, Any]:
        """This job in words, as the store shows it."""
        return {
            "task": self.setting.name,
            "kind": self.setting.task.kind,
            **self.setting.task.axes(),
            "gamma": self.setting.gamma,
            "policy": self.policy,
            "estimator": None if self.entry is None else self.entry.label,
            "run": self.run,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Result:
    """The outcome of a job, or the error with which it failed."""

    key: str
    outcome: dict[str, Any] = field(default_factory=dict)
    """As JSON holds it; empty after a failure."""
    error: str | None = None
    seconds: float = 0.0


def plan(suite: Suite) -> list[Job]:
    """Every cell of a suite: the references first, then run by run, so that a broken-off suite is a smaller one."""
    _refuse_too_many(suite)
    pairs = [(setting, policy) for setting in suite.settings for policy in setting.task.names()]
    known = [setting.task.identity(policy) for setting, policy in pairs]
    references = [
        _job(setting, policy, identity | setting.task.truth_identity(policy), None, 0, 0)
        for (setting, policy), identity in zip(pairs, known, strict=True)
    ]
    cells = [
        _job(setting, policy, identity, entry, run, suite.seeds(setting)[run])
        for run in range(max((len(suite.seeds(setting)) for setting in suite.settings), default=0))
        for (setting, policy), identity in zip(pairs, known, strict=True)
        if run < len(suite.seeds(setting))
        for entry in suite.competitors(setting)
    ]
    return references + cells


def _refuse_too_many(suite: Suite) -> None:
    """Raise `ValueError` for a suite with more than `MOST_CELLS` cells."""
    cells = 0
    for setting in suite.settings:
        seeds = suite.seeds(setting)
        runs = seeds.stop - seeds.start  # len() fails beyond 2⁶³
        cells += runs * len(setting.task.names()) * len(suite.competitors(setting))
    if cells > MOST_CELLS:
        raise ValueError(
            f"a suite may have at most {MOST_CELLS:,} cells: {suite.name} has {cells:,} "
            "(settings × policies × estimators × runs; lower runs, or split it into several suites)"
        )


def grouped(jobs: Sequence[Job], most: int) -> Iterator[tuple[Job, ...]]:
    """Neighbours with the same data, policy and γ, which one process computes together, at most so many at a time."""
    for _, neighbours in groupby(jobs, key=_question):
        own = tuple(neighbours)
        for start in range(0, len(own), most):
            yield own[start : start + most]


def _question(job: Job) -> tuple[Any, ...]:
    """The key of a job's data, policy and γ, by which jobs are grouped; each reference is a group of its own."""
    return id(job.setting), job.policy, job.seed, job.key if job.entry is None else None


def _job(setting: Setting, policy: str, identity: dict[str, Any], entry: Entry | None, run: int, seed: int) -> Job:
    what = {
        "task": identity,
        "policy": policy,
        "gamma": setting.gamma,
        "estimator": None if entry is None else [entry.name, entry.settings],
        "seed": seed,
        "code": code_version(None if entry is None else entry.name),
    }
    return Job(hashed(what), setting, policy, entry, run, seed)


_SORTED = json.JSONEncoder(sort_keys=True)


def hashed(what: dict[str, Any]) -> str:
    """A key for what JSON can hold."""
    return hash_of(_SORTED.encode(what).encode())
