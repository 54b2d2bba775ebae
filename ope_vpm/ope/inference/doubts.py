"""What speaks against an estimate: a few kinds of doubt, the error that they add up to, and the verdict.

Each doubt is a suspected bias b in units of the value, a share of the target's steps about which the log says nothing,
or both. The error of a value is

    S² = se² + Σ (c·b)²,

with one coefficient c for each kind, fitted on generated tasks (`python -m benchmarks calibrate`), and its interval is
v ± t·S. The verdict says whether that interval can be believed, not whether it is narrow: "caution" where it was
widened for something that was seen, "unreliable" where the log does not hold what would be needed to know how wide it
must be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import resources
from math import ceil, hypot, isfinite
from typing import Literal

Level = Literal["reliable", "caution", "unreliable"]
LEVELS: tuple[Level, ...] = ("reliable", "caution", "unreliable")
COEFFICIENTS: dict[str, float] = json.loads(
    resources.files(__package__).joinpath("coefficients.json").read_text(encoding="utf-8")
)["coefficients"]
"""By which the biases of each kind are multiplied; 1 where none was fitted. The file says how they were found."""
CARRIES = 0.99
"""The share of S² from which biases are a reason for caution: the interval is then ten times as wide as noise alone
asks for. On 512 generated tasks 95 % of intervals with smaller shares hold the truth, 15 of 16 of the others."""


@dataclass(frozen=True)
class Rule:
    """A kind of doubt.

    Small numbers are bad where the first threshold is the larger one, otherwise large ones are.
    """

    code: str
    sentence: str
    """"{}" stands for the number."""
    advice: str
    """"{more}" stands for the number of further episodes with which the first threshold would be passed."""
    caution: float = float("inf")
    """The number from which the verdict is "caution" whatever the error is; infinite where only the bias is judged."""
    unreliable: float = float("inf")
    """The number from which it is "unreliable"."""

    def judge(self, number: float) -> int:
        """0, 1 or 2: the place in `LEVELS`."""
        sign = 1 if self.caution > self.unreliable else -1
        if not sign * number >= sign * self.unreliable:
            return 2
        return int(not sign * number >= sign * self.caution)

    def of(
        self, number: float | None, episodes: int = 0, bias: float | None = None, sentence: str | None = None
    ) -> Doubts:
        """The doubt about a number; none where the number is not known.

        Args:
            number: what is judged.
            episodes: of the log, with which the number grows, where the advice says how many more are needed.
            bias: how far the value may be off for this reason, in units of the value.
            sentence: in place of the rule's own, with the number in place of "{}".
        """
        if number is None:
            return ()
        more = ceil(episodes * (self.caution / number - 1)) if number > 0 and isfinite(self.caution) else "many"
        text = (self.sentence if sentence is None else sentence).format(number)
        return (Doubt(self.code, float(number), bias, text, self.advice.format(more=more)),)

    def suspects(self, bias: float | None, sentence: str | None = None) -> Doubts:
        """The doubt that is a bias alone; none where that is not known."""
        return self.of(bias, bias=bias, sentence=sentence)


@dataclass(frozen=True)
class Doubt:
    """One reason why an estimate may be wrong, complete as soon as it is found."""

    code: str
    """Its kind in `RULES`; a remark that an estimator makes of its own has its sentence instead."""
    size: float
    """The number that is judged."""
    bias: float | None
    """How far the value may be off for this reason, in units of the value, before its coefficient; None: not known."""
    sentence: str
    advice: str
    """What a user can do about it; may be empty."""

    @property
    def rule(self) -> Rule | None:
        """Its kind; None for a remark."""
        return BY_CODE.get(self.code)

    @property
    def level(self) -> int:
        """The verdict that its number asks for, as a place in `LEVELS`. A remark asks for caution."""
        return 1 if self.rule is None else self.rule.judge(self.size)

    @property
    def error(self) -> float:
        """c·b: what it adds to the error, as a standard error would."""
        return 0.0 if not self.bias else COEFFICIENTS.get(self.code, 1.0) * self.bias


Doubts = tuple[Doubt, ...]

NEARER = "log episodes of the target, or of a policy nearer to it"
MORE = "log {more} more episodes of this kind"
COMPLETE = "add what is missing to the observations, such as the previous observation and action, or finer bins"
COMPARE = "compare with an estimator of another kind, such as fqe or model"

HIDDEN_CAUSES = Rule(
    "hidden_causes",
    "the log's policy acted by something that was not logged and that moves rewards or next states: earlier actions "
    "of an episode predict {:.1%} of how the present one varies in its state, and what follows from it",
    "log what the behaviour knew, or bound what it can do with a sensitivity analysis",
    0.0,
    0.0,
)
"""A share of the variance of actions; the test has its own threshold. How far the value is off cannot be known."""
LEARNT = Rule(
    "learnt",
    "the target seems to be learnt from this log: it takes what had good luck here, and its value is too high",
    "keep a part of the log apart from learning, and evaluate on that",
    2.0,
    2.5,
)
"""Errors, see `ope_vpm.ope.finite.learnt`. On 120 logs of made-up tasks 32 of 37 reliable answers about targets that
were learnt from the log missed the truth beyond 2.5; of 576 targets that never saw theirs none had 2 (note 035)."""
SUPPORT = Rule("support", "the log says nothing about {:.0%} of the target's steps", NEARER, 0.2, 0.4)
"""A share of the target's steps: actions unlike logged ones, states far from logged ones, products of ratios that are
missing. On 300 generated tasks reliable answers are as right with thresholds from 0.1 and 0.3 to 0.3 and 0.5."""
FEW = Rule("few", "the value rests on few episodes, worth {:.1f}: their spread is hardly known", MORE, 10, 3)
"""Episodes of equal weight; with ten their spread is known to a quarter, with three it is hardly known at all."""
PAST = Rule(
    "past",
    "what went before predicts what follows, beyond observation and action: observations come late, a speed is "
    "missing, or they are bins",
    COMPLETE,
    0.01,
)
"""The share of the variance of outcomes that the past predicts, beyond what noise explains; bins 0.01 to 0.1."""
PLACEBO = Rule(
    "placebo",
    "the value of the log's own policy, which its episodes tell, is not found again by following states",
    COMPLETE,
    0.0,
)
"""The distance beyond its noise, in units of the value; 0 where noise may be the reason."""
FITTED = Rule(
    "fitted",
    "the solution has as many degrees of freedom as {:.0%} of its rows, and depends on which features it has",
    "log more episodes, or leave out coordinates of the state that do not matter",
)
"""Degrees of freedom over rows; the bias is their root times the spread of the value over halves of the features."""
MISSED = Rule("missed", "outcomes depend on state and action in ways that the features miss", COMPARE)
"""The mean Bellman residual over the target's steps, by other functions of state and action."""
UNSEEN = Rule(
    "unseen",
    "{:.0%} of the target's steps are with pairs that were never logged, and their values are predictions",
    NEARER,
    0.3,
    0.97,
)
"""The share of the target's steps, finite states; how far the predictions may be off is a bias."""
RIDGE = Rule("ridge", "the value depends on how strongly the solution is held to the log's own policy", NEARER)
"""The change of the value at a ridge ten times larger."""
DISAGREEMENT = Rule("disagreement", "another way to solve the same equations gives another value", COMPARE)
"""How much of the distance from another opinion that is as good may be an error."""

