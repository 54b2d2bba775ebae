"""Estimates before they have intervals: value, uncertainty, weights of the rows, doubts; and the reward range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ope_vpm.arrays import ROUNDING, Floats, effective_sample_size, group_sums
from ope_vpm.linear.passes import WeightSums
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.behaviour.action_ratio import held_actions, known_overlap
from ope_vpm.ope.behaviour.hidden_causes import hidden_causes
from ope_vpm.ope.inference.doubts import (
    FEW,
    HIDDEN_CAUSES,
    SUPPORT,
    Doubts,
    Noise,
    Rule,
    joined,
    remarks,
    suspected_bias,
)
from ope_vpm.ope.inference.uncertainty import Derived, EpisodeSums, Interval, Uncertainty
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem

NEGLIGIBLE = 0.3
"""A share of the deviation of rewards: a suspected bias that is smaller is no reason for caution, however small the
noise is. It is in the error, and verdicts must not get worse with more data."""
OVERLAP = "the log does not hold {:.0%} of what the target does"
UNLIKE = "{:.0%} of the target's actions are unlike logged ones: what they lead to was not logged"
NO_DATA = "{:.0%} of the target's steps lead where there are no data"
UNCERTAIN = 0.05
"""The share of steps up to which a doubt adds nothing to the error: shares are estimated with such errors, and what so
few steps pay is hardly ever extreme."""


@dataclass(frozen=True)
class RewardRange:
    """The least and the largest value that the rewards allow; returns of episodes without a limit may be infinite."""

    low: float
    high: float

    @property
    def rounding(self) -> float:
        """How far beyond the ends a value may lie by rounding errors alone."""
        ends = [abs(end) for end in (self.low, self.high) if np.isfinite(end)]
        return ROUNDING * max(ends, default=0.0)

    @property
    def single(self) -> bool:
        """Whether only one value is possible."""
        return self.high - self.low <= self.rounding

    def nearest(self, value: float) -> float:
        """The possible value nearest to one; one that is not finite stays what it is."""
        return float(np.clip(value, self.low, self.high)) if np.isfinite(value) else value

    def beyond(self, interval: Interval) -> bool:
        """Whether an interval holds nothing that is possible."""
        low, high = interval
        return low > self.high + self.rounding or high < self.low - self.rounding

    def cut(self, interval: Interval) -> Interval:
        """The part of an interval that is possible.

        Where it holds nothing of that, everything possible; without a limit on one side, as far inside as it is beyond.
        """
        low, high = (float(np.clip(end, self.low, self.high)) for end in interval)
        if not self.beyond(interval):
            return low, high
        if np.isfinite(self.high - self.low):
            return self.low, self.high
        far = max(abs(low - interval[0]), abs(high - interval[1]))
        return max(self.low, high - far), min(self.high, low + far)


def reward_range(problem: Problem, unlogged_ends: bool = False) -> RewardRange:
    """The range of the logged rewards, and of 0 where episodes end for good: a mean over time cannot leave it.

    Args:
        problem: the question.
        unlogged_ends: whether the target may end the task for good where no logged episode has: a target that goes
            where nobody logged may.
    """
    rewards = problem.data.reward_facts
    ends = [0.0] if problem.on_end == "absorb" and (unlogged_ends or problem.ends.any()) else []
    return RewardRange(min([rewards.least, *ends]), max([rewards.largest, *ends]))


def return_range(problem: Problem) -> RewardRange:
    """The least and the largest return of an episode.

    Where only ends pay, as for a probability of survival, it is the range of what they pay and of 0. Otherwise an
    episode has at least one step, and at most as many as a time limit that is part of the task leaves it.
    """
    rewards, ends = problem.data.reward_facts, problem.ends
    if not (rewards.inner or rewards.last[~ends].any()):
        paid = rewards.last[ends]
        return RewardRange(float(paid.min(initial=0.0)), float(paid.max(initial=0.0)))
    longest = np.inf if problem.limit is None else float(problem.limit)
    least, largest = rewards.least, rewards.largest
    return RewardRange(least * longest if least < 0 else least, largest * longest if largest > 0 else largest)


def outside(what: str, value: float, allowed: RewardRange) -> str:
    """That a number is impossible."""
    return (
        f"the {what} {value:.6g} lies outside of what the rewards allow, [{allowed.low:.6g}, {allowed.high:.6g}], "
        "and was moved to the nearest end"
    )


@dataclass(frozen=True, kw_only=True)
class RawEstimate:
    """An estimate before it has an interval and a verdict."""

    value: float
    """On the scale of one reward; NaN where no row has any weight."""
    uncertainty: Uncertainty | None = None
    """How far it may lie from the truth; None where nothing is known about that."""
    weights: Floats | None = None
    """(n,): the ratio τ at each logged row, on any scale; None where rows are not weighted."""
    doubts: Doubts = ()
    """What was looked at and may speak against it, harmless numbers included; all suspected bias is theirs."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """For people to read; nothing is computed from it."""
    rows_worth: float | None = None
    """How many rows of equal weight the weighted log is worth, where the weights themselves are not kept."""
    ends_worth: float | None = None
    """How many ends of equal weight the weighted log is worth, where that is known already: its weights may not be."""
    per_episode: RawEstimate | None = None
    """The estimate of the undiscounted return of an episode, at γ = 1 on tasks that end; None where it is not known."""

    @property
    def sums(self) -> EpisodeSums | None:
        """How each episode moves the value; None where that is not known."""
        return None if self.uncertainty is None else self.uncertainty.sums

    def size(self, rule: Rule) -> float | None:
        """The number that a rule judges; None where it is not known."""
        return next((doubt.size for doubt in self.doubts if doubt.code == rule.code), None)

    def doubted(self, *groups: Doubts) -> Self:
        """This estimate with further doubts."""
        return replace(self, doubts=joined(self.doubts, *groups))

    @property
    def suspected_bias(self) -> float:
        """√Σ(c·b)²: how far the value may be off, as large as one standard error would be."""
        return suspected_bias(self.doubts)

    @property
    def error(self) -> float:
        """S, the standard error with the suspected bias; infinite where the former is not known."""
        known = self.sums is not None and np.isfinite(self.value)
        return float(np.hypot(self.sums.standard_error, self.suspected_bias)) if known and self.sums else float("inf")


def found_on_sample(problem: Problem, find: Callable[[Problem], RawEstimate | None]) -> RawEstimate | None:
    """An estimate from the log's sample, where the log is longer; its uncertainty is that of the sample."""
    found = find(problem.on_sample)
    return found if problem.log.sample is problem.log else _of_sample(found, problem.log.sample)


