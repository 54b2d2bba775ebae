"""Can the number be trusted? Rules on an estimator's evidence, each with a reason in words; what the rewards allow."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from ope_vpm.ope.adapter.ends import limit_of
from ope_vpm.ope.inference.uncertainty import Interval
from ope_vpm.ope.problem import Problem

Level = Literal["reliable", "caution", "unreliable"]
LEVELS: tuple[Level, ...] = ("reliable", "caution", "unreliable")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What an estimator knows of its own reliability; None: it does not know, and the rule is passed over."""

    effective_rows: float | None = None
    """Kish's effective sample size of the row weights."""
    rows: int | None = None
    effective_episodes: float | None = None
    """The same over the episodes' summed weights."""
    overlap: float | None = None
    """E_b[π/b] as estimated: 1 where the log holds every action that the target takes, 0 where it holds none."""
    held_actions: float | None = None
    """The share of the target's continuous actions that are as likely as all but 1 % of the logged ones, where it has
    densities."""
    mean_ratio: float | None = None
    """E_p[τ] before it was scaled to 1."""
    residual: float | None = None
    """The stationarity residual."""
    residual_noise: float | None = None
    """The residual that sampling noise alone would leave."""
    unseen_mass: float | None = None
    """The share of the target's steps that lead where there are no data."""
    unlogged: float | None = None
    """The share of the discounted time that lies beyond the steps at which episodes were cut, where nothing but the
    logged steps says what it pays."""
    predicted_mass: float | None = None
    """The same where values are predicted for such steps, and how far these may be off is part of the error."""
    negative_mass: float | None = None
    """The share of negative weights in Σ|τ|."""
    disagreement: float | None = None
    """How far another way to solve the same equations lies, in standard errors."""
    residual_correlation: float | None = None
    """|ρ| of the Bellman residuals of successive steps: 0 where observations are states and Q is right."""
    past_action: float | None = None
    """On continuous states, the share of the variance of Bellman residuals that the action before foretells, alone or
    together with the present one: 0 where observations are states."""
    history: float | None = None
    """On finite states, the share of the variance of r + γV(s') that the step before foretells beyond the pair (s, a):
    0 where observations are states."""
    hidden_causes: float | None = None
    """The share of the variance of actions, given the state, that a hidden cause of rewards explains: 0 where the log
    holds all that its policy acted by. See `ope_vpm.ope.behaviour.hidden_causes`."""
    departure: float | None = None
    """The share of the target's steps that lie far from every logged state, followed in a learned model."""
    unfamiliar: float | None = None
    """The share of logged states in which a learned model is less certain about the target's action than usual."""
    ridge: float | None = None
    """The ridge that the data chose for a solution linear in features, in units of the features' mean squares."""
    leverage: float | None = None
    """The degrees of freedom of a solution linear in features, as a share of the rows that it was fitted to."""
    relative_error: float | None = None
    """The standard error, suspected bias included, in units of the logged mean's."""
    return_error: float | None = None
    """The same of the return of an episode, where episodes have several lengths: the value per step is the return over
    the length, and weights that do not know the one hardly know the other."""
    counted_error: float | None = None
    """The same on finite states, where solutions of counts are less certain than the logged mean if all is well."""
    rare_reward_episodes: float | None = None
    """The effective number of episodes with other rewards than the commonest, where these are few."""
    rate_error: float | None = None
    """The standard error of the rate of ends in units of the rate, where a return divides by it."""
    remarks: tuple[str, ...] = ()
    """Reasons for caution that are the estimator's own."""


@dataclass(frozen=True)
class Rule:
    """Where a number begins to be doubtful, and where it says that the estimate means little."""

    name: str
    caution: float
    unreliable: float
    reason: str
    low_is_bad: bool = True
    help: str = ""
    """What a user can do about it; "{more}" stands for the number of episodes that would mend it."""

    def judge(self, number: float) -> int:
        """0, 1 or 2: the place in `LEVELS`."""
        sign = 1 if self.low_is_bad else -1
        if not sign * number >= sign * self.unreliable:
            return 2
        return int(not sign * number >= sign * self.caution)

    def advice(self, number: float, episodes: int) -> str:
        """What a user can do about a number that is so low in a log of so many episodes, with which it grows."""
        if "{more}" not in self.help:
            return self.help
        return self.help.format(more=ceil(episodes * (self.caution / number - 1)) if number > 0 else "many")


