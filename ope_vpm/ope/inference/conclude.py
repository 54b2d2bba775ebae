"""From what an estimator found to a `PolicyValue`: the interval, the verdict, the log's own row order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, effective_sample_size, group_sums
from ope_vpm.ope.inference.intervals import EpisodeSums, percentile_interval
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.inference.verdict import Evidence, judge
from ope_vpm.ope.log import Log
from ope_vpm.ope.problem import Problem

NEGLIGIBLE = 1e-3
"""Of the rewards' deviation: values that lie nearer together do not disagree, however small the standard error."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an estimator found, before anybody asks how sure it is."""

    value: float
    sums: EpisodeSums | None = None
    """What the bootstrap over episodes needs; None where `replicates` are given."""
    replicates: Floats | None = None
    """Values on resampled episodes, or quantiles of their law, where the estimator has its own."""
    standard_error: float | None = None
    """Where it is not the deviation of the replicates."""
    interval: tuple[float, float] | None = None
    """Where the estimator has its own, widened by the bias all the same."""
    weights: Floats | None = None
    """The ratio at each row of the problem's data; scaled to mean 1 here."""
    bias: float = 0.0
    """A suspected bias, as large as one standard error would be."""
    evidence: Evidence = field(default_factory=Evidence)
    diagnostics: dict[str, Any] = field(default_factory=dict)


def conclude(problem: Problem, estimator: str, found: Found) -> PolicyValue:
    """Interval and verdict."""
    episodes = problem.data.n_episodes
    error, interval = _interval(found, problem.log, problem.seed)
    weights = None if found.weights is None else _scaled(found.weights)
    level, reasons = judge(found.evidence, episodes, problem.log.warnings)
    if not np.isfinite(found.value):
        level, reasons = (
            "unreliable",
            ("no value: every weight is zero, the log holds nothing the target does", *reasons),
        )
    elif interval is None:
        reasons = ("one episode gives no interval: it cannot say how episodes differ", *reasons)
    return PolicyValue(
        estimator=estimator,
        value=found.value,
        gamma=problem.gamma,
        standard_error=error,
        interval=interval,
        effective_sample_size=None if weights is None else effective_sample_size(weights),
        verdict=level,
        reasons=reasons,
        diagnostics={"episodes": episodes, "rows": len(problem.data), **_known(found), **found.diagnostics},
        weights=weights,
    )


def evidence_of(problem: Problem, weights: Floats, **known: Any) -> Evidence:
    """What the weights of the data's rows say: how much of the log they use, and how much of them is negative."""
    return Evidence(
        effective_rows=effective_sample_size(np.maximum(weights, 0)),
        rows=len(problem.data),
        effective_episodes=episode_effective_size(problem, weights),
        negative_mass=float(np.maximum(-weights, 0).sum() / max(np.abs(weights).sum(), 1e-300)),
        **known,
    )


def disagreement(problem: Problem, distance: float, error: float) -> float | None:
    """How far another solution lies, in standard errors, or in thousandths of a reward's deviation if that is more."""
    least = float(np.hypot(error, NEGLIGIBLE * problem.data.rewards.std()))
    return distance / least if least > 0 else None


def episode_effective_size(problem: Problem, weights: Floats) -> float:
    """Kish's effective sample size of the episodes' summed weights, as a share of what equal rows would give."""
    data = problem.data
    whole = group_sums(data.episode, np.maximum(weights, 0), data.n_episodes)
    equal = effective_sample_size(data.lengths.astype(np.float64))
    return effective_sample_size(whole) * data.n_episodes / equal


def _interval(found: Found, log: Log, seed: int) -> tuple[float | None, tuple[float, float] | None]:
    episodes = log.data.n_episodes
    if episodes < 2 or not np.isfinite(found.value):
        return None, None
    replicates = found.replicates
    if replicates is None:
        assert found.sums is not None
        replicates = found.sums.in_order(log.episodes).replicates(seed) + (found.value - float(found.sums.ratios.sum()))
    spread = found.standard_error
    if spread is None:
        spread = float(replicates.std() * np.sqrt(episodes / (episodes - 1)))
    error = float(np.hypot(spread, found.bias))
    if found.interval is not None:
        wider = error / spread if spread > 0 else 1.0
        low, high = (found.value + wider * (end - found.value) for end in found.interval)
        return error, (low, high)
    return error, percentile_interval(replicates, found.value, episodes, found.bias)


def _scaled(weights: Floats) -> Floats:
    positive = np.maximum(weights, 0)
    total = positive.sum()
    return positive * (len(positive) / total) if total > 0 else positive


def _known(found: Found) -> dict[str, Any]:
    """The evidence that is there, by name."""
    values = {name: value for name, value in vars(found.evidence).items() if name not in ("rows", "remarks")}
    return {"suspected_bias": found.bias} | {name: value for name, value in values.items() if value is not None}
