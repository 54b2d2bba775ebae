"""The DICE family: settings of one regularised Lagrangian, see `saddle`; points in closed form, linear in features.

A ratio that must not be negative is ζ = max(Φz, 0). Where it is positive the equations are those of the others, over
these rows only; so they are solved in turn with finding where that is. Cutting the unconstrained solution at 0 instead
would take mass out of every tail (value off by -0.065 on the linear-Gaussian MDP, against 0.004).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ope_vpm.arrays import Bools, Floats
from ope_vpm.baselines.dice_neural import neural_ratio
from ope_vpm.baselines.linear_family import LinearEstimator, LinearParts, end_mass, weighed
from ope_vpm.baselines.saddle import SETTINGS, Moments, Regularisation, saddle_point
from ope_vpm.ope.inference.estimate import RawEstimate

MOST_ROUNDS = 20
"""Of finding where a ratio that must not be negative is 0."""
MOST_UNSETTLED = 0.01
"""Of the rows, without a word about it."""


@dataclass(frozen=True, kw_only=True)
class _Dice(LinearEstimator):
    """A setting of the regularised Lagrangian, by name."""

    solver: str = "linear"
    """For points: "linear" (closed form) or "neural" (two players with networks, as published)."""
    training_steps: int = 3000
    """Of the networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.solver not in ("linear", "neural"):
            raise ValueError(f"unknown solver {self.solver!r}: known are linear, neural")
        if self.training_steps < 1:
            raise ValueError(f"training_steps must be at least 1: got {self.training_steps}")

    def _points(self, parts: LinearParts) -> RawEstimate:
        problem, terms = parts.rows.problem, SETTINGS[self.name]
        remarks: tuple[str, ...] = ()
        if problem.gamma == 1 and not terms.normalised:
            terms = replace(terms, normalised=True)
            remarks = (f"{self.name} is for γ < 1: at γ = 1 its ratio is 0 unless E[ζ] = 1 is added, as here",)
        if self.solver == "neural":
            by_row = np.zeros(len(problem.data))
            by_row[problem.steps.rows] = neural_ratio(problem, terms, self.training_steps, self.draws)
            zeta = by_row[parts.rows.kept]
        else:
            zeta, unsettled = linear_ratio(parts, terms)
            if unsettled > MOST_UNSETTLED:
                remarks += (f"ζ ≥ 0 did not settle: {unsettled:.0%} of the rows still change sides",)
        _, residual = parts.rows.ratios_and_residuals(parts.theta[:, None], parts.theta[:, None])
        return weighed(parts, zeta, residual[:, 0], remarks)


def linear_ratio(parts: LinearParts, terms: Regularisation) -> tuple[Floats, float]:
    """ζ of the kept rows at the saddle point, and the share of rows of which it is not settled whether ζ is 0."""
    zeta: Floats = np.ones(len(parts.rows.kept))
    whole = gram(parts, zeta)
    for _ in range(MOST_ROUNDS):
        active = zeta > 0
        z, _, _ = saddle_point(moments(parts, active, whole), terms)
        ratio, _ = parts.rows.ratios_and_residuals(parts.theta[:, None], z[:, None])
        zeta = np.maximum(ratio[:, 0], 0) if terms.positive else ratio[:, 0]
        unsettled = float(np.mean((zeta > 0) != active)) if terms.positive else 0.0
        if unsettled == 0:
            break
    return zeta, unsettled


class DualDice(_Dice):
    """DualDICE."""

    name: ClassVar[str] = "dualdice"


class GenDice(_Dice):
    """GenDICE."""

    name: ClassVar[str] = "gendice"


class GradientDice(_Dice):
    """GradientDICE."""

    name: ClassVar[str] = "gradientdice"


class BestDice(_Dice):
    """The regularisation that the authors found best."""

    name: ClassVar[str] = "bestdice"


def gram(parts: LinearParts, counts: Floats) -> Floats:
    """E[φφᵀ] with each row counted so often."""
    total = np.zeros((parts.rows.size, parts.rows.size))
    for part, here, _ in parts.rows.parts():
        total += (counts[part, None] * here).T @ here
    total /= len(counts)
    return total


def moments(parts: LinearParts, active: Bools, whole: Floats) -> Moments:
    """The Lagrangian's means, those of ζ over its `active` rows."""
    rows, gamma = parts.rows, parts.rows.problem.gamma
    size = rows.size
    square, mean, flow, reward = np.zeros((size, size)), np.zeros(size), np.zeros((size, size)), np.zeros(size)
    mass, logged = end_mass(rows), rows.problem.data.rewards[rows.kept]
    rewards = (logged - logged.mean()) / (logged.std() or 1.0)
    for part, here, difference in rows.parts():
        used = here * active[part, None]
        square += used.T @ here
        mean += mass[part] @ used
        reward += rewards[part] @ used
        flow += used.T @ difference
    if gamma == 1:
        flow[:, 0] = 0  # the constant goes nowhere; Δ has 1 in its place
    n = len(rows.kept)
    initial = np.zeros(size) if gamma == 1 else parts.equations.source
    penalty = parts.ridge * np.maximum(parts.equations.scale, 1e-4)
    return Moments(flow / n, square / n, whole, mean / n, reward / n, initial, penalty)