LEAST_HELD = 0.9
"""Of the target's actions, below which those that are like no logged ones may change the value: ten times as many as of
the behaviour's own."""
NEARER = "log episodes of the target, or of a policy nearer to it"
MORE = "log {more} more episodes of this kind"
MORE_ROWS = "log more episodes, or leave out coordinates of the state that do not matter"
NEARER_OR_MORE = f"{NEARER}, or {{more}} more of this kind"
COMPLETE = "add what is missing to the observations, such as the previous observation and action, or finer bins"
COMPARE = "compare with an estimator of another kind, such as fqe or model"

RULES = (
    Rule("episodes", 10, 3, "few episodes ({0:.0f}) say little about how they differ", help=MORE),
    Rule("overlap", 0.8, 0.3, "the log holds {0:.0%} of what the target does (1 where the two overlap)", help=NEARER),
    # The target itself holds 0.99 of its actions. On logs of 50 episodes without a fall a HopperBullet with twice the
    # variance holds 0.88, falls often, and was "reliable" and 5 floors too high; Pendulum's holds 0.94 and was right.
    Rule(
        "held_actions",
        LEAST_HELD,
        0.7,
        "{0:.0%} of the target's actions are like logged ones: what the others lead to was not logged",
        help=NEARER,
    ),
    Rule("effective_rows", 100, 30, "the weighted log is worth {0:.0f} rows of equal weight", help=NEARER),
    Rule("effective_share", 0.05, 0.01, "the weighted log is worth {0:.1%} of its rows", help=NEARER),
    Rule("effective_episodes", 10, 3, "the weighted log is worth {0:.1f} episodes", help=NEARER_OR_MORE),
    Rule("mean_ratio_error", 0.1, 0.5, "the ratio's mean is off 1 by {0:.2f}", low_is_bad=False, help=COMPARE),
    Rule(
        "residual",
        0.05,
        0.2,
        "the distribution found is not stationary: residual {0:.2g} beyond its noise",
        low_is_bad=False,
        help=COMPARE,
    ),
    Rule(
        "unseen_mass",
        0.05,
        0.2,
        "{0:.0%} of the target's steps lead where there are no data",
        low_is_bad=False,
        help="log the actions that the target takes, in the states that it visits",
    ),
    # As for steps without data, which they are. On the linear-Gaussian system cut after 5 to 50 steps, 75 of 90
    # "reliable" intervals of wist and wiss with shares of 0.35 to 0.95 missed (seeds 100 to 104).
    Rule(
        "unlogged",
        0.05,
        0.2,
        "{0:.0%} of the discounted weight lies beyond the steps at which episodes were cut",
        low_is_bad=False,
        help="log longer episodes, take a smaller gamma, or an estimator that follows states, such as auto",
    ),
    Rule(
        "predicted_mass",
        0.5,
        0.97,
        "{0:.0%} of the target's steps are with pairs that were never logged, and their values are predictions",
        low_is_bad=False,
        help="log the actions that the target takes, in the states that it visits",
    ),
    Rule("negative_mass", 0.25, 0.4, "{0:.0%} of the weights are negative", low_is_bad=False, help=COMPARE),
    # A mass whose speed is not observed had 0.66 to 0.84 (0.33 to 0.77 from actions that move it far), Pendulum,
    # Acrobot, CartPole and Hopper up to 0.21, made-up tasks with complete states up to 0.42 where the ratio was poor.
    Rule(
        "residual_correlation",
        0.5,
        0.9,
        "errors of one step foretell those of the next (correlation {0:.2f}): the future depends on more than the "
        "observation holds, such as a speed or what went before",
        low_is_bad=False,
        help=COMPLETE,
    ),
    # Linear systems whose observations come a step late had 0.4 to 0.7, Pendulum, Acrobot and CartPole 0.03 to 0.25; as
    # they are, noise explains what there is (30 logs).
    Rule(
        "past_action",
        0.02,
        0.3,
        "the action before foretells {0:.1%} of how outcomes vary, beyond observation and action: observations come "
        "late, doing the same again pays, or they do not hold all that the future depends on",
        low_is_bad=False,
        help=COMPLETE,
    ),
    # Bins of a continuous state had 0.02 to 0.1, and errors of 2 to 9 standard errors; wherever states are states,
    # noise explains what there is, and the share counts as 0.
    Rule(
        "history",
        0.01,
        0.3,
        "the step before foretells {0:.1%} of how outcomes vary, beyond state and action: what was logged as states "
        "does not hold all that the future depends on, as bins of a continuous state do not",
        low_is_bad=False,
        help=COMPLETE,
    ),
    # Both thresholds are 0: the test has its own, and how far the value is off cannot be known from such a log. On the
    # sepsis simulator of Oberst and Sontag with glucose and diabetes hidden 0.31 [0.29, 0.32] was reliable, truth 0.01.
    # Of 74 ordinary logs (random MDPs, Taxi, a linear system, CartPole, Pendulum, Acrobot, FrozenLake, mixtures of two
    # policies among them) none is called so.
    Rule(
        "hidden_causes",
        0.0,
        0.0,
        "the log's policy acted by something that was not logged and that moves rewards or next states: earlier actions "
        "of an episode predict {0:.1%} of how the present one varies in its state, and what follows from it",
        low_is_bad=False,
        help="log what the behaviour knew, or bound what it can do with a sensitivity analysis",
    ),
    Rule(
        "departure",
        0.1,
        0.3,
        "the target leaves the logged states: in a model of the log, {0:.0%} of its steps lie far from all of them",
        low_is_bad=False,
        help=NEARER,
    ),
    Rule(
        "unfamiliar",
        0.1,
        0.3,
        "in {0:.0%} of the logged states the target does what the log hardly did there, and a model of the log guesses",
        low_is_bad=False,
        help=NEARER,
    ),
    # What a ridge leaves out shows neither in the standard error nor in what a larger one would change. Of 16 answers
    # at 0.03 and 0.1, the end of the grid, that no other rule called unreliable on tasks that nothing had been chosen
    # on, 13 missed the truth, all by about 8 on-policy errors or more.
    Rule(
        "ridge",
        0.015,
        0.025,
        "only a strong ridge ({0:.2g} of the features' mean squares) keeps the solution steady, and it takes the "
        "target for nearly the same as the log's own policy",
        low_is_bad=False,
        help=NEARER,
    ),
    # Residuals of rows that are fitted are too small, and where nearly all rows are fitted there are none. Of 18 logs
    # of 600 rows of 200 coordinates vpm called 6 reliable, and 4 of them missed; these have 0.35 to 1. Ten logs of five
    # wild tasks, 50 episodes each, have 0.003 to 0.16.
    Rule(
        "leverage",
        0.3,
        0.9,
        "the solution has as many degrees of freedom as {0:.0%} of its rows, so that its errors are hardly known: more "
        "episodes, or fewer coordinates of the state, would help most",
        low_is_bad=False,
        help=MORE_ROWS,
    ),
    Rule(
        "relative_error",
        3.5,
        5.0,
        "the value is {0:.1f} times less certain than the logged mean: episodes of the target, or of a policy "
        "nearer to it, would help most",
        low_is_bad=False,
        help=NEARER,
    ),
    Rule(
        "return_error",
        3.5,
        5.0,
        "the return of an episode is {0:.1f} times less certain than the logged one, and the value per step rests on "
        "the same weights",
        low_is_bad=False,
        help=NEARER,
    ),
    Rule(
        "counted_error",
        4.0,
        8.0,
        "the value is {0:.1f} times less certain than the logged mean: episodes of the target, or of a policy "
        "nearer to it, would help most",
        low_is_bad=False,
        help=NEARER,
    ),
    Rule(
        "rare_reward_episodes",
        10,
        3,
        "the rewards that make the difference occur in few episodes, worth {0:.1f}: more episodes would help",
        help=MORE,
    ),
    # Beyond 0.3 1/e is no longer nearly linear in the rate e within two standard errors, and beyond 0.5 these hold a
    # rate of 0, so that the return has no upper end. In 5000 logs of 30 to 300 episodes, cut after 20 steps, in which
    # 1.5 to 30 end, returns are off by 0.15 to 0.25 of themselves below 0.3, by 0.54 between 0.5 and 0.6 and by 1.6
    # above 0.8 (root mean squares).
    Rule(
        "rate_error",
        0.3,
        0.5,
        "how often the target reaches an end is known to ±{0:.0%} only",
        low_is_bad=False,
        help="log more episodes that end",
    ),
    Rule(
        "disagreement",
        2.0,
        5.0,
        "another way to solve the same equations lies {0:.1f} standard errors away",
        low_is_bad=False,
        help=COMPARE,
    ),
)
"""The thresholds, as docs/evaluation.md explains them."""


