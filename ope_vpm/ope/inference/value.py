"""What an estimator found, and the policy value that is made of it: an interval, a verdict, weights of mean 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, effective_sample_size, group_sums, read_only
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.uncertainty import EpisodeSums, Interval, Uncertainty
from ope_vpm.ope.inference.verdict import Evidence, Level, advise, judge
from ope_vpm.ope.problem import Problem, Question


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """What a policy is worth, on the scale of one reward.

    At gamma = 1 the long-run average reward per step; below, (1 - gamma) · E[Σ gamma^t r_t].
    """

    estimator: str
    value: float
    gamma: float
    standard_error: float | None
    """None where one episode says nothing about the next."""
    interval: tuple[float, float] | None
    """Meant to hold the truth in 95 of 100 datasets; wider where bias is suspected."""
    effective_sample_size: float | None
    """How many rows of equal weight the weighted log is worth; None where rows are not weighted."""
    verdict: Level
    """"reliable", "caution" or "unreliable"."""
    reasons: tuple[str, ...]
    """Why it is not "reliable", worst first."""
    diagnostics: dict[str, Any] = field(default_factory=dict, repr=False)
    """Plain numbers and words; their meaning stands in docs/evaluation.md."""
    weights: Floats | None = field(default=None, repr=False)
    """How much each logged row counts under the target: not negative, mean 1; 0 for rows not used."""
    advice: tuple[str, ...] = ()
    """What would make it more reliable, most needed first."""
    question: Question | None = field(default=None, repr=False)
    """What was asked: the policy, the data and what an end means, in words."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", read_only(self.weights))

    def as_return(self) -> float:
        """The expected discounted sum of rewards, value / (1 - gamma)."""
        if self.gamma == 1:
            raise ValueError("at gamma = 1 the return is infinite: `value` is the average reward (use gamma < 1)")
        return self.value / (1 - self.gamma)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; without the weights."""
        return {
            "estimator": self.estimator,
            "value": self.value,
            "gamma": self.gamma,
            "return": None if self.gamma == 1 else self.as_return(),
            "standard_error": self.standard_error,
            "interval": None if self.interval is None else list(self.interval),
            "effective_sample_size": self.effective_sample_size,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "diagnostics": {name: _plain(value) for name, value in self.diagnostics.items()},
        }

    def report(self, path: str | Path, data: LoggedDataset | None = None, title: str | None = None) -> None:
        """Write a page about it, one HTML file; with the `data` it also shows where the weight sits.

        See `ope_vpm.report`, which puts several values side by side.
        """
        from ope_vpm.ope.reporting import report

        report(self, path, data, title)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from ope_vpm.ope.reporting import card

        return card(self)

    def __str__(self) -> str:
        between = "no interval" if self.interval is None else "[{:.6g}, {:.6g}]".format(*self.interval)
        lines = [f"{self.estimator}: {self.value:.6g}  {between}  {self.verdict}"]
        return "\n".join([*lines, *(f"  - {reason}" for reason in self.reasons)])


def _plain(value: Any) -> Any:
    """What JSON can hold: it has no NaN and no arrays."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


NEGLIGIBLE = 1e-3
"""Of the rewards' deviation: values that lie nearer together do not disagree, however small the standard error."""
ROUNDING = 1e-9
"""Of the largest reward: differences below it are rounding errors, which iterative solvers leave at about 1e-12."""
SAYS_NOTHING = "every logged step pays the same, so the log says nothing about the value per step"


