"""Estimated policy values, how they print, and what they remember of the question for further ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.doubts import Doubts, Level
from ope_vpm.ope.inference.uncertainty import Interval
from ope_vpm.ope.inference.values import Reported
from ope_vpm.ope.problem import Question
from ope_vpm.outside import printable

if TYPE_CHECKING:
    from ope_vpm.ope.questions.distribution import Distribution
    from ope_vpm.ope.questions.sensitivity import Sensitivity

NOT_TOLD = "{} does not tell the return of an episode at gamma = 1: use gamma < 1, or another estimator, such as vpm"


@dataclass(frozen=True)
class EpisodeReturn:
    """The undiscounted return of an episode that the target runs, of a task that ends."""

    value: float
    standard_error: float | None
    """None where one episode says nothing about the next."""
    interval: Interval | None
    """Meant to hold the truth in 95 of 100 datasets."""
    verdict: Level
    """Whether the return can be trusted, by the same rules as the value per step."""
    reasons: tuple[str, ...]
    """Why it is not "reliable", worst first."""

    def __str__(self) -> str:
        return f"return {self.value:.6g}  {_between(self.interval)}  per episode  {self.verdict}"


@dataclass(frozen=True, eq=False)
class PolicyValue(Reported):
    """The value of a policy, on the scale of one reward.

    At gamma = 1 the long-run average reward per step; below, (1 - gamma) · E[Σ gamma^t r_t].
    """

    estimator: str
    value: float
    gamma: float
    standard_error: float | None
    """None where one episode says nothing about the next."""
    interval: tuple[float, float] | None
    """Meant to hold the truth in 95 of 100 datasets: value ± t·S, S² = se² + Σ bias², inside of `possible`."""
    effective_sample_size: float | None
    """How many rows of equal weight the weighted log is worth; None where rows are not weighted."""
    verdict: Level
    """"reliable", "caution" or "unreliable"."""
    reasons: tuple[str, ...]
    """Why it is not "reliable", worst first."""
    diagnostics: dict[str, Any] = field(default_factory=dict, repr=False)
    """Plain numbers and words; their meaning stands in note 001."""
    weights: Floats | None = field(default=None, repr=False)
    """How much each logged row counts under the target: not negative, mean 1; 0 for rows not used."""
    advice: tuple[str, ...] = ()
    """What would make it more reliable, most needed first."""
    question: Question | None = field(default=None, repr=False)
    """What was asked: the policy, the data and what an end means, in words."""
    episode_return: EpisodeReturn | None = None
    """At gamma = 1 on tasks that end: the return of an episode. None where it is not known, or gamma < 1."""
    no_return: str = ""
    """At gamma = 1, why there is no return."""
    possible: Interval | None = None
    """The least and the largest value that the logged rewards allow, and an end after which nothing is paid."""
    doubts: Doubts = field(default=(), repr=False)
    """What was tested, harmless numbers included."""
    asked: Asked | None = field(default=None, repr=False)
    """The data, weakly, and the policy: for `distribution` and `sensitivity`; not pickled."""

    def as_return(self) -> float:
        """The return of an episode.

        At gamma < 1 the expected discounted sum of rewards, value / (1 - gamma). At gamma = 1, on tasks that end, the
        expected undiscounted sum, Σ τ r / Σ τ·1[the task ends here]: ends are the terminated rows, and with
        `time_limit="restart"` also those at the time limit, so that it is the return of an episode of at most that
        length.

        Raises:
            ValueError: at gamma = 1, where nothing ends, the target reaches no end, or the estimator cannot tell.
        """
        if self.gamma < 1:
            return self.value / (1 - self.gamma)
        if self.episode_return is None:
            raise ValueError(self.no_return or NOT_TOLD.format(self.estimator))
        return self.episode_return.value

    def distribution(self, data: Any = None, policy: Any = None) -> Distribution:
        """The distribution of the return of an episode at gamma = 1, of the discounted return below.

        Its mean is `as_return()`. On finite states returns are simulated in the counted model, elsewhere logged
        episodes are weighted; it says which.

        Args:
            data: the log, where it has not been kept since `ov.evaluate` saw it.
            policy: the target, likewise.

        Raises:
            ValueError: where nothing ends at gamma = 1, or too few logged episodes are like those of the target.
        """
        from ope_vpm.ope.questions import problem_of
        from ope_vpm.ope.questions.returns import distribution

        return distribution(problem_of(self, data, policy, "distribution"), self)

    def sensitivity(self, grid: Sequence[float] | None = None, data: Any = None, policy: Any = None) -> Sensitivity:
        """Bounds of the headline number if the log's policy acted by causes that were not logged.

        Args:
            grid: by how much these may multiply or divide the odds of an action: numbers Λ of at least 1; by default
                1 to 5. At 1 both bounds are the value.
            data: the log, where it has not been kept since `ov.evaluate` saw it.
            policy: the target, likewise.

        Raises:
            ValueError: on logs that are read in parts, or where Λ is below 1.
        """
        from ope_vpm.ope.questions import problem_of
        from ope_vpm.ope.questions.sensitivity import GRID, check_grid, sensitivity

        odds = check_grid(GRID if grid is None else grid)
        return sensitivity(problem_of(self, data, policy, "sensitivity"), self, odds)

    @property
    def return_interval(self) -> Interval | None:
        """The interval of `as_return()`; None where there is none."""
        if self.gamma == 1:
            return None if self.episode_return is None else self.episode_return.interval
        if self.interval is None:
            return None
        low, high = self.interval
        return low / (1 - self.gamma), high / (1 - self.gamma)

    @property
    def return_verdict(self) -> Level | None:
        """Whether `as_return()` can be trusted; None where there is no return."""
        if self.gamma < 1:
            return self.verdict
        return None if self.episode_return is None else self.episode_return.verdict

    @property
    def lead(self) -> PolicyValue | EpisodeReturn:
        """The headline: the return of an episode at gamma = 1 where episodes end, otherwise the value per step."""
        return self if self.episode_return is None or self.gamma < 1 else self.episode_return

    @property
    def per(self) -> str:
        """Whether what leads is "per" episode or step."""
        return "step" if self.lead is self else "episode"

    @property
    def same_pay(self) -> bool:
        """Whether only the return of an episode tells policies apart, because every step pays the same."""
        return self.episode_return is not None and self.interval is not None and self.interval[0] == self.interval[1]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; without the weights."""
        lead = self.lead
        known = self.gamma < 1 or self.episode_return is not None
        of_return = self.return_interval
        return {
            "estimator": self.estimator,
            "policy": None if self.question is None else self.question.policy,
            "headline": {
                "value": _plain(lead.value),
                "interval": None if lead.interval is None else _plain(lead.interval),
                "per": self.per,
                "verdict": lead.verdict,
                "reasons": list(lead.reasons),
            },
            "value": self.value,
            "per": "step",
            "gamma": self.gamma,
            "standard_error": self.standard_error,
            "interval": None if self.interval is None else list(self.interval),
            "possible": None if self.possible is None else list(self.possible),
            "effective_sample_size": self.effective_sample_size,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "advice": list(self.advice),
            "return": _plain(self.as_return()) if known else None,
            "return_interval": None if of_return is None else _plain(of_return),
            "return_verdict": self.return_verdict,
            "return_reasons": [] if self.episode_return is None else list(self.episode_return.reasons),
            "no_return": self.no_return,
            "diagnostics": {name: _plain(value) for name, value in self.diagnostics.items()},
        }

    def _repr_html_(self) -> str:
        """For notebooks."""
        from ope_vpm.ope.reporting import card

        return card(self)

    def __str__(self) -> str:
        """The headline first; the other number below it, unless it says nothing."""
        lead = self.lead
        step = f"{self.value:.6g}  {_between(self.interval)}  per step"
        if isinstance(lead, EpisodeReturn):
            below = [] if self.same_pay else [f"  {step}  {self.verdict}"]
            reasons = [] if self.same_pay else [each for each in self.reasons if each not in lead.reasons]
            found = f"return {lead.value:.6g}  {_between(lead.interval)}  per episode at γ = 1  {lead.verdict}"
            lines = [f"{self.estimator}: {found}", *lead.reasons, *below, *reasons]
        else:
            lines = [f"{self.estimator}: {step} at γ = {self.gamma:.12g}  {self.verdict}", *self.reasons]
        lines = [line if n == 0 or line.startswith("  ") else f"  - {line}" for n, line in enumerate(lines)]
        if self.gamma < 1 and np.isfinite(self.value):
            lines.append(f"  return {self.as_return():.6g}  {_between(self.return_interval)}  discounted")
        return "\n".join(map(printable, lines))


