"""Estimates of one value, combined for the least squared error that their own influence functions foresee.

Ω is their covariance over episodes. One of them, the anchor, is taken as unbiased; another one's squared bias is what
its squared distance from the anchor exceeds the variance of that distance by. The weights x ≥ 0 with Σx = 1 have the
least x'(Ω + bb')x. As OPERA (Nie et al. 2024) combines by bootstrapped errors, without bootstrapping anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ope_vpm.logged.columns import Floats
from ope_vpm.ope.intervals import EpisodeSums

HEAVY = 1e4
"""How much Σx = 1 weighs beside an error of one standard deviation."""


@dataclass(frozen=True)
class Blend:
    """Weights of several estimates."""

    weights: Floats
    value: float
    bias: float
    """Of the blend, by the estimates' distances from the anchor."""


def blend(values: Floats, influence: Floats, anchor: int) -> Blend:
    """Weigh estimates.

    Args:
        values: of each estimate.
        influence: (episodes, estimates): how each episode moves them.
        anchor: the number of the one that is taken as unbiased.
    """
    covariance = influence.T @ influence
    distance = values - values[anchor]
    apart = np.sum((influence - influence[:, [anchor]]) ** 2, axis=0)
    bias = np.sign(distance) * np.sqrt(np.maximum(distance**2 - apart, 0))
    weights = least_on_simplex(covariance + np.outer(bias, bias), anchor)
    return Blend(weights, float(weights @ values), abs(float(weights @ bias)))


def blended_sums(sums: list[EpisodeSums], weights: Floats) -> EpisodeSums:
    """The sums of Σ x_j v_j."""
    parts = [each.scaled(float(weight)) for each, weight in zip(sums, weights, strict=True)]
    return EpisodeSums(np.hstack([part.numerator for part in parts]), np.hstack([part.denominator for part in parts]))


def least_on_simplex(matrix: Floats, otherwise: int = -1) -> Floats:
    """The x ≥ 0 with Σx = 1 and least x'Mx, M positive semi-definite; all on one of them where M is 0."""
    scale = float(np.trace(matrix)) / len(matrix)
    if not scale > 0:
        alone = np.zeros(len(matrix))
        alone[otherwise] = 1
        return alone
    value, vector = np.linalg.eigh(matrix / scale)
    root = np.sqrt(np.maximum(value, 0))[:, None] * vector.T
    found, _ = nnls(np.vstack([root, np.full(len(matrix), HEAVY)]), np.append(np.zeros(len(matrix)), HEAVY))
    x: Floats = found / found.sum()
    return x