def _of_sample(found: RawEstimate | None, sample: Log) -> RawEstimate | None:
    """An estimate, and that of the return beside it, whose episodes are those of a sample."""
    if found is None or found.uncertainty is None:
        return found
    uncertainty = Derived(of=found.uncertainty, log=sample)
    return replace(found, uncertainty=uncertainty, per_episode=_of_sample(found.per_episode, sample))


def doubts_of_weights(data: LoggedDataset, weights: Floats) -> Doubts:
    """The doubt about how many episodes the weights of the logged rows rest on.

    Args:
        data: the log.
        weights: the ratio at each of its rows.
    """
    return doubts_of_sums(data, weight_sums(data, weights))


def weight_sums(data: LoggedDataset, weights: Floats) -> WeightSums:
    """The sums of weights of all rows, and of each episode's."""
    positive = np.maximum(weights, 0)
    return WeightSums(positive.sum(), positive @ positive, group_sums(data.episode, positive, data.n_episodes))


def doubts_of_sums(data: LoggedDataset, sums: WeightSums) -> Doubts:
    """The doubt from sums of weights: Kish's effective number of episodes, relative to that of equal rows."""
    equal = effective_sample_size(data.lengths.astype(np.float64))
    return FEW.of(effective_sample_size(sums.by_group) * data.n_episodes / equal, data.n_episodes)


def rows_worth(sums: WeightSums) -> float:
    """Kish's effective sample size, (Στ)²/Στ², of weights of which sums are known."""
    squares = float(sums.squares)
    return float(sums.positive) ** 2 / squares if squares > 0 else 0.0


def value_or_nan(ratio: float, weights: Floats) -> float:
    """A weighted mean, where there is any weight."""
    return float(ratio) if weights.sum() > 0 else float("nan")


def interval_of(problem: Problem, raw: RawEstimate) -> tuple[float | None, Interval | None]:
    """The standard error and the interval; none from one episode, or where there is no value."""
    if problem.data.n_episodes < 2 or not np.isfinite(raw.value) or raw.uncertainty is None:
        return None, None
    error, (low, high) = raw.uncertainty.interval(raw.value, problem.log, problem.seed, raw.suspected_bias)
    rounding = ROUNDING * abs(raw.value)  # where nothing varies the solution is exact, but for rounding
    return error, (min(low, raw.value - rounding), max(high, raw.value + rounding))


def all_doubts(problem: Problem, raw: RawEstimate) -> Doubts:
    """All doubts about an estimate, with those about every estimate from this log and the doctor's warnings."""
    episodes, look = problem.data.n_episodes, "look at what `ope-vpm inspect` finds in the data"
    of_log = *FEW.of(episodes, episodes), *HIDDEN_CAUSES.of(hidden_causes(problem.log.sample))
    return joined(of_log, raw.doubts, remarks(problem.log.warnings, look))


def noise_of(problem: Problem, raw: RawEstimate, error: float | None, steps: float = 1.0) -> Noise | None:
    """The part of the error S that is noise, from the whole; None where that is not known.

    Args:
        problem: the question.
        raw: the estimate.
        error: S.
        steps: of an episode, of whose return the estimate is.
    """
    if error is None:
        return None
    rewards, noise = problem.data.reward_facts, float(np.sqrt(max(error**2 - raw.suspected_bias**2, 0.0)))
    return Noise(noise, steps * max(NEGLIGIBLE * rewards.deviation, ROUNDING * rewards.size))


def unsupported(problem: Problem, share: float | None, sentence: str = NO_DATA, factor: float = 1.0) -> Doubts:
    """The doubt about a share of the target's steps without data, which may pay anything that the rewards allow.

    Args:
        problem: the question.
        share: of the steps; None where it is not known.
        sentence: that says so, with the share in place of "{}".
        factor: of the value's unit, such as the mean length of an episode for a return.
    """
    if share is None:
        return ()
    allowed = reward_range(problem, unlogged_ends=True)
    bias = factor * max(share - UNCERTAIN, 0.0) * (allowed.high - allowed.low)
    return SUPPORT.of(max(share, 0.0), bias=bias, sentence=sentence)


def doubts_of_actions(problem: Problem, factor: float = 1.0) -> Doubts:
    """How much of what the target does was not logged; arguments as in `unsupported`."""
    overlap, held = known_overlap(problem), held_actions(problem)
    return joined(
        unsupported(problem, None if overlap is None else 1 - overlap, OVERLAP, factor),
        unsupported(problem, None if held is None else 1 - held, UNLIKE, factor),
    )
