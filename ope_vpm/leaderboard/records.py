"""Finished cells beside their truths: what tables, pictures and pages are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.leaderboard.jobs import Job, Result
from ope_vpm.leaderboard.suites import Entry, Setting, Suite
from ope_vpm.leaderboard.tasks import Reference

VERDICTS = {"reliable": 1.0, "caution": 0.0, "unreliable": -1.0}


@dataclass(frozen=True)
class Block:
    """One estimator on one setting: arrays (runs, policies), NaN where there is no value."""

    entry: Entry
    value: Floats
    low: Floats
    high: Floats
    verdict: Floats
    seconds: Floats
    failed: int
    """Cells with an error, or without a finite value."""
    missing: int
    """Cells that were not run."""

    @cached_property
    def whole(self) -> Any:
        """(runs,): the runs in which every policy has a value."""
        return np.isfinite(self.value).all(axis=1)


@dataclass(frozen=True)
class Board:
    """A suite with what is finished of it."""

    suite: Suite
    jobs: Sequence[Job]
    results: dict[str, Result]

    @cached_property
    def cells(self) -> dict[tuple[int, str, str], list[Job]]:
        """The jobs by number of setting, estimator's label and policy, in the order of runs."""
        number = {id(setting): place for place, setting in enumerate(self.suite.settings)}
        grouped: dict[tuple[int, str, str], list[Job]] = {}
        for job in self.jobs:
            if job.entry is not None:
                grouped.setdefault((number[id(job.setting)], job.entry.label, job.policy), []).append(job)
        return grouped

    @cached_property
    def references(self) -> dict[tuple[str, float, str], Reference | None]:
        """By setting's label, γ and policy."""
        found: dict[tuple[str, float, str], Reference | None] = {}
        for job in self.jobs:
            if job.entry is None:
                result = self.results.get(job.key)
                known = result is not None and result.error is None and bool(result.outcome)
                reference = Reference(**_fields(result.outcome)) if known and result is not None else None
                found[job.setting.label, job.setting.gamma, job.policy] = reference
        return found

    def reference(self, setting: Setting, policy: str) -> Reference | None:
        """What a policy is worth, where that is known."""
        return self.references.get((setting.label, setting.gamma, policy))

    def truth(self, setting: Setting) -> Floats:
        """(policies,): NaN where it is not known."""
        found = [self.reference(setting, policy) for policy in setting.task.names()]
        return np.array([np.nan if known is None else known.truth for known in found])

    def floor(self, setting: Setting) -> Floats:
        """(policies,): the on-policy mean's error."""
        found = [self.reference(setting, policy) for policy in setting.task.names()]
        return np.array([np.nan if known is None or known.floor is None else known.floor for known in found])

    def block(self, number: int, entry: Entry) -> Block:
        """One estimator on one setting."""
        setting = self.suite.settings[number]
        shape = (len(self.suite.seeds(setting)), len(setting.task.names()))
        value, low, high, seconds = (np.full(shape, np.nan) for _ in range(4))
        verdict = np.zeros(shape)
        failed = missing = 0
        for column, policy in enumerate(setting.task.names()):
            for job in self.cells.get((number, entry.label, policy), []):
                result = self.results.get(job.key)
                if result is None:
                    missing += 1
                    continue
                place = (job.run, column)
                if result.error is not None or result.outcome.get("value") is None:
                    failed += 1
                    continue
                value[place], seconds[place] = result.outcome["value"], result.seconds
                verdict[place] = VERDICTS.get(result.outcome.get("verdict", ""), 0.0)
                if result.outcome.get("interval"):
                    low[place], high[place] = result.outcome["interval"]
        return Block(entry, value, low, high, verdict, seconds, failed, missing)


def _fields(outcome: dict[str, Any]) -> dict[str, Any]:
    return {name: outcome[name] for name in Reference.__dataclass_fields__ if name in outcome}
