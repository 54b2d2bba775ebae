"""One log and one estimator, asked about policy after policy: what depends on the log alone is made once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.doctor import check_ignored
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit, check_choices
from ope_vpm.ope.adapter.given import Behaviour, QuestionChoices, check_seed
from ope_vpm.ope.estimator import Estimator, made_of
from ope_vpm.ope.inference.doubts import LEVELS
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.questions.compare import compared
from ope_vpm.ope.questions.gate import Gate, check_gain
from ope_vpm.ope.questions.paired import LOGGED, Evaluated, evaluated, of_log
from ope_vpm.policy import TargetPolicy
from ope_vpm.threads import at_once, cached_property

NAN = float("nan")


class CallbackChoices(QuestionChoices, total=False):
    """What callbacks in training take beside their own arguments; see `Choices`."""

    baseline: Any
    min_gain: float


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How policies are evaluated: everything that `ov.evaluate` takes, except for the data and the policy."""

    estimator: str | Estimator = "auto"
    gamma: float = 1.0
    seed: int = 0
    on_end: OnEnd | None = None
    time_limit: TimeLimit = "continue"
    ignore: Collection[str] = ()
    behaviour: Behaviour = "cloned"
    baseline: Any = None
    """What policies have to beat, "logged" or a policy; None where they need not."""
    min_gain: float = 0.0
    """By how much they have to be better."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The estimator's own settings, where it is given by name."""

    @classmethod
    def of(cls, estimator: str | Estimator, gamma: float | None, asked: Mapping[str, Any]) -> Self:
        """The choices of a callback, checked before training begins; words that none of them is are for the estimator.

        Args:
            estimator: a name, or an instance.
            gamma: the discount; None where the algorithm in training will tell it.
            asked: everything else, by the names of the fields or of the estimator's settings.
        """
        own = {field.name for field in fields(cls)}
        options = {name: value for name, value in asked.items() if name not in own}
        made = cls(estimator=estimator, options=options, **{name: asked[name] for name in asked if name in own})
        made.check(gamma)
        return made

    def make_estimator(self) -> Estimator:
        """The estimator; a misspelt name or setting is answered with the nearest."""
        return made_of(self.estimator, self.options)

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
        check_gain(self.min_gain)
        if isinstance(self.baseline, str) and self.baseline != LOGGED:
            raise ValueError(f"baseline must be 'logged' or a policy: got {self.baseline!r} (files: ov.load_policy)")


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
            behaviour=choices.behaviour,
        )

    def each(
        self, policies: Sequence[TargetPolicy], jobs: int | None = None, estimator: Estimator | None = None
    ) -> Iterator[Evaluated]:
        """What `evaluated` says of each policy, in their order, several at once; what was computed is forgotten.

        Args:
            policies: the targets.
            jobs: how many at once, see `ope_vpm.ope.evaluate`.
            estimator: in the place of the valuation's own.
        """

        def one(policy: TargetPolicy) -> Evaluated:
            problem = self.problem(policy)
            found = evaluated(estimator or self.estimator, problem, self.choices.ignore)
            problem.forget()
            return found

        return at_once(one, policies, len(self.log.data), jobs, self.log.streamed)

    def answered(self, policy: TargetPolicy) -> tuple[PolicyValue, Gate | None]:
        """The answer of `ov.evaluate`, at the cost of what depends on the policy, and whether it beats the baseline.

        Policies in training are looked at again and again, so the gate is `Comparison.gate(anytime=True)`: its interval
        is as wide as one with Bonferroni's correction for some 25 looks.
        """
        choices, problem = self.choices, self.problem(policy)
        mine = evaluated(self.estimator, problem, choices.ignore)
        if choices.baseline is None:
            return mine.value, None
        against_log = isinstance(choices.baseline, str) and choices.baseline == LOGGED
        its = of_log(problem) if against_log else self._baseline
        return mine.value, compared(problem, mine, its).gate(choices.min_gain, anytime=True)

    @cached_property
    def _baseline(self) -> Evaluated:
        return evaluated(self.estimator, self.problem(self.choices.baseline), self.choices.ignore)


def as_numbers(value: PolicyValue, gate: Gate | None = None) -> dict[str, float]:
    """The value, both ends of its interval and its verdict as numbers, for loggers that take nothing else.

    An end is NaN where there is no interval; the verdict is 0 for reliable, 1 for caution and 2 for unreliable. With a
    baseline also the gain over it and the exit code of the gate: 0 better, 3 worse, 4 not decided.
    """
    low, high = value.interval or (NAN, NAN)
    judged = {} if gate is None else {"gain": gate.comparison.value, "gate": float(gate.exit_code)}
    return judged | {"value": value.value, "lower": low, "upper": high, "verdict": float(LEVELS.index(value.verdict))}
