"""What speaks against an estimate: doubts, the table of thresholds that they are judged by, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

Level = Literal["reliable", "caution", "unreliable"]
LEVELS: tuple[Level, ...] = ("reliable", "caution", "unreliable")


@dataclass(frozen=True)
class Doubt:
    """One reason why an estimate may be wrong, complete as soon as it is found."""

    code: str
    """Its row in `RULES`; a remark that an estimator makes of its own has its sentence instead."""
    size: float
    """The number that is judged, in the unit of its rule."""
    bias: float | None
    """How far the value may be off for this reason, in units of the value; None where that is not known."""
    sentence: str
    advice: str
    """What a user can do about it; may be empty."""

    @property
    def rule(self) -> Rule | None:
        """The row of the table; None for a remark."""
        return BY_CODE.get(self.code)

    @property
    def level(self) -> int:
        """The verdict that it asks for, as a place in `LEVELS`: 0 where the number is harmless. A remark asks for 1."""
        return 1 if self.rule is None else self.rule.judge(self.size)


Doubts = tuple[Doubt, ...]


@dataclass(frozen=True)
class Rule:
    """Where a number begins to be doubtful, and where it says that the estimate means little.

    Small numbers are bad where the first threshold is the larger one, otherwise large ones are.
    """

    code: str
    caution: float
    unreliable: float
    sentence: str
    advice: str
    """"{more}" stands for the number of further episodes with which the first threshold would be passed."""

    @property
    def low_is_bad(self) -> bool:
        """Whether small numbers are bad."""
        return self.caution > self.unreliable

    def judge(self, number: float) -> int:
        """0, 1 or 2: the place in `LEVELS`."""
        sign = 1 if self.low_is_bad else -1
        if not sign * number >= sign * self.unreliable:
            return 2
        return int(not sign * number >= sign * self.caution)

    def of(self, number: float | None, episodes: int = 0, bias: float | None = None) -> Doubts:
        """The doubt about a number; none where the number is not known.

        Args:
            number: what is judged.
            episodes: of the log, with which the number grows, where the advice says how many more are needed.
            bias: how far the value may be off for this reason.
        """
        if number is None:
            return ()
        more = ceil(episodes * (self.caution / number - 1)) if number > 0 else "many"
        return (Doubt(self.code, number, bias, self.sentence.format(number), self.advice.format(more=more)),)


NEARER = "log episodes of the target, or of a policy nearer to it"
MORE = "log {more} more episodes of this kind"
UNSEEN = "log the actions that the target takes, in the states that it visits"
COMPLETE = "add what is missing to the observations, such as the previous observation and action, or finer bins"
COMPARE = "compare with an estimator of another kind, such as fqe or model"
LESS_CERTAIN = (
    "the value is {0:.1f} times less certain than the logged mean: episodes of the target, or of a policy nearer to "
    "it, would help most"
)

EPISODES = Rule("episodes", 10, 3, "few episodes ({0:.0f}) say little about how they differ", MORE)
"""Logged episodes: with fewer than ten, their spread is itself known to a quarter at best."""
OVERLAP = Rule("overlap", 0.8, 0.3, "the log holds {0:.0%} of what the target does (1 where the two overlap)", NEARER)
"""E_b[π/b] as estimated, a share: 1 where the log holds every action that the target takes, 0 where it holds none."""
HELD_ACTIONS = Rule(
    "held_actions",
    0.9,
    0.7,
    "{0:.0%} of the target's actions are like logged ones: what the others lead to was not logged",
    NEARER,
)
"""Share of continuous actions as likely as all but 1 % of the logged ones; a Hopper with 0.88 was 5 floors too high."""
EFFECTIVE_ROWS = Rule("effective_rows", 100, 30, "the weighted log is worth {0:.0f} rows of equal weight", NEARER)
"""Kish's effective sample size of the row weights."""
EFFECTIVE_SHARE = Rule("effective_share", 0.05, 0.01, "the weighted log is worth {0:.1%} of its rows", NEARER)
"""The same as a share of the logged rows."""
EFFECTIVE_EPISODES = Rule(
    "effective_episodes",
    10,
    3,
    "the weighted log is worth {0:.1f} episodes",
    f"{NEARER}, or {{more}} more of this kind",
)
"""Kish's effective sample size of the episodes' summed weights; the same limits as for logged episodes."""
MEAN_RATIO = Rule("mean_ratio_error", 0.1, 0.5, "the ratio's mean is off 1 by {0:.2f}", COMPARE)
"""|E_p[τ] - 1| before τ was scaled to mean 1."""
RESIDUAL = Rule(
    "residual", 0.05, 0.2, "the distribution found is not stationary: residual {0:.2g} beyond its noise", COMPARE
)
"""The stationarity residual beyond three times what sampling noise alone would leave."""
UNSEEN_MASS = Rule("unseen_mass", 0.05, 0.2, "{0:.0%} of the target's steps lead where there are no data", UNSEEN)
"""Share of the target's steps."""
UNLOGGED = Rule(
    "unlogged",
    0.05,
    0.2,
    "{0:.0%} of the discounted weight lies beyond the steps at which episodes were cut",
    "log longer episodes, take a smaller gamma, or an estimator that follows states, such as auto",
)
"""Share of the discounted time, judged as steps without data; 75 of 90 reliable intervals missed at 0.35 to 0.95."""
PREDICTED_MASS = Rule(
    "predicted_mass",
    0.3,
    0.97,
    "{0:.0%} of the target's steps are with pairs that were never logged, and their values are predictions",
    UNSEEN,
)
"""Share of the target's steps, where values are predicted and how far these may be off is part of the error."""
NEGATIVE_MASS = Rule("negative_mass", 0.25, 0.4, "{0:.0%} of the weights are negative", COMPARE)
"""Share of negative weights in Σ|τ|."""
RESIDUAL_CORRELATION = Rule(
    "residual_correlation",
    0.5,
    0.9,
    "errors of one step foretell those of the next (correlation {0:.2f}): the future depends on more than the "
    "observation holds, such as a speed or what went before",
    COMPLETE,
)
"""|ρ| of successive Bellman residuals; hidden speed 0.33 to 0.84, Pendulum, Acrobot, CartPole and Hopper up to 0.21."""
PAST_ACTION = Rule(
    "past_action",
    0.02,
    0.3,
    "the action before foretells {0:.1%} of how outcomes vary, beyond observation and action: observations come "
    "late, doing the same again pays, or they do not hold all that the future depends on",
    COMPLETE,
)
"""Share of the Bellman residuals' variance; 0 for states beyond noise (30 logs), late observations 0.03 to 0.7."""
HISTORY = Rule(
    "history",
    0.01,
    0.3,
    "the step before foretells {0:.1%} of how outcomes vary, beyond state and action: what was logged as states "
    "does not hold all that the future depends on, as bins of a continuous state do not",
    COMPLETE,
)
"""Share of the variance of r + γV(s'), finite states; bins of a continuous state 0.02 to 0.1, 2 to 9 errors off."""
PLACEBO = Rule(
    "placebo",
    1.0,
    5.0,
    "the value of the log's own policy, which its episodes tell, is not found again by following states: it is "
    "{0:.1f} standard errors of this value off",
    COMPLETE,
)
"""The distance beyond its noise, over the standard error; 13 to 40 for ends by a step number that is missing."""
HIDDEN_CAUSES = Rule(
    "hidden_causes",
    0.0,
    0.0,
    "the log's policy acted by something that was not logged and that moves rewards or next states: earlier actions "
    "of an episode predict {0:.1%} of how the present one varies in its state, and what follows from it",
    "log what the behaviour knew, or bound what it can do with a sensitivity analysis",
)
"""Share of the variance of actions; the test has its own threshold, and 74 ordinary logs all have 0. Both limits are 0:
how far the value is off cannot be known from such a log (the sepsis simulator, two causes hidden: 0.31, truth 0.01)."""
DEPARTURE = Rule(
    "departure",
    0.1,
    0.3,
    "the target leaves the logged states: in a model of the log, {0:.0%} of its steps lie far from all of them",
    NEARER,
)
"""Share of the target's steps in a learned model; Hopper, whose model is poor, has up to 0.08 where all is well."""
UNFAMILIAR = Rule(
    "unfamiliar",
    0.1,
    0.3,
    "in {0:.0%} of the logged states the target does what the log hardly did there, and a model of the log guesses",
    NEARER,
)
"""Share of logged states in which a learned model is less certain about the target's action than usual."""
RIDGE = Rule(
    "ridge",
    0.015,
    0.025,
    "only a strong ridge ({0:.2g} of the features' mean squares) keeps the solution steady, and it takes the "
    "target for nearly the same as the log's own policy",
    NEARER,
)
"""In units of the features' mean squares, where the data chose it; 13 of 16 answers at 0.03 and 0.1 missed."""
LEVERAGE = Rule(
    "leverage",
    0.3,
    0.9,
    "the solution has as many degrees of freedom as {0:.0%} of its rows, so that its errors are hardly known: more "
    "episodes, or fewer coordinates of the state, would help most",
    "log more episodes, or leave out coordinates of the state that do not matter",
)
"""Degrees of freedom over rows; 600 rows of 200 coordinates 0.35 to 1 (4 of 6 reliable missed), wild tasks to 0.16."""
RELATIVE_ERROR = Rule("relative_error", 3.5, 5.0, LESS_CERTAIN, NEARER)
"""The standard error, suspected bias included, in units of the logged mean's (docs/verdicts.md)."""
RETURN_ERROR = Rule(
    "return_error",
    3.5,
    5.0,
    "the return of an episode is {0:.1f} times less certain than the logged one, and the value per step rests on "
    "the same weights",
    NEARER,
)
"""The same of the return, where lengths differ: the value per step is the return over the length."""
COUNTED_ERROR = Rule("counted_error", 4.0, 8.0, LESS_CERTAIN, NEARER)
"""The same on finite states, where solutions of counts are less certain than the logged mean if all is well."""
RARE_REWARDS = Rule(
    "rare_reward_episodes",
    10,
    3,
    "the rewards that make the difference occur in few episodes, worth {0:.1f}: more episodes would help",
    MORE,
)
"""The effective number of episodes with other rewards than the commonest, where these are few."""
RATE_ERROR = Rule(
    "rate_error",
    0.3,
    0.5,
    "how often the target reaches an end is known to ±{0:.0%} only",
    "log more episodes that end",
)
"""Standard error of the rate of ends over the rate; returns of 5000 logs are off by 0.25 below 0.3, 0.54 above 0.5."""
DISAGREEMENT = Rule(
    "disagreement", 2.0, 5.0, "another way to solve the same equations lies {0:.1f} standard errors away", COMPARE
)
"""Distance of the other solution in standard errors."""

