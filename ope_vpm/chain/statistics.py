"""Sufficient statistics of a linear class of ratios: one streaming pass over the transitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve

from ope_vpm.arrays import Floats, chunks
from ope_vpm.chain.features import Features
from ope_vpm.chain.transitions import Transitions

CHUNK_ROWS = 4096
"""Rows a pass holds as features at once: enough for the matrix product, few enough for the cache."""
JITTER = 1e-10
"""Added to each feature's mean square, of which it is a share: repeated features stay solvable."""


@dataclass(frozen=True)
class Statistics:
    """All that the solver needs to know of some rows; sums, so that they add up."""

    gram: Floats
    """Σ w φ(x)φ(x)ᵀ; the first feature is 1, so its first entry is Σ w."""
    cross: Floats
    """Σ w φ(x)φ(x')ᵀ, φ(x') averaged over a row's successors."""

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.gram + other.gram, self.cross + other.cross)

    def over(self, rows: float) -> Statistics:
        """Divided by a number of rows: means instead of sums."""
        return Statistics(self.gram / rows, self.cross / rows)


def collect(transitions: Transitions, features: Features, where_positive: Floats | None = None) -> Statistics:
    """Means over all rows, in one pass; with β = `where_positive`, only rows with βᵀφ(x) > 0 add to them."""
    total: Statistics | None = None
    for rows in chunks(len(transitions), CHUNK_ROWS, of=(transitions.x, transitions.x_next)):
        here = features(transitions.x[rows])
        weight = None if transitions.weight is None else transitions.weight[rows]
        kept = slice(None) if where_positive is None else np.flatnonzero(here @ where_positive > 0)
        there = next_features(transitions, features, rows)
        part = statistics(here[kept], there[kept], None if weight is None else weight[kept])
        total = part if total is None else total + part
    assert total is not None
    return total.over(len(transitions) if transitions.weight is None else float(transitions.weight.sum()))


def statistics(here: Floats, there: Floats, weight: Floats | None) -> Statistics:
    """Sums over rows whose features are given."""
    weighted = here if weight is None else here * weight[:, None]
    return Statistics(weighted.T @ here, weighted.T @ there)


def next_features(transitions: Transitions, features: Features, rows: slice) -> Floats:
    """φ(x') of some rows, averaged over their successors."""
    successors = transitions.x_next[rows]
    if transitions.next_weight is None:
        return features(successors)
    share = transitions.next_weight[rows]
    total = share[:, :1] * features(successors[:, 0])
    for k in range(1, share.shape[1]):
        total += share[:, k : k + 1] * features(successors[:, k])
    return total


def initial_features(transitions: Transitions, features: Features) -> Floats:
    """E₀[φ]; zero where there are no initial states, which γ = 1 does not need."""
    if transitions.x_initial is None:
        return np.zeros_like(features(transitions.x[:1])[0])
    weight = transitions.initial_weights
    parts = [weight[rows] @ features(transitions.x_initial[rows]) for rows in chunks(len(weight), CHUNK_ROWS)]
    mean: Floats = np.sum(parts, axis=0) / len(weight)
    return mean


def solve_gram(gram: Floats, penalty: Floats, source: Floats) -> Floats:
    """(gram + diag(penalty))⁻¹ source, in units in which every feature has mean square 1: sizes then do no harm."""
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = gram / size[:, None] / size + np.diag(penalty / size**2 + JITTER)
    solution: Floats = (solve(scaled, (source.T / size).T, assume_a="pos").T / size).T
    return solution
