"""What an estimator found, and the policy value that is made of it: an interval, a verdict, weights of mean 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, effective_sample_size, group_sums, read_only
from ope_vpm.linear.weight_sums import WeightSums
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.behaviour.hidden_causes import LEAST_EPISODES, hidden_causes
from ope_vpm.ope.inference.uncertainty import EpisodeSums, Interval, OfSample, Uncertainty
from ope_vpm.ope.inference.verdict import ROUNDING, Evidence, Hull, Level, advise, judge, return_hull, rewards_hull
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem, Question


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
    """Meant to hold the truth in 95 of 100 datasets; wider where bias is suspected, and everything that the logged
    rewards allow, and an end after which nothing is paid, where the verdict is "unreliable"."""
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
    episode_return: EpisodeReturn | None = None
    """At gamma = 1 on tasks that end: the return of an episode. None where it is not known, or gamma < 1."""
    no_return: str = ""
    """At gamma = 1, why there is no return."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", read_only(self.weights))

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

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; without the weights."""
        known = self.gamma < 1 or self.episode_return is not None
        of_return = self.return_interval
        return {
            "estimator": self.estimator,
            "policy": None if self.question is None else self.question.policy,
            "value": self.value,
            "per": "step",
            "gamma": self.gamma,
            "standard_error": self.standard_error,
            "interval": None if self.interval is None else list(self.interval),
            "effective_sample_size": self.effective_sample_size,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "return": _plain(self.as_return()) if known else None,
            "return_interval": None if of_return is None else _plain(of_return),
            "return_verdict": self.return_verdict,
            "return_reasons": [] if self.episode_return is None else list(self.episode_return.reasons),
            "no_return": self.no_return,
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
        found = f"{self.value:.6g}  {_between(self.interval)}  per step at γ = {self.gamma:.12g}"
        lines = [f"{self.estimator}: {found}  {self.verdict}", *(f"  - {reason}" for reason in self.reasons)]
        if self.gamma < 1 and np.isfinite(self.value):
            lines.append(f"  return {self.as_return():.6g}  {_between(self.return_interval)}  discounted")
        if self.episode_return is not None:
            lines.append(f"  {self.episode_return}")
            lines += [f"  - {reason}" for reason in self.episode_return.reasons if reason not in self.reasons]
        return "\n".join(lines)


def _between(interval: Interval | None) -> str:
    return "no interval" if interval is None else "[{:.6g}, {:.6g}]".format(*interval)


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
SAYS_NOTHING = "every logged step pays the same, so the log says nothing about the value per step"
NO_ENDS = "every logged step pays the same and a time limit alone ends episodes, so the log says nothing about ends"
SAME_RETURN = "every logged episode ends with the same pay, so the log says nothing about other ends"
NO_VALUE = "no value: every weight is zero, the log holds nothing the target does"
ONE_EPISODE = "one episode gives no interval: it cannot say how episodes differ"
RETURN_SAYS = "every logged step pays the same, so the value per step is known: the verdict is that of the return"
NOT_TOLD = "{} does not tell the return of an episode at gamma = 1: use gamma < 1, or another estimator, such as vpm"
NOTHING_ENDS = (
    "at gamma = 1 the return is that of an episode, and no logged episode ends: use gamma < 1, or time_limit='restart' "
    "if a time limit is part of the task"
)
NEVER_REACHED = (
    "at gamma = 1 the return is that of an episode, and by these data the target reaches no end: use gamma < 1, or "
    "time_limit='restart' if a time limit is part of the task"
)


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
    rows_worth: float | None = None
    """How many rows of equal weight the weighted log is worth, where the weights themselves are not kept and the
    evidence does not say so."""
    ends_worth: float | None = None
    """How many ends of equal weight the weighted log is worth, where that is known already: its weights may not be."""
    per_episode: RawEstimate | None = None
    """The same of the undiscounted return of an episode, at γ = 1 on tasks that end; None where it is not known."""

    @property
    def sums(self) -> EpisodeSums | None:
        """How each episode moves the value; None where that is not known."""
        return None if self.uncertainty is None else self.uncertainty.sums

    @property
    def effective_rows(self) -> float | None:
        """How many rows of equal weight the weighted log is worth; None where rows are not weighted."""
        return self.rows_worth if self.rows_worth is not None else self.evidence.effective_rows

    @property
    def suspected_bias(self) -> float:
        """How far the value may be off, as large as one standard error would be."""
        return 0.0 if self.uncertainty is None else self.uncertainty.suspected_bias


def found_on_sample(problem: Problem, find: Callable[[Problem], RawEstimate | None]) -> RawEstimate | None:
    """What is found on the log's sample, of a log that is longer; its uncertainty is that of the sample."""
    found = find(problem.on_sample)
    return found if problem.log.sample is problem.log else _of_sample(found, problem.log.sample)