RULES = (HIDDEN_CAUSES, LEARNT, SUPPORT, FEW, FITTED, PLACEBO, PAST, MISSED, UNSEEN, RIDGE, DISAGREEMENT)
"""In the order in which equally bad reasons are told."""
BY_CODE = {rule.code: rule for rule in RULES}
PLACE = {rule.code: place for place, rule in enumerate(RULES)}


def remarks(sentences: Iterable[str], advice: str = "") -> Doubts:
    """Reasons for caution that are somebody's own, without a rule."""
    return tuple(Doubt(sentence, 1.0, None, sentence, advice) for sentence in sentences)


def among(doubts: Doubts, *rules: Rule) -> Doubts:
    """Those of some kinds."""
    codes = {rule.code for rule in rules}
    return tuple(doubt for doubt in doubts if doubt.code in codes)


def remarks_among(doubts: Doubts) -> Doubts:
    """Those without a rule."""
    return tuple(doubt for doubt in doubts if doubt.rule is None)


def joined(*groups: Doubts) -> Doubts:
    """The union of the doubts of several estimates; of two of one kind the worse number and the larger bias."""
    kept: dict[str, Doubt] = {}
    for doubt in (each for group in groups for each in group):
        before = kept.get(doubt.code)
        kept[doubt.code] = doubt if before is None else _worse(before, doubt)
    return tuple(kept.values())


def _worse(one: Doubt, other: Doubt) -> Doubt:
    biases = [each.bias for each in (one, other) if each.bias is not None]
    small = one.rule is not None and one.rule.caution > one.rule.unreliable
    worse = min(one, other, key=lambda each: each.size) if small else max(one, other, key=lambda each: each.size)
    return replace(worse, bias=max(biases, default=None))


def scaled(doubts: Doubts, factor: float) -> Doubts:
    """These doubts about a multiple of the value: biases are multiplied."""
    return tuple(each if each.bias is None else replace(each, bias=factor * each.bias) for each in doubts)


def suspected_bias(doubts: Doubts) -> float:
    """√Σ(c·b)², as large as one standard error would be."""
    return hypot(*(doubt.error for doubt in doubts))


@dataclass(frozen=True)
class Noise:
    """What suspected biases are compared with."""

    error: float
    """The standard error by noise alone."""
    negligible: float = 0.0
    """Smaller biases do not matter: a size that does not vanish with the number of episodes, as the error does."""


def judge(doubts: Doubts, noise: Noise | None = None) -> tuple[Level, tuple[str, ...]]:
    """The verdict and its reasons, worst first.

    Args:
        doubts: about the estimate.
        noise: None where it is not known, and biases are not judged.
    """
    found = _worst_first(doubts, noise)
    level = max((level for level, _ in found), default=0)
    return LEVELS[level], tuple(doubt.sentence for _, doubt in found)


def advise(doubts: Doubts, noise: Noise | None = None) -> tuple[str, ...]:
    """What would make the answer more reliable, most needed first; arguments as in `judge`."""
    return tuple(dict.fromkeys(doubt.advice for _, doubt in _worst_first(doubts, noise) if doubt.advice))


def _worst_first(doubts: Doubts, noise: Noise | None) -> list[tuple[int, Doubt]]:
    """The doubts that ask for caution or more, each with its level: by level, then by what they add to the error.

    Where biases together carry a share of S² that asks for caution, the largest of them is named.
    """
    bias = suspected_bias(doubts)
    widened = noise is not None and bias > noise.negligible and bias**2 > CARRIES * (bias**2 + noise.error**2)
    largest = max((doubt.error for doubt in doubts), default=0.0)

    def level(doubt: Doubt) -> int:
        carries = widened and 2 * doubt.error >= largest
        return max(doubt.level, int(carries))

    found = [(level(doubt), doubt) for doubt in doubts if level(doubt)]
    return sorted(found, key=lambda pair: (-pair[0], PLACE.get(pair[1].code, len(RULES)), -pair[1].error))
