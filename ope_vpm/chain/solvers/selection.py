"""Ridge and bandwidth from the data alone: the paper's own objective, on rows that were held out.

All candidates are asked for the same power step, from one reference ratio τ_t; the value of
eq:variational_ratio_power on held-out rows then says which is nearest to 𝒯_p τ_t / p in L₂(p).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Floats
from ope_vpm.chain.features import Features
from ope_vpm.chain.monitor import Monitor
from ope_vpm.chain.nonnegative import Equation, FeatureRows, power_steps
from ope_vpm.chain.statistics import initial_features, solve_gram
from ope_vpm.chain.transitions import Transitions

RIDGES = np.logspace(-6, -1, 6)
ROWS = 10_000
FOLDS = 4
BLOCKS = 200
"""Neighbouring rows share a fold, so that folds of a path are apart; many blocks, so that sorted rows do no harm."""
REFERENCE_RIDGE = 1e-3
REFERENCE_STEPS = 50


def select(
    transitions: Transitions,
    maps: Sequence[Features],
    ridge: float | None,
    gamma: float,
    rng: np.random.Generator,
) -> tuple[int, float, float]:
    """The feature map's number, the ridge, and their held-out objective.

    Args:
        transitions: all rows; at most 10 000 are looked at.
        maps: the candidates; the first one makes the reference ratio.
        ridge: a fixed ridge, or None to choose one.
        gamma: the discount.
        rng: draws the rows.
    """
    part = transitions.sample(ROWS, rng)
    fold = np.arange(len(part)) * min(BLOCKS, len(part)) // len(part) % FOLDS
    ridges = RIDGES if ridge is None else np.array([ridge])
    reference: Floats | None = None
    scores = []
    for features in maps:
        rows = FeatureRows.of(part, features)
        start = features(part.x_initial[:ROWS]) if gamma < 1 and part.x_initial is not None else None
        initial = initial_features(part, features)
        if reference is None:
            reference = _reference(rows, Equation(gamma, initial, _penalty(rows.gram() / len(part), REFERENCE_RIDGE)))
        problem = Problem(rows, fold, reference, gamma, initial, start, part.initial_weights[:ROWS])
        scores.append(_held_out(problem, ridges))
    table = np.array(scores)
    means = table.mean(axis=1)
    best = int(np.argmin(means.min(axis=1)))
    at = _smallest_as_good(table[best])
    return best, float(ridges[at]), float(means[best, at])


def _reference(rows: FeatureRows, equation: Equation) -> Floats:
    gram = rows.gram() / len(rows.here)
    monitor = Monitor("reference", REFERENCE_STEPS)
    beta = power_steps(rows, equation, gram, REFERENCE_STEPS, 1e-4, monitor)
    if monitor.interrupted:
        raise KeyboardInterrupt
    return rows.ratio(beta).astype(np.float64)


@dataclass(frozen=True)
class Problem:
    """One power step that every candidate is asked for, on some rows."""

    rows: FeatureRows
    fold: npt.NDArray[np.intp]
    reference: Floats
    """τ_t at the rows."""
    gamma: float
    initial: Floats
    """E₀[φ]."""
    start: Floats | None
    """φ at initial states, one row each."""
    start_weight: Floats


def _held_out(problem: Problem, ridges: Floats) -> Floats:
    """½E[τ²] - γE[τ_t(x)τ(x')] - (1-γ)E₀[τ] on each fold, τ fitted on the others: shape (folds, ridges)."""
    rows, gamma = problem.rows, problem.gamma
    folds = [problem.fold == k for k in range(FOLDS)]
    grams = [rows.gram(out) for out in folds]
    pull = (rows.weight * problem.reference).astype(np.float32)
    pulls = [(pull[out] @ rows.there[out]).astype(np.float64) for out in folds]
    scores = np.zeros((FOLDS, len(ridges)))
    for score, out, own_gram, own_pull in zip(scores, folds, grams, pulls, strict=True):
        mass = float(rows.weight[~out].sum())
        gram = (sum(grams) - own_gram) / mass
        goal = gamma * (sum(pulls) - own_pull) / mass + (1 - gamma) * problem.initial
        for i, ridge in enumerate(ridges):
            beta = solve_gram(gram, _penalty(gram, ridge), goal)
            score[i] = _objective(problem, out, beta)
    return scores


def _objective(problem: Problem, out: npt.NDArray[np.bool_], beta: Floats) -> float:
    """The objective on held-out rows; where no x is, only its largest value there keeps τ from growing."""
    rows, single = problem.rows, beta.astype(np.float32)
    weight = rows.weight[out]
    tau = np.maximum(rows.here[out] @ single, 0)
    tau_next = np.clip(rows.there[out] @ single, 0, tau.max())
    flow = problem.gamma * np.mean(weight * problem.reference[out] * tau_next)
    if problem.start is not None:
        tau_initial = np.clip(problem.start @ beta, 0, tau.max())
        flow += (1 - problem.gamma) * np.average(tau_initial, weights=problem.start_weight)
    return float(np.mean(weight * tau**2) / 2 - flow)


def _smallest_as_good(scores: Floats) -> int:
    """The smallest ridge within one standard error of the best: for expectations, bias costs more than variance."""
    best = int(np.argmin(scores.mean(axis=0)))
    behind = scores - scores[:, [best]]
    error = behind.std(axis=0, ddof=1) / np.sqrt(FOLDS)
    return int(np.argmax(behind.mean(axis=0) <= error))


def _penalty(gram: Floats, ridge: float) -> Floats:
    penalty = ridge * np.diag(gram)
    penalty[0] = 0
    return penalty
