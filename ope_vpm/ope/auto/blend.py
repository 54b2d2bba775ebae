"""Estimates of one value, combined for the least squared error that their own influence functions foresee.

Ω is their covariance over episodes. One of them, the anchor, is taken as unbiased; another one's squared bias is what
its squared distance from the anchor exceeds the variance of that distance by, or some times that variance for one that
is likely to be right. The weights x ≥ 0 with Σx = 1 have the least x'(Ω + bb')x. As OPERA (Nie et al. 2024) combines by
bootstrapped errors, without bootstrapping anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ope_vpm.arrays import Floats
from ope_vpm.ope.inference.uncertainty import EpisodeSums

HEAVY = 1e4
"""How much Σx = 1 weighs beside an error of one standard deviation."""


@dataclass(frozen=True)
class Blend:
    """Weights of several estimates."""

    weights: Floats
    value: float
    sums: EpisodeSums
    bias: float
    """How far the blend lies from the anchor."""


def blend(values: Sequence[float], sums: Sequence[EpisodeSums], trust: float = 1.0) -> Blend:
    """Weigh estimates, the first of which is the anchor.

    Args:
        values: of each estimate.
        sums: how each episode moves them.
        trust: how many variances of its distance from the anchor an estimate's squared distance may have for free.
    """
    value, influence = np.array(values), np.stack([each.influence for each in sums], axis=1)
    distance = value - value[0]
    apart = np.sum((influence - influence[:, [0]]) ** 2, axis=0)
    bias = np.sign(distance) * np.sqrt(np.maximum(distance**2 - trust * apart, 0))
    weights = least_on_simplex(influence.T @ influence + np.outer(bias, bias), 0)
    parts = [each.scaled(float(weight)) for each, weight in zip(sums, weights, strict=True)]
    mixed = EpisodeSums(np.hstack([part.numerator for part in parts]), np.hstack([part.denominator for part in parts]))
    return Blend(weights, float(weights @ value), mixed, abs(float(weights @ distance)))


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
