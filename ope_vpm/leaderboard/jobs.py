"""One cell of the leaderboard: a pure function of its settings, run anywhere, answered even when it fails."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ope_vpm.chain import StationaryWarning
from ope_vpm.leaderboard.code_version import code_version
from ope_vpm.leaderboard.suites import Entry, Setting, Suite
from ope_vpm.leaderboard.tasks import Task
from ope_vpm.logged import LoggedDataset, load_dataset
from ope_vpm.outside import write_whole


@dataclass(frozen=True)
class Job:
    """What to compute, with the hash under which it is remembered."""

    key: str
    setting: Setting
    policy: str
    entry: Entry | None
    """None: the truth and the on-policy floor instead of an estimate."""
    run: int
    seed: int

    def describe(self) -> dict[str, Any]:
        """Who it is, in words, for whoever opens the store."""
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
    """What came of a job."""

    key: str
    outcome: dict[str, Any] = field(default_factory=dict)
    """As JSON holds it; empty after a failure."""
    error: str | None = None
    seconds: float = 0.0


def plan(suite: Suite) -> list[Job]:
    """Every cell of a suite: the references first, then run by run, so that a broken-off suite is a smaller one."""
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


def hashed(what: dict[str, Any]) -> str:
    """A key for what JSON can hold."""
    return hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=16).hexdigest()


def compute(job: Job, folder: str | None = None) -> Result:
    """Run a job; a failure is a result too.

    Args:
        job: what to compute.
        folder: where logs that are slow to make are kept for the other jobs on this machine.
    """
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", StationaryWarning)  # small logs are often reducible; the verdict says so
        try:
            outcome, seconds = _reference(job) if job.entry is None else _estimate(job, folder)
        except Exception as error:  # estimators come from anywhere, and one that fails must not end the others
            return Result(job.key, error=f"{type(error).__name__}: {error}", seconds=time.process_time() - start)
    told = sorted({str(warning.message) for warning in caught})
    return Result(job.key, {**outcome, "warnings": told} if told else outcome, None, seconds)


def _reference(job: Job) -> tuple[dict[str, Any], float]:
    start = time.process_time()
    found = job.setting.task.reference(job.policy, job.setting.gamma)
    outcome = {} if found is None else asdict(found)
    return outcome, time.process_time() - start


def _estimate(job: Job, folder: str | None) -> tuple[dict[str, Any], float]:
    """The seconds are the estimator's own, without making the data, and a core's, whatever else the machine does."""
    assert job.entry is not None
    task, estimator = job.setting.task, job.entry.make()
    data, target = dataset(task, job.seed, folder), task.targets()[job.policy]
    start = time.process_time()
    value = estimator.estimate(data, target, gamma=job.setting.gamma, seed=job.seed, **task.choices(job.setting.gamma))
    seconds = time.process_time() - start
    outcome = json.loads(json.dumps(value.as_dict(), default=str), parse_constant=lambda _: None)
    return outcome, seconds


def dataset(task: Task, seed: int, folder: str | None) -> LoggedDataset:
    """The log of a run; a slow one is read from `folder` if another job has left it there."""
    if not task.slow_data or folder is None:
        return task.dataset(seed)
    file = Path(folder) / f"{hashed({'task': task.identity(None), 'seed': seed, 'code': code_version()})}.npz"
    if not file.is_file():
        Path(folder).mkdir(parents=True, exist_ok=True)
        data = task.dataset(seed)
        write_whole(file, data.save)
    return load_dataset(file)
