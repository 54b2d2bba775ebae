"""Finished cells beside their truths, as arrays: what tables, pictures and pages are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ope_vpm.arrays import Bools, Floats
from ope_vpm.leaderboard import scores
from ope_vpm.leaderboard.jobs import Job, Result
from ope_vpm.leaderboard.suites import Entry, Setting, Suite
from ope_vpm.leaderboard.tasks import Reference

VERDICTS = {"reliable": scores.RELIABLE, "caution": 0.0, "unreliable": -1.0}


@dataclass(frozen=True)
class Known:
    """True values of the policies of a setting: arrays (policies,)."""

    truth: Floats
    """NaN where it is not known."""
    truth_error: Floats
    """The truth's own standard error; 0 where it is exact."""
    floor: Floats
    """The error of an on-policy mean of as many episodes; NaN where it is not known."""

    @property
    def told(self) -> Bools:
        """(policies,): whether the truth is known."""
        return np.isfinite(self.truth)

    @property
    def floored(self) -> Bools:
        """(policies,): whether the truth and a floor are known."""
        return self.told & (self.floor > 0)  # a floor that is not known is NaN


@dataclass(frozen=True)
class Answers:
    """The answers of one estimator about the policies of a setting: arrays (runs, policies), NaN without a value."""

    value: Floats
    low: Floats
    high: Floats
    verdict: Floats
    seconds: Floats
    known: Known

    @cached_property
    def whole(self) -> Bools:
        """(runs,): the runs in which every policy has a value."""
        return np.asarray(np.isfinite(self.value).all(axis=1))

    @property
    def error(self) -> Floats:
        """The value minus the truth."""
        return self.value - self.known.truth

    @property
    def scaled(self) -> Floats:
        """The error as a multiple of the on-policy mean's."""
        return self.error / self.known.floor

    @property
    def wide(self) -> tuple[Floats, Floats]:
        """The ends of the intervals, moved out to allow for the error of the truth."""
        return scores.allowing(self.low, self.high, self.value, self.known.truth_error)

    def within(self, runs: Bools | None = None, policies: Bools | None = None) -> Answers:
        """The answers in some runs about some policies; None: all of them."""
        rows, columns = (slice(None) if part is None or part.all() else part for part in (runs, policies))
        known = Known(*(part[columns] for part in (self.known.truth, self.known.truth_error, self.known.floor)))
        arrays = self.value, self.low, self.high, self.verdict, self.seconds
        value, low, high, verdict, seconds = (part[rows][:, columns] for part in arrays)
        return Answers(value, low, high, verdict, seconds, known)


@dataclass(frozen=True)
class Block:
    """The answers of one estimator on one setting, and how many cells failed or are missing."""

    entry: Entry
    answers: Answers
    failed: int
    """Cells with an error, or without a finite value."""
    missing: int
    """Cells that were not run."""


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
        """True values by setting's label, γ and policy; None where the truth is not known."""
        asked = {(job.setting.label, job.setting.gamma, job.policy): job.key for job in self.jobs if job.entry is None}
        return {place: _reference(self.results.get(key)) for place, key in asked.items()}

    @cached_property
    def policies(self) -> dict[tuple[str, float], list[str]]:
        """The names of the policies of each setting, by its label and γ; a task may have to make them to name them."""
        return {(setting.label, setting.gamma): setting.task.names() for setting in self.suite.settings}

    def reference(self, setting: Setting, policy: str) -> Reference | None:
        """The true value of a policy; None where it is not known."""
        return self.references.get((setting.label, setting.gamma, policy))

    def known(self, setting: Setting) -> Known:
        """The true values of all policies of a setting."""
        found = [self.reference(setting, policy) for policy in self.policies[setting.label, setting.gamma]]
        truth = [np.nan if one is None else one.truth for one in found]
        truth_error = [0.0 if one is None else one.truth_error for one in found]
        floor = [np.nan if one is None or one.floor is None else one.floor for one in found]
        return Known(np.array(truth), np.array(truth_error), np.array(floor))

    @cached_property
    def blocks(self) -> list[dict[str, Block]]:
        """For each setting every estimator by label, filled once: tables and agreement read the same ones."""
        found = []
        for number, setting in enumerate(self.suite.settings):
            names, known = self.policies[setting.label, setting.gamma], self.known(setting)
            empty = np.full((len(self.suite.seeds(setting)), len(names)), np.nan)
            blank = Answers(empty, empty, empty, np.zeros(empty.shape), empty, known)
            entries = self.suite.competitors(setting)
            found.append({entry.label: self._filled(number, entry, names, blank) for entry in entries})
        return found

    def _filled(self, number: int, entry: Entry, names: list[str], blank: Answers) -> Block:
        arrays = blank.value, blank.low, blank.high, blank.verdict, blank.seconds
        value, low, high, verdict, seconds = (part.copy() for part in arrays)
        failed = missing = 0
        for column, policy in enumerate(names):
            for job in self.cells.get((number, entry.label, policy), []):
                result, place = self.results.get(job.key), (job.run, column)
                if result is None:
                    missing += 1
                elif result.error is not None or result.outcome.get("value") is None:
                    failed += 1
                else:
                    value[place], seconds[place] = result.outcome["value"], result.seconds
                    verdict[place] = VERDICTS.get(result.outcome.get("verdict", ""), 0.0)
                    low[place], high[place] = result.outcome.get("interval") or (np.nan, np.nan)
        return Block(entry, Answers(value, low, high, verdict, seconds, blank.known), failed, missing)


def _reference(result: Result | None) -> Reference | None:
    if result is None or result.error is not None or not result.outcome:
        return None
    names = Reference.__dataclass_fields__
    return Reference(**{name: value for name, value in result.outcome.items() if name in names})
