"""Can the number be trusted? Rules on an estimator's evidence, each with a reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    mean_ratio: float | None = None
    """E_p[τ] before it was scaled to 1."""
    residual: float | None = None
    """The stationarity residual."""
    residual_noise: float | None = None
    """The residual that sampling noise alone would leave."""
    unseen_mass: float | None = None
    """The share of the target's steps that lead where there are no data."""
    negative_mass: float | None = None
    """The share of negative weights in Σ|τ|."""
    disagreement: float | None = None
    """How far another way to solve the same equations lies, in standard errors."""
    relative_error: float | None = None
    """The standard error, suspected bias included, in units of the logged mean's."""
    counted_error: float | None = None
    """The same on finite states, where solutions of counts are less certain than the logged mean if all is well."""
    rare_reward_episodes: float | None = None
    """The effective number of episodes with other rewards than the commonest, where these are few."""
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

    def judge(self, number: float) -> int:
        """0, 1 or 2: the place in `LEVELS`."""
        sign = 1 if self.low_is_bad else -1
        if not sign * number >= sign * self.unreliable:
            return 2
        return int(not sign * number >= sign * self.caution)


RULES = (
    Rule("episodes", 10, 3, "few episodes ({0:.0f}) say little about how they differ"),
    Rule("overlap", 0.8, 0.3, "the log holds {0:.0%} of what the target does (1 where the two overlap)"),
    Rule("effective_rows", 100, 30, "the weighted log is worth {0:.0f} rows of equal weight"),
    Rule("effective_share", 0.05, 0.01, "the weighted log is worth {0:.1%} of its rows"),
    Rule("effective_episodes", 10, 3, "the weighted log is worth {0:.1f} episodes"),
    Rule("mean_ratio_error", 0.1, 0.5, "the ratio's mean is off 1 by {0:.2f}", low_is_bad=False),
    Rule(
        "residual",
        0.05,
        0.2,
        "the distribution found is not stationary: residual {0:.2g} beyond its noise",
        low_is_bad=False,
    ),
    Rule("unseen_mass", 0.05, 0.2, "{0:.0%} of the target's steps lead where there are no data", low_is_bad=False),
    Rule("negative_mass", 0.1, 0.3, "{0:.0%} of the weights are negative", low_is_bad=False),
    Rule(
        "relative_error",
        2.0,
        5.0,
        "the value is {0:.1f} times less certain than the logged mean: episodes of the target, or of a policy "
        "nearer to it, would help most",
        low_is_bad=False,
    ),
    Rule(
        "counted_error",
        4.0,
        8.0,
        "the value is {0:.1f} times less certain than the logged mean: episodes of the target, or of a policy "
        "nearer to it, would help most",
        low_is_bad=False,
    ),
    Rule(
        "rare_reward_episodes",
        10,
        3,
        "the rewards that make the difference occur in few episodes, worth {0:.1f}: more episodes would help",
    ),
    Rule(
        "disagreement",
        2.0,
        5.0,
        "another way to solve the same equations lies {0:.1f} standard errors away",
        low_is_bad=False,
    ),
)
"""The thresholds, as docs/evaluation.md explains them."""


def judge(evidence: Evidence, episodes: int, warnings: tuple[str, ...]) -> tuple[Level, tuple[str, ...]]:
    """The verdict and its reasons, worst first; the doctor's `warnings` ask for caution."""
    found: list[tuple[int, str]] = []
    for rule in RULES:
        number = _number(rule.name, evidence, episodes)
        level = 0 if number is None else rule.judge(number)
        if level:
            found.append((level, rule.reason.format(number)))
    found += [(1, remark) for remark in (*evidence.remarks, *warnings)]
    found.sort(key=lambda item: -item[0])
    worst = found[0][0] if found else 0
    return LEVELS[worst], tuple(reason for _, reason in found)


def _number(name: str, evidence: Evidence, episodes: int) -> float | None:
    if name == "episodes":
        return episodes
    if name == "effective_share":
        known = evidence.effective_rows is not None and evidence.rows
        return evidence.effective_rows / evidence.rows if known and evidence.effective_rows and evidence.rows else None
    if name == "mean_ratio_error":
        return None if evidence.mean_ratio is None else abs(evidence.mean_ratio - 1)
    if name == "residual":
        if evidence.residual is None:
            return None
        return max(0.0, evidence.residual - 3 * (evidence.residual_noise or 0.0))
    number: float | None = getattr(evidence, name)
    return number