def _of_sample(found: RawEstimate | None, sample: Log) -> RawEstimate | None:
    """An estimate, and that of the return beside it, whose episodes are those of a sample."""
    if found is None or found.uncertainty is None:
        return found
    doubt = OfSample(of=found.uncertainty, log=sample, suspected_bias=found.uncertainty.suspected_bias)
    return replace(found, uncertainty=doubt, per_episode=_of_sample(found.per_episode, sample))


def policy_value(problem: Problem, estimator: str, raw: RawEstimate) -> PolicyValue:
    """Put intervals around what was found, and judge it."""
    raw = _with_log_doubts(problem, raw)
    hull, episodes = rewards_hull(problem), problem.data.n_episodes
    error, interval = _interval(problem, raw)
    weights = None if raw.weights is None else _mean_one(raw.weights)
    level, reasons = judge(raw.evidence, episodes, problem.log.warnings)
    episode_return = None if raw.per_episode is None else _episode_return(problem, raw.per_episode)
    objections = _objections(raw.value, hull)
    if objections:
        level, reasons = "unreliable", (*objections, *reasons)
    elif hull.single:
        level, reasons = "unreliable", (SAYS_NOTHING, *reasons)
        if episode_return is not None:
            level, reasons = episode_return.verdict, (RETURN_SAYS, *episode_return.reasons)
    elif interval is None:
        reasons = (ONE_EPISODE, *reasons)
    if interval is not None and level == "unreliable":
        anything = rewards_hull(problem, unlogged_ends=True)  # a short interval would say what nobody knows
        interval = anything.low, anything.high
    elif interval is not None:
        interval = hull.cut(interval)
    return PolicyValue(
        estimator=estimator,
        value=hull.nearest(raw.value),
        gamma=problem.gamma,
        standard_error=error,
        interval=interval,
        effective_sample_size=raw.effective_rows if weights is None else effective_sample_size(weights),
        verdict=level,
        reasons=reasons,
        diagnostics={"episodes": episodes, "rows": len(problem.data), **_numbers(raw), **raw.diagnostics},
        weights=weights,
        advice=advise(raw.evidence, episodes, problem.log.warnings),
        question=problem.question,
        episode_return=episode_return,
        no_return=_no_return(problem, estimator, raw),
    )


def _with_log_doubts(problem: Problem, raw: RawEstimate) -> RawEstimate:
    """The estimate, and its return, with what the log itself says against every estimate from it."""
    if problem.data.n_episodes < LEAST_EPISODES:
        return raw
    share = problem.log.sample.shared(hidden_causes)
    per_episode = None if raw.per_episode is None else _with_log_doubts(problem, raw.per_episode)
    return replace(raw, evidence=replace(raw.evidence, hidden_causes=share), per_episode=per_episode)


def _interval(problem: Problem, raw: RawEstimate) -> tuple[float | None, Interval | None]:
    """The standard error and the interval; none from one episode, or where there is no value."""
    if problem.data.n_episodes < 2 or not np.isfinite(raw.value) or raw.uncertainty is None:
        return None, None
    error, (low, high) = raw.uncertainty.interval(raw.value, problem.log, problem.seed)
    rounding = ROUNDING * abs(raw.value)  # where nothing varies the solution is exact, but for rounding
    return error, (min(low, raw.value - rounding), max(high, raw.value + rounding))


