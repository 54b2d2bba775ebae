"""The model-based opponents of VPM on finite states: a counted transition matrix, simulated or propagated."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.chain.transitions import Transitions


def counted_matrix(transitions: Transitions, size: int) -> Floats:
    """Return the counted estimate of 𝒯(x'|x); from a state without data the chain restarts from the data's states.

    Args:
        transitions: between states 0, …, size - 1.
        size: the number of states.
    """
    counts = np.zeros((size, size))
    np.add.at(counts, (transitions.x, transitions.x_next), 1.0)
    times = counts.sum(axis=1, keepdims=True)
    start = np.bincount(transitions.x, minlength=size) / len(transitions)
    return np.where(times > 0, counts / np.maximum(times, 1), start)


def simulated_distribution(transitions: Transitions, size: int, steps: int, seed: int) -> Floats:
    """Return the paper's model-based estimate: the share of visits to each state along one simulated trajectory.

    Args:
        transitions: between states 0, …, size - 1.
        size: the number of states.
        steps: the length of the trajectory.
        seed: of the simulation.
    """
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(counted_matrix(transitions, size), axis=1)
    state = int(rng.choice(transitions.x))
    visits = np.zeros(size)
    for uniform in rng.uniform(size=steps):
        state = min(int(np.searchsorted(cumulative[state], uniform, side="right")), size - 1)
        visits[state] += 1
    return visits / steps


def propagated_distribution(transitions: Transitions, size: int) -> Floats:
    """Return the strong model-based estimate: the distribution of the data's states after 2⁴⁰ steps of the matrix."""
    # the lazy chain has no period and the same stationary distribution
    kernel = (counted_matrix(transitions, size) + np.eye(size)) / 2
    for _ in range(40):
        kernel = kernel @ kernel
        kernel /= kernel.sum(axis=1, keepdims=True)  # against the growth of rounding errors
    distribution: Floats = np.bincount(transitions.x, minlength=size) / len(transitions) @ kernel
    return distribution