RULES = (
    *(EPISODES, OVERLAP, HELD_ACTIONS, EFFECTIVE_ROWS, EFFECTIVE_SHARE, EFFECTIVE_EPISODES, MEAN_RATIO, RESIDUAL),
    *(UNSEEN_MASS, UNLOGGED, PREDICTED_MASS, NEGATIVE_MASS, RESIDUAL_CORRELATION, PAST_ACTION, HISTORY, PLACEBO),
    *(HIDDEN_CAUSES, DEPARTURE, UNFAMILIAR, RIDGE, LEVERAGE, RELATIVE_ERROR, RETURN_ERROR, COUNTED_ERROR),
    *(RARE_REWARDS, RATE_ERROR, DISAGREEMENT),
)
"""In the order in which equally bad reasons are told; docs/verdicts.md explains them."""
BY_CODE = {rule.code: rule for rule in RULES}
PLACE = {rule.code: place for place, rule in enumerate(RULES)}


def remarks(sentences: Iterable[str], advice: str = "") -> Doubts:
    """Reasons for caution that are somebody's own, without a row in the table."""
    return tuple(Doubt(sentence, 1.0, None, sentence, advice) for sentence in sentences)


def among(doubts: Doubts, *rules: Rule) -> Doubts:
    """Those by some of the rules."""
    codes = {rule.code for rule in rules}
    return tuple(doubt for doubt in doubts if doubt.code in codes)