def judge(evidence: Evidence, episodes: int, warnings: tuple[str, ...]) -> tuple[Level, tuple[str, ...]]:
    """The verdict and its reasons, worst first; the doctor's `warnings` ask for caution."""
    found = [(level, rule.reason.format(number)) for level, rule, number in _broken(evidence, episodes)]
    found += [(1, remark) for remark in (*evidence.remarks, *warnings)]
    found.sort(key=lambda item: -item[0])
    worst = found[0][0] if found else 0
    return LEVELS[worst], tuple(reason for _, reason in found)


def advise(evidence: Evidence, episodes: int, warnings: tuple[str, ...]) -> tuple[str, ...]:
    """What would make the answer more reliable, most needed first; arguments as in `judge`."""
    broken = sorted(_broken(evidence, episodes), key=lambda item: -item[0])
    looked = ("look at what `ope-vpm inspect` finds in the data",) if warnings else ()
    return tuple(dict.fromkeys([*(rule.advice(number, episodes) for _, rule, number in broken), *looked]))


def _broken(evidence: Evidence, episodes: int) -> list[tuple[int, Rule, float]]:
    """The rules that ask for caution (1) or more (2), with the numbers that they judged."""
    numbers = [(rule, _number(rule.name, evidence, episodes)) for rule in RULES]
    judged = [(rule.judge(number), rule, number) for rule, number in numbers if number is not None]
    return [(level, rule, number) for level, rule, number in judged if level]


