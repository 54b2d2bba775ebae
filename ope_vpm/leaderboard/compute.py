"""Computes cells: pure functions of their settings, run anywhere, answered even when they fail."""

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.chain import StationaryWarning
from ope_vpm.leaderboard.jobs import Job, Result, code_version, hashed
from ope_vpm.leaderboard.tasks import Task
from ope_vpm.logged import LoggedDataset, load_dataset
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.outside import write_whole
from ope_vpm.policy import TargetPolicy

PATIENCE = 20.0
"""Seconds after which a group of cells hands in what it has finished: as much may be lost if the machine goes down."""
LONGEST = 2000
"""Characters that are kept of an error or a warning: some libraries put whole arrays into theirs."""
VERDICTS = ("reliable", "caution", "unreliable")


@dataclass(frozen=True)
class Shared:
    """Data, policy and checked log of a group of jobs, made when first needed; if that fails, each job fails."""

    first: Job
    folder: str | None = None
    """Where logs that are slow to make are kept for other jobs on this machine."""

    @cached_property
    def data(self) -> LoggedDataset:
        """The log of the run."""
        return dataset(self.first.setting.task, self.first.seed, self.folder)

    @cached_property
    def policy(self) -> TargetPolicy:
        """The target."""
        return self.first.setting.task.targets()[self.first.policy]

    @cached_property
    def log(self) -> Log:
        """The data, examined and put in order once for all estimators."""
        return Log.check(self.data)


def compute_group(jobs: Sequence[Job], folder: str | None = None) -> list[Result]:
    """Compute jobs with the same data, policy and γ in a worker process.

    Returns the results of the first jobs, at least one: after `PATIENCE` seconds the others are left to a later call.
    """
    shared, start = Shared(jobs[0], folder), time.monotonic()
    results: list[Result] = []
    for job in jobs:
        try:
            results.append(compute(job, shared))
        except KeyboardInterrupt as error:  # workers do not hear Ctrl-C: it is the estimator that raised it
            results.append(Result(job.key, error=_described(error)))
        if time.monotonic() - start > PATIENCE:
            break
    return results


def compute(job: Job, shared: Shared | None = None) -> Result:
    """Compute a job; a failure is a result too.

    Estimators come from anywhere: one that fails, or calls `sys.exit`, must not end the others.
    """
    start = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", StationaryWarning)  # small logs are often reducible; the verdict says so
            outcome, seconds = _reference(job) if job.entry is None else _estimate(job, shared or Shared(job))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Result(job.key, error=_described(error), seconds=time.process_time() - start)
    told = sorted({_text(warning.message) for warning in caught})
    return Result(job.key, {**outcome, "warnings": told} if told else outcome, None, seconds)


def _reference(job: Job) -> tuple[dict[str, Any], float]:
    start = time.process_time()
    found = job.setting.task.reference(job.policy, job.setting.gamma)
    outcome = {} if found is None else asdict(found)
    return outcome, time.process_time() - start


def _estimate(job: Job, shared: Shared) -> tuple[dict[str, Any], float]:
    """The seconds are the estimator's own, without making the data, and a core's, whatever else the machine does."""
    if job.entry is None:
        raise ValueError("a job without an estimator asks for the truth")
    gamma, data, policy = job.setting.gamma, shared.data, shared.policy
    estimator, choices = job.entry.make(), job.setting.task.choices(gamma)
    start = time.process_time()
    if isinstance(estimator, ProblemEstimator) and "ignore" not in choices:
        log = shared.log.forgetful()  # every estimator pays for what it computes, whichever came before
        start = time.process_time()
        value = estimator.answer(Problem.on(log, policy, gamma=gamma, seed=job.seed, **choices))
    else:
        value = estimator.estimate(data, policy, gamma=gamma, seed=job.seed, **choices)
    seconds = time.process_time() - start
    return _outcome(_about_episodes(value) if job.setting.task.per == "episode" else value.as_dict()), seconds


def _about_episodes(value: PolicyValue) -> dict[str, Any]:
    """The answer with the return of an episode in the place of the value per step; raises where there is none."""
    value.as_return()  # says why there is none
    found, own = value.as_dict(), value.episode_return
    if own is None:
        raise ValueError(
            f"{value.estimator} has no return at gamma = {value.gamma:g}: an episode's is that at gamma = 1"
        )
    interval = own.interval if own.interval is not None and np.isfinite(own.interval).all() else None
    numbers = {"value": own.value, "standard_error": own.standard_error, "interval": interval}
    return found | numbers | {"per": "episode", "verdict": own.verdict, "reasons": own.reasons}


def _outcome(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer as JSON holds it, in valid Unicode; raises `TypeError` for what is no answer."""
    text = json.dumps(answer, default=_text, ensure_ascii=False)
    found: dict[str, Any] = json.loads(_valid(text), parse_constant=lambda _: None)
    interval = found.get("interval")
    if not (interval is None or (isinstance(interval, list) and len(interval) == 2)):
        raise TypeError(f"an estimator's interval must be a pair of numbers or None: got {interval!r}")
    for name, number in [
        *((name, found.get(name)) for name in ("value", "standard_error", "effective_sample_size")),
        *(("interval", end) for end in interval or ()),
    ]:
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise TypeError(f"an estimator's {name} must be a number or None: got {number!r}")
        if isinstance(number, int):
            float(number)  # raises where it is too large for one
    if found.get("verdict") not in VERDICTS:
        raise TypeError(f"an estimator's verdict must be one of {', '.join(VERDICTS)}: got {found.get('verdict')!r}")
    return found


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {_text(error)}"


def _text(thing: object) -> str:
    """The text of anything that an estimator raised, warned of or returned."""
    try:
        return _valid(str(thing))[:LONGEST]
    except Exception:
        return "(it has no text)"


def _valid(text: str) -> str:
    """The text with a question mark in place of every character that is not valid Unicode (a lone surrogate)."""
    return text.encode("utf-8", "replace").decode("utf-8")


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
