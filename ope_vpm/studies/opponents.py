"""What VPM is compared with on finite states: the transition matrix, counted and then propagated."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.chain.transitions import Transitions


def counted_matrix(transitions: Transitions, size: int) -> Floats:
    """Row-stochastic estimates of 𝒯(x'|x); a state never left restarts from where the data starts."""
    counts = np.zeros((size, size))
    np.add.at(counts, (transitions.x, transitions.x_next), 1.0)
    times = counts.sum(axis=1, keepdims=True)
    start = np.bincount(transitions.x, minlength=size) / len(transitions)
    return np.where(times > 0, counts / np.maximum(times, 1), start)


def simulated_law(transitions: Transitions, size: int, steps: int, seed: int) -> Floats:
    """The paper's model-based estimate: visits along one simulated trajectory."""
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(counted_matrix(transitions, size), axis=1)
    state = int(rng.choice(transitions.x))
    visits = np.zeros(size)
    for chance in rng.uniform(size=steps):
        state = min(int(np.searchsorted(cumulative[state], chance, side="right")), size - 1)
        visits[state] += 1
    return visits / steps


def propagated_law(transitions: Transitions, size: int) -> Floats:
    """The strong model-based estimate: the data's own law, propagated 2⁴⁰ steps exactly."""
    kernel = (counted_matrix(transitions, size) + np.eye(size)) / 2  # lazy: no period, the same law
    for _ in range(40):
        kernel = kernel @ kernel
        kernel /= kernel.sum(axis=1, keepdims=True)
    law: Floats = np.bincount(transitions.x, minlength=size) / len(transitions) @ kernel
    return law
