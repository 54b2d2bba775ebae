"""Is it better? The difference of two policies on one log, or of a policy and the one that logged it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Literal, Unpack

import numpy as np
from scipy.special import stdtr

from ope_vpm.logged import scan_dataset
from ope_vpm.ope.adapter.given import QuestionChoices, divided
from ope_vpm.ope.estimator import Estimator, made_of
from ope_vpm.ope.inference.doubts import LEVELS, Level, remarks_among
from ope_vpm.ope.inference.estimate import return_range, reward_range
from ope_vpm.ope.inference.returns import ONE_EPISODE
from ope_vpm.ope.inference.uncertainty import Interval
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.questions.gate import Decision, Gate, check_gain, sequence_reach
from ope_vpm.ope.questions.paired import LOGGED, Difference, Evaluated, Sides, evaluated, of_log, student
from ope_vpm.outside import Shown, printable
from ope_vpm.threads import at_once


@dataclass(frozen=True)
class Comparison(Shown):
    """The difference of two policies' values on one log, with its error and verdict."""

    new: PolicyValue
    old: PolicyValue
    """The value of the other policy, or with the estimator "logged" the mean of the log itself."""
    value: float
    """New less old: returns of an episode where these lead (γ = 1 where episodes end), else values per step."""
    standard_error: float | None
    """S of the difference, noise paired by episodes and suspected biases; None where it is not known."""
    noise: float
    """The part of S that shrinks as the log grows."""
    interval: Interval | None
    """value ± t·S and what the intervals of both hold beyond theirs, meant to hold the truth in 95 of 100 data sets."""
    probability: float | None
    """The probability that new is better, by the distribution of the interval."""
    verdict: Level
    """Whether the interval can be believed: as far as both values can."""
    reasons: tuple[str, ...]
    episodes: int
    """How many the log has."""
    per: Literal["episode", "step"]
    widest: float
    """The largest difference of two values that the rewards allow."""

    @property
    def episodes_needed(self) -> int | None:
        """How many episodes of this kind, in all, would tell the two apart if they differ by `value`; None: none would.

        v² > t²·(noise²·E/n + bias²) is solved for n, with t at the present number E of episodes.
        """
        return self._episodes_needed(0.0)

    def _episodes_needed(self, gain: float) -> int | None:
        """The same for a difference beyond a gain, by the side of the interval that is nearer to it."""
        if self.interval is None:
            return None
        gap, ahead = self.value - gain, self.value > gain
        side = self._sides[0 if ahead else 1]
        room = (gap / student(self.episodes)) ** 2 - max(side**2 - self.noise**2, 0.0)
        return ceil(self.noise**2 * self.episodes / room) if room > 0 else None

    @property
    def _sides(self) -> Sides:
        """How far the interval reaches below and above, over Student's quantile."""
        low, high = self.interval or (-np.inf, np.inf)
        reach = student(self.episodes)
        return (self.value - low) / reach, (high - self.value) / reach

    @property
    def anytime_interval(self) -> Interval | None:
        """An interval that holds the true difference at all looks together, however often a growing log is looked at.

        A 95 % asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2024, theorem 2.2: the
        normal mixture of Robbins): S times √((nρ² + 1)/(nρ²) · log((nρ² + 1)/α²)) at n episodes, with Student's
        quantiles in the place of normal ones. The suspected bias is stretched with the noise.
        """
        if self.interval is None or self.episodes < 2:
            return None
        return _within(self.value, sequence_reach(self.episodes), self._sides, self.widest)

    def gate(self, min_gain: float = 0.0, *, anytime: bool = False) -> Gate:
        """Whether new is better by more than a least gain, worse, or neither is known.

        Args:
            min_gain: by how much it has to be better, in units of `value`; negative where a loss may be borne.
            anytime: keep the promise of 95 % over all looks at a log that grows.
        """
        check_gain(min_gain)
        interval = self.anytime_interval if anytime else self.interval
        believed = interval is not None and self.verdict != "unreliable"
        low, high = interval or (-np.inf, np.inf)
        decision: Decision = "not decided"
        if believed and (low > min_gain or high < min_gain):
            decision = "better" if low > min_gain else "worse"
        would = "" if decision != "not decided" else self._would_decide(min_gain)
        return Gate(decision, float(min_gain), interval, anytime, would, self)

    def _would_decide(self, min_gain: float) -> str:
        if self.interval == (self.value, self.value):
            return "nothing in this log, which does not tell the two apart"
        if self.verdict == "unreliable":
            return "; ".join(self.new.advice) or "a log in which the verdict is not unreliable"
        needed = self._episodes_needed(min_gain)
        if needed is not None and needed > self.episodes:
            return (
                f"about {needed} episodes of this kind, {needed - self.episodes} more, if the difference is as it looks"
            )
        return "; ".join(self.new.advice) or "episodes of the new policy, or of one nearer to it"

    @property
    def decision(self) -> Decision:
        """In a word, whatever the verdict: whether the interval holds 0."""
        low, high = self.interval or (-np.inf, np.inf)
        return "better" if low > 0 else "worse" if high < 0 else "not decided"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; without the weights."""
        return {
            "value": self.value if np.isfinite(self.value) else None,
            "per": self.per,
            "gamma": self.new.gamma,
            "standard_error": self.standard_error,
            "interval": None if self.interval is None else list(self.interval),
            "anytime_interval": None if self.anytime_interval is None else list(self.anytime_interval),
            "probability": self.probability,
            "decision": self.decision,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "episodes": self.episodes,
            "episodes_needed": self.episodes_needed,
            "new": self.new.as_dict(),
            "old": self.old.as_dict(),
        }

    def to_frame(self) -> Any:
        """A data frame of pandas with three rows: new, old and their difference."""
        from ope_vpm.ope.reporting.tables import frame, rows_of

        rows = rows_of({"new": self.new, "old": self.old})
        low, high = self.interval or (np.nan, np.nan)
        said = {"verdict": self.verdict, "reasons": "; ".join(self.reasons), "per": self.per}
        own = {"policy": "difference", "value": self.value, "low": low, "high": high, **said}
        return frame([*rows, {**rows[0], **own}])

    def plot(self, ax: Any = None) -> Any:
        """The difference and its interval beside 0 on axes of matplotlib, which are returned."""
        from ope_vpm.ope.reporting.plots import plot_difference

        return plot_difference(self, ax)

    def __str__(self) -> str:
        words = {"better": "new is better", "worse": "new is worse", "not decided": "the two cannot be told apart"}
        between = "no interval" if self.interval is None else "[{:.6g}, {:.6g}]".format(*self.interval)
        against = "the log" if self.old.estimator == LOGGED else "old"
        found = f"{self.value:+.6g}  {between}  per {self.per} at γ = {self.new.gamma:.12g}  {self.verdict}"
        lines = [f"{self.new.estimator}: {words[self.decision]}: new less {against} {found}"]
        lines += [f"  - {reason}" for reason in self.reasons]
        if self.probability is not None:
            lines.append(f"  new is better with probability {self.probability:.3g}")
        if self.decision == "not decided" and self.interval is not None:
            needed = self.episodes_needed
            lines.append(
                "  no number of episodes of this kind would tell them apart"
                if needed is None
                else f"  about {needed} episodes of this kind would tell them apart (the log has {self.episodes})"
            )
        return "\n".join(map(printable, lines))


def compare(
    data: Any,
    new: Any,
    old: Any = LOGGED,
    estimator: str | Estimator = "auto",
    gamma: float = 1.0,
    *,
    jobs: int | None = None,
    **choices: Unpack[QuestionChoices],
) -> Comparison:
    """Is one policy better than another, or than the one that logged the data?

    An episode that flatters one mostly flatters the other: errors are paired (`ope_vpm.ope.questions.paired`).

    Args:
        data: the log, or whatever `ov.evaluate` takes for one.
        new: the policy that may take the other's place.
        old: the other policy, or "logged" for the one that logged the data, whose value is the mean of its log.
        estimator: a name out of `ov.estimators()`, or an instance.
        gamma: the discount; at 1 returns of an episode are compared where episodes end, otherwise values per step.
        jobs: how many policies are worked on at once, see `ov.evaluate`.
        choices: `seed`, `on_end`, `time_limit`, `ignore` and `behaviour` as in `ov.evaluate`, and the estimator's own
            settings.

    Returns:
        The difference with its interval, the probability that new is better, and a verdict.

    ```python
    import numpy as np
    import ope_vpm as ov

    context, action = np.random.default_rng(0).integers(2, size=(2, 400))  # a coin decided what was done
    paid = (context == action).astype(float)
    log = ov.LoggedDataset.from_arrays(context, action, paid, terminated=np.ones(400))
    found = ov.compare(log, np.eye(2))  # with the coin that logged, which is right half of the time
    assert found.decision == "better" and found.interval[0] < 0.5 < found.interval[1]
    ```
    """
    question, options = divided(choices)
    made = made_of(estimator, options)
    against_log = isinstance(old, str) and old == LOGGED
    if old is None or (isinstance(old, str) and not against_log and getattr(data, "encoding", None) is None):
        raise ValueError(f"old must be 'logged' or a policy: got {old!r} (files: ov.load_policy)")
    log = scan_dataset(data)
    problem, ignore = Problem.pose(log, new, gamma=gamma, **question), question.get("ignore", ())
    other = None if against_log else problem.with_policy(old)
    if other is not None and other.policy.n_actions != problem.policy.n_actions:
        counts = problem.policy.n_actions, other.policy.n_actions
        raise ValueError("new and old must choose from the same actions: {} != {} (another task?)".format(*counts))
    asked = [problem] if other is None else [problem, other]
    mine, *its = at_once(lambda one: evaluated(made, one, ignore), asked, len(problem.data), jobs, problem.streamed)
    return compared(problem, mine, its[0] if its else of_log(problem))


def compared(problem: Problem, new: Evaluated, old: Evaluated) -> Comparison:
    """The difference of two evaluated policies, of returns where both have one."""
    per_episode = new.of_return is not None and old.of_return is not None
    one, other = (new.of_return, old.of_return) if new.of_return and old.of_return else (new, old)
    allowed = (return_range if per_episode else reward_range)(problem)
    episodes, found = problem.data.n_episodes, one.less(other)
    widest, value = allowed.high - allowed.low, found.value
    known = bool(np.isfinite([found.error, value]).all())
    moved = one.influence is not None and bool(one.influence.any())
    verdict, reasons = _verdict(one, other, known, same=known and moved and found.error == 0 and value == 0)
    return Comparison(
        new=new.value,
        old=old.value,
        value=value,
        standard_error=found.error if known else None,
        noise=found.noise,
        interval=_within(value, student(episodes), found.sides, widest) if known else None,
        probability=_probability(found, episodes) if known else None,
        verdict=verdict,
        reasons=reasons,
        episodes=episodes,
        per="episode" if per_episode else "step",
        widest=widest,
    )


def _probability(found: Difference, episodes: int) -> float:
    """The probability that the true difference is above 0, by the side of the interval that is nearer to 0."""
    side = found.sides[0 if found.value > 0 else 1]
    return float(stdtr(episodes - 1, found.value / side)) if side > 0 else (1.0 + np.sign(found.value)) / 2


def _within(value: float, reach: float, sides: Sides, widest: float) -> Interval:
    """The interval from value - reach·below to value + reach·above, cut to what the rewards allow."""
    (below, above), allowed = sides, (-widest, widest)
    low, high = (float(np.clip(end, *allowed)) for end in (value - reach * below, value + reach * above))
    return low + 0.0, high + 0.0  # not -0


def _verdict(new: Evaluated, old: Evaluated, known: bool, same: bool) -> tuple[Level, tuple[str, ...]]:
    """The worse verdict of the two values, with all reasons.

    Equal values that every episode moves alike are reliable, remarks apart; where none moves them, all policies are
    alike to this log.
    """
    if same and not remarks_among(new.value.doubts):
        return "reliable", ()
    leads: list[PolicyValue | EpisodeReturn] = [new.lead]
    leads += [] if old.value.estimator == LOGGED and not any(each.bias for each in old.value.doubts) else [old.lead]
    level = max((lead.verdict for lead in leads), key=LEVELS.index)
    reasons = dict.fromkeys(reason for lead in leads for reason in lead.reasons)
    if not known and ONE_EPISODE not in reasons:
        return "unreliable", ("how far the difference may be off is not known", *reasons)
    return level, tuple(reasons)