def remarks_among(doubts: Doubts) -> Doubts:
    """Those without a row in the table."""
    return tuple(doubt for doubt in doubts if doubt.rule is None)


def joined(*groups: Doubts) -> Doubts:
    """The union of the doubts of several estimates; of two with one code the worse is kept."""
    kept: dict[str, Doubt] = {}
    for doubt in (each for group in groups for each in group):
        before = kept.get(doubt.code)
        kept[doubt.code] = doubt if before is None else _worse(before, doubt)
    return tuple(kept.values())


def _worse(one: Doubt, other: Doubt) -> Doubt:
    """The first of two doubts with one code, unless the number of the other is worse; with the larger bias."""
    sign = -1 if one.rule is not None and one.rule.low_is_bad else 1
    biases = [each.bias for each in (one, other) if each.bias is not None]
    worse = other if sign * other.size > sign * one.size else one
    return replace(worse, bias=max(biases, default=None))


def judge(doubts: Doubts) -> tuple[Level, tuple[str, ...]]:
    """The verdict and its reasons, worst first."""
    found = _worst_first(doubts)
    return LEVELS[found[0].level if found else 0], tuple(doubt.sentence for doubt in found)


def advise(doubts: Doubts) -> tuple[str, ...]:
    """What would make the answer more reliable, most needed first."""
    return tuple(dict.fromkeys(doubt.advice for doubt in _worst_first(doubts) if doubt.advice))


def _worst_first(doubts: Doubts) -> list[Doubt]:
    """The doubts that ask for caution or more; of those that ask for the same, in the order of the table."""
    found = [doubt for doubt in doubts if doubt.level]
    return sorted(found, key=lambda doubt: (-doubt.level, PLACE.get(doubt.code, len(RULES))))