@dataclass(frozen=True, eq=False)
class Asked:
    """The data, as long as somebody else holds them, and the policy; neither is pickled or copied."""

    source: Any = None
    """A weak reference to data in memory; a path, or whatever else was given, itself."""
    policy: Any = None
    ignore: tuple[str, ...] = ()
    """Codes of the doctor's findings that were passed over."""

    @classmethod
    def about(cls, data: Any, policy: Any, ignore: Collection[str]) -> Asked:
        """Data and policy as they were given to `evaluate`."""
        return cls(ref(data) if isinstance(data, LoggedDataset) else data, policy, tuple(ignore))

    def __reduce__(self) -> tuple[type[Asked], tuple[()]]:
        return Asked, ()

    def again(self, data: Any, policy: Any, method: str) -> tuple[Any, Any]:
        """The log and the target, from what is given now or was given before; `method` asks, for the error."""
        data = (self.source() if isinstance(self.source, ref) else self.source) if data is None else data
        policy = self.policy if policy is None else policy
        if data is None or policy is None:
            gone = "data are" if data is None else "policy is"
            again = f"value.{method}(data=data, policy=policy)"
            raise ValueError(f"{method} looks at the log and the policy again, and the {gone} gone: {again}")
        return data, policy


def _between(interval: Interval | None) -> str:
    return "no interval" if interval is None else "[{:.6g}, {:.6g}]".format(*interval)


def _plain(value: Any) -> Any:
    """A value as JSON can hold it, which has no NaN and no arrays."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