def _episode_return(problem: Problem, raw: RawEstimate) -> EpisodeReturn | None:
    """The return with its interval and its verdict; None where the target reaches no end."""
    if not np.isfinite(raw.value):
        return None
    hull = return_hull(problem)
    error, interval = _interval(problem, raw)
    level, reasons = judge(raw.evidence, problem.data.n_episodes, problem.log.warnings)
    if interval is None:
        reasons = (ONE_EPISODE, *reasons)
    elif hull.single:
        level, reasons = "unreliable", (SAME_RETURN, *reasons)
    elif hull.beyond(interval):  # values beyond it by their noise are usual where the truth is near an end of the hull
        level, reasons = "unreliable", (_outside("return", raw.value, hull), *reasons)
    if rewards_hull(problem).single and not problem.data.table.terminated.any():
        level, reasons = "unreliable", (NO_ENDS, *reasons)
    if level == "unreliable" and interval is not None:
        interval = hull.low, hull.high  # without an end where episodes have no limit
    cut = None if interval is None else hull.cut(interval)
    return EpisodeReturn(hull.nearest(raw.value), error, cut, level, reasons)


def _no_return(problem: Problem, estimator: str, raw: RawEstimate) -> str:
    """Why there is no return of an episode; nothing where there is one."""
    if problem.gamma < 1:
        return ""
    if not problem.episodic:
        return NOTHING_ENDS
    if not np.isfinite(raw.value):
        return NO_VALUE
    if raw.per_episode is None:
        return NOT_TOLD.format(estimator)
    return "" if np.isfinite(raw.per_episode.value) else NEVER_REACHED


def _objections(value: float, hull: Hull) -> tuple[str, ...]:
    """Why a value means nothing, whatever speaks for it: it is none, or it is impossible."""
    if not np.isfinite(value):
        return (NO_VALUE,)
    beyond = max(hull.low - value, value - hull.high)
    found = (_outside("estimate", value, hull),) if beyond > hull.rounding else ()
    return (*found, SAYS_NOTHING) if found and hull.single else found


def _outside(what: str, value: float, hull: Hull) -> str:
    return (
        f"the {what} {value:.6g} lies outside of what the rewards allow, [{hull.low:.6g}, {hull.high:.6g}], "
        "and was moved to the nearest end"
    )


def evidence_of_weights(data: LoggedDataset, weights: Floats, **known: Any) -> Evidence:
    """What the weights of the logged rows say: how much of the log they use, and how much of them is negative.

    Args:
        data: the log.
        weights: the ratio at each of its rows.
        known: further fields of `Evidence`.
    """
    return evidence_of_sums(data, weight_sums(data, weights), **known)


def weight_sums(data: LoggedDataset, weights: Floats) -> WeightSums:
    """The sums of weights of all rows, and of each episode's."""
    positive = np.maximum(weights, 0)
    whole, square, size = positive.sum(), positive @ positive, np.abs(weights).sum()
    return WeightSums(whole, square, size, group_sums(data.episode, positive, data.n_episodes))


def evidence_of_sums(data: LoggedDataset, sums: WeightSums, **known: Any) -> Evidence:
    """The same from the sums of the weights."""
    positive, squares, absolute = float(sums.positive), float(sums.squares), float(sums.absolute)
    return Evidence(
        effective_rows=positive**2 / squares if squares > 0 else 0.0,
        rows=len(data),
        effective_episodes=effective_episodes(data, sums.by_group),
        negative_mass=max(absolute - positive, 0.0) / max(absolute, 1e-300),
        **known,
    )


def effective_episodes(data: LoggedDataset, whole: Floats) -> float:
    """Kish's effective sample size of the episodes' summed weights, as a share of what equal rows would give."""
    equal = effective_sample_size(data.lengths.astype(np.float64))
    return effective_sample_size(whole) * data.n_episodes / equal


def disagreement(data: LoggedDataset, distance: float, error: float) -> float | None:
    """How far another solution lies, in standard errors, or in thousandths of the rewards' deviation if that is more.

    Where all rewards are equal, their size takes the place of their deviation. Rounding errors are no disagreement.
    """
    largest, deviation = data.reward_facts.size, data.reward_facts.deviation
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
    if total > 0:
        positive *= len(positive) / total
    return positive


def _numbers(raw: RawEstimate) -> dict[str, Any]:
    """The evidence that is known, by name."""
    values = {name: value for name, value in vars(raw.evidence).items() if name not in ("rows", "remarks")}
    return {"suspected_bias": raw.suspected_bias} | {name: value for name, value in values.items() if value is not None}