def _number(name: str, evidence: Evidence, episodes: int) -> float | None:
    if name == "episodes":
        return episodes
    if name == "effective_share":
        return evidence.effective_rows / evidence.rows if evidence.effective_rows and evidence.rows else None
    if name == "mean_ratio_error":
        return None if evidence.mean_ratio is None else abs(evidence.mean_ratio - 1)
    if name == "residual":
        if evidence.residual is None:
            return None
        return max(0.0, evidence.residual - 3 * (evidence.residual_noise or 0.0))
    number: float | None = getattr(evidence, name)
    return number


ROUNDING = 1e-9
"""Of the largest reward: differences below it are rounding errors, which iterative solvers leave at about 1e-12."""


@dataclass(frozen=True)
class Hull:
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
        """The part of an interval that is possible; everything possible, where the interval holds nothing of it."""
        if self.beyond(interval):
            return self.low, self.high
        low, high = (float(np.clip(end, self.low, self.high)) for end in interval)
        return low, high


def rewards_hull(problem: Problem, unlogged_ends: bool = False) -> Hull:
    """The hull of the logged rewards, and of 0 where episodes end for good: a mean over time cannot leave it.

    Args:
        problem: the question.
        unlogged_ends: whether the target may end the task for good where no logged episode has: a target that goes
            where nobody logged may.
    """
    rewards = problem.data.reward_facts
    ends = [0.0] if problem.on_end == "absorb" and (unlogged_ends or problem.ends.any()) else []
    return Hull(min([rewards.least, *ends]), max([rewards.largest, *ends]))


def return_hull(problem: Problem) -> Hull:
    """The least and the largest return of an episode.

    Where only ends pay, as for a probability of survival, it is the hull of what they pay and of 0. Otherwise an
    episode has at least one step, and at most as many as a time limit that is part of the task leaves it.
    """
    data, rewards, ends = problem.data, problem.data.reward_facts, problem.ends
    if not (rewards.inner or rewards.last[~ends].any()):
        paid = rewards.last[ends]
        return Hull(float(paid.min(initial=0.0)), float(paid.max(initial=0.0)))
    limit = limit_of(data) if problem.time_limit == "restart" else None
    longest = np.inf if limit is None else float(limit)
    least, largest = rewards.least, rewards.largest
    return Hull(least * longest if least < 0 else least, largest * longest if largest > 0 else largest)