@dataclass(frozen=True, kw_only=True)
class RawEstimate:
    """What an estimator found, before it has an interval and a verdict."""

    value: float
    """On the scale of one reward; NaN where no row has any weight."""
    uncertainty: Uncertainty | None = None
    """How far it may lie from the truth; None where nothing is known about that."""
    weights: Floats | None = None
    """(n,): the ratio τ at each logged row, on any scale; None where rows are not weighted."""
    evidence: Evidence = field(default_factory=Evidence)
    """What speaks for and against it."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """For people to read; nothing is computed from it."""

    @property
    def sums(self) -> EpisodeSums | None:
        """How each episode moves the value; None where that is not known."""
        return None if self.uncertainty is None else self.uncertainty.sums

    @property
    def suspected_bias(self) -> float:
        """How far the value may be off, as large as one standard error would be."""
        return 0.0 if self.uncertainty is None else self.uncertainty.suspected_bias


def policy_value(problem: Problem, estimator: str, raw: RawEstimate) -> PolicyValue:
    """Put an interval around what was found, and judge it."""
    episodes = problem.data.n_episodes
    error, interval = None, None
    if episodes > 1 and np.isfinite(raw.value) and raw.uncertainty is not None:
        error, interval = raw.uncertainty.interval(raw.value, problem.log, problem.seed)
    weights = None if raw.weights is None else _mean_one(raw.weights)
    level, reasons = judge(raw.evidence, episodes, problem.log.warnings)
    hull = rewards_hull(problem)
    objections = _objections(raw.value, hull)
    if objections:
        level, reasons = "unreliable", (*objections, *reasons)
    elif interval is None:
        reasons = ("one episode gives no interval: it cannot say how episodes differ", *reasons)
    return PolicyValue(
        estimator=estimator,
        value=hull.nearest(raw.value),
        gamma=problem.gamma,
        standard_error=error,
        interval=None if interval is None else hull.cut(interval),
        effective_sample_size=None if weights is None else effective_sample_size(weights),
        verdict=level,
        reasons=reasons,
        diagnostics={"episodes": episodes, "rows": len(problem.data), **_numbers(raw), **raw.diagnostics},
        weights=weights,
        advice=advise(raw.evidence, episodes, problem.log.warnings),
        question=problem.question,
    )


@dataclass(frozen=True)
class Hull:
    """The least and the largest value that the rewards allow."""

    low: float
    high: float

    @property
    def rounding(self) -> float:
        """How far beyond the ends a value may lie by rounding errors alone."""
        return ROUNDING * max(abs(self.low), abs(self.high))

    def nearest(self, value: float) -> float:
        """The possible value nearest to one; one that is not finite stays what it is."""
        return float(np.clip(value, self.low, self.high)) if np.isfinite(value) else value

    def cut(self, interval: Interval) -> Interval:
        """The part of an interval that is possible; everything possible, where the interval holds nothing of it."""
        low, high = interval
        if low > self.high + self.rounding or high < self.low - self.rounding:
            return self.low, self.high
        return float(np.clip(low, self.low, self.high)), float(np.clip(high, self.low, self.high))


def rewards_hull(problem: Problem) -> Hull:
    """The hull of the logged rewards, and of 0 where episodes end for good: a mean over time cannot leave it."""
    rewards = problem.data.rewards
    ends = [0.0] if problem.on_end == "absorb" and problem.ending.any() else []
    return Hull(min([float(rewards.min()), *ends]), max([float(rewards.max()), *ends]))


def _objections(value: float, hull: Hull) -> tuple[str, ...]:
    """Why a value means nothing, whatever speaks for it: it is none, it is impossible, or no other one is possible."""
    if not np.isfinite(value):
        return ("no value: every weight is zero, the log holds nothing the target does",)
    beyond = max(hull.low - value, value - hull.high)
    outside = (
        f"the estimate {value:.6g} lies outside of what the rewards allow, [{hull.low:.6g}, {hull.high:.6g}], "
        "and was moved to the nearest end"
    )
    found = (outside,) if beyond > hull.rounding else ()
    return (*found, SAYS_NOTHING) if hull.high - hull.low <= hull.rounding else found


def evidence_of_weights(data: LoggedDataset, weights: Floats, **known: Any) -> Evidence:
    """What the weights of the logged rows say: how much of the log they use, and how much of them is negative.

    Args:
        data: the log.
        weights: the ratio at each of its rows.
        known: further fields of `Evidence`.
    """
    return Evidence(
        effective_rows=effective_sample_size(np.maximum(weights, 0)),
        rows=len(data),
        effective_episodes=effective_episodes(data, weights),
        negative_mass=float(np.maximum(-weights, 0).sum() / max(np.abs(weights).sum(), 1e-300)),
        **known,
    )


def effective_episodes(data: LoggedDataset, weights: Floats) -> float:
    """Kish's effective sample size of the episodes' summed weights, as a share of what equal rows would give."""
    whole = group_sums(data.episode, np.maximum(weights, 0), data.n_episodes)
    equal = effective_sample_size(data.lengths.astype(np.float64))
    return effective_sample_size(whole) * data.n_episodes / equal


def disagreement(data: LoggedDataset, distance: float, error: float) -> float | None:
    """How far another solution lies, in standard errors, or in thousandths of the rewards' deviation if that is more.

    Where all rewards are equal, their size takes the place of their deviation. Rounding errors are no disagreement.
    """
    largest, deviation = float(np.abs(data.rewards).max()), float(data.rewards.std())
    if distance <= ROUNDING * largest:
        return 0.0
    scale = deviation if deviation > ROUNDING * largest else largest  # equal rewards deviate by rounding errors alone
    least = float(np.hypot(error, NEGLIGIBLE * scale))
    return distance / least if least > 0 else None


def value_or_nan(ratio: float, weights: Floats) -> float:
    """A weighted mean, where there is any weight."""
    return float(ratio) if weights.sum() > 0 else float("nan")


def _mean_one(weights: Floats) -> Floats:
    """Weights that are not negative and have mean 1."""
    positive = np.maximum(weights, 0)
    total = positive.sum()
    return positive * (len(positive) / total) if total > 0 else positive


def _numbers(raw: RawEstimate) -> dict[str, Any]:
    """The evidence that is known, by name."""
    values = {name: value for name, value in vars(raw.evidence).items() if name not in ("rows", "remarks")}
    return {"suspected_bias": raw.suspected_bias} | {name: value for name, value in values.items() if value is not None}
