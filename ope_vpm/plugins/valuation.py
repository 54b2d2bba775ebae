"""One log and one estimator, asked about policy after policy: what depends on the log alone is made once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.doctor import check_ignored
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.ope.adapter.choices import check_seed
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit, check_choices
from ope_vpm.ope.estimator import Estimator, make
from ope_vpm.ope.evaluate import answer
from ope_vpm.ope.inference.doubts import LEVELS
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

NAN = float("nan")


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How policies are evaluated: everything that `ov.evaluate` takes, except for the data and the policy."""

    estimator: str | Estimator = "auto"
    gamma: float = 1.0
    seed: int = 0
    on_end: OnEnd | None = None
    time_limit: TimeLimit = "continue"
    ignore: Collection[str] = ()
    options: dict[str, Any] = field(default_factory=dict)
    """The estimator's own settings, where it is given by name."""

    def make_estimator(self) -> Estimator:
        """The estimator; a misspelt name or setting is answered with the nearest."""
        if isinstance(self.estimator, str):
            return make(self.estimator, self.options)
        if self.options:
            raise TypeError(f"options ({', '.join(self.options)}) go with an estimator's name, not with an instance")
        return self.estimator

    def check(self, gamma: float | None) -> None:
        """Refuse what no data can mend, before training begins or a large file is read.

        Args:
            gamma: the discount; None where the algorithm in training will tell it.
        """
        self.make_estimator()
        # Whatever is allowed at γ = 1 is allowed below it: asking with another discount refuses nothing too early.
        check_choices(0.5 if gamma is None else gamma, self.on_end, self.time_limit)
        check_seed(self.seed)
        check_ignored(self.ignore)


@dataclass(frozen=True)
class Valuation:
    """A checked log and an estimator. Build it by `Valuation.of`, then ask about as many policies as you like."""

    log: Log
    choices: Choices
    estimator: Estimator

    @classmethod
    def of(cls, data: LoggedDataset | StreamedDataset, choices: Choices) -> Valuation:
        """Check the data once for all policies."""
        return cls(Log.check(data, choices.ignore), choices, choices.make_estimator())

    def problem(self, policy: TargetPolicy) -> Problem:
        """The question about one policy; it shares with all others what depends on the log alone."""
        choices = self.choices
        return Problem.on(
            self.log,
            policy,
            gamma=choices.gamma,
            seed=choices.seed,
            on_end=choices.on_end,
            time_limit=choices.time_limit,
        )

    def value(self, policy: TargetPolicy) -> PolicyValue:
        """The answer of `ov.evaluate`, at the cost of what depends on the policy."""
        return answer(self.estimator, self.problem(policy), ignore=self.choices.ignore)


def as_numbers(value: PolicyValue) -> dict[str, float]:
    """The value, both ends of its interval and its verdict as numbers, for loggers that take nothing else.

    An end is NaN where there is no interval; the verdict is 0 for reliable, 1 for caution and 2 for unreliable.
    """
    low, high = value.interval or (NAN, NAN)
    return {
        "value": value.value,
        "lower": low,
        "upper": high,
        "verdict": float(LEVELS.index(value.verdict)),
    }
