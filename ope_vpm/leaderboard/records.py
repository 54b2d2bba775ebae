"""Finished cells beside their truths: what tables, pictures and pages are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.leaderboard.jobs import Job, Result
from ope_vpm.leaderboard.scores import RELIABLE
from ope_vpm.leaderboard.suites import Entry, Setting, Suite
from ope_vpm.leaderboard.tasks import Reference

VERDICTS = {"reliable": RELIABLE, "caution": 0.0, "unreliable": -1.0}


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
class Known:
    """What the policies of a setting are really worth: arrays (policies,)."""

    truth: Floats
    """NaN where it is not known."""
    truth_error: Floats
    """The truth's own standard error; 0 where it is exact."""
    floor: Floats
    """The error of an on-policy mean of as many episodes; NaN where it is not known."""

    @cached_property
    def told(self) -> Any:
        """(policies,): whether the truth is known."""
        return np.isfinite(self.truth)

    @cached_property
    def floored(self) -> Any:
        """(policies,): whether the truth and a floor are known."""
        return self.told & (self.floor > 0)  # a floor that is not known is NaN

    def of(self, policies: Any) -> Known:
        """What is known of some of the policies."""
        if policies.all():
            return self
        return Known(self.truth[policies], self.truth_error[policies], self.floor[policies])


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
    def finished(self) -> int:
        """How many cells have a result, failures included."""
        return sum(job.key in self.results for jobs in self.cells.values() for job in jobs)

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

    @cached_property
    def policies(self) -> dict[tuple[str, float], list[str]]:
        """The names of the policies of each setting, by its label and γ; a task may have to make them to name them."""
        return {(setting.label, setting.gamma): setting.task.names() for setting in self.suite.settings}

    def reference(self, setting: Setting, policy: str) -> Reference | None:
        """What a policy is worth, where that is known."""
        return self.references.get((setting.label, setting.gamma, policy))

    def known(self, setting: Setting) -> Known:
        """What is known of all policies of a setting."""
        found = [self.reference(setting, policy) for policy in self.policies[setting.label, setting.gamma]]
        truth = [np.nan if one is None else one.truth for one in found]
        truth_error = [0.0 if one is None else one.truth_error for one in found]
        floor = [np.nan if one is None or one.floor is None else one.floor for one in found]
        return Known(np.array(truth), np.array(truth_error), np.array(floor))

    def block(self, number: int, entry: Entry) -> Block:
        """One estimator on one setting."""
        return self._blocks[number, entry.label]

    @cached_property
    def _blocks(self) -> dict[tuple[int, str], Block]:
        """Every block, filled once: tables and agreement read the same ones."""
        return {
            (number, entry.label): self._filled(number, entry)
            for number, setting in enumerate(self.suite.settings)
            for entry in self.suite.competitors(setting)
        }

    def _filled(self, number: int, entry: Entry) -> Block:
        setting = self.suite.settings[number]
        names = self.policies[setting.label, setting.gamma]
        shape = (len(self.suite.seeds(setting)), len(names))
        value, low, high, seconds = (np.full(shape, np.nan) for _ in range(4))
        verdict = np.zeros(shape)
        failed = missing = 0
        for column, policy in enumerate(names):
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
