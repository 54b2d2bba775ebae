"""Finite chains with known answers."""

from __future__ import annotations

import numpy as np

import ope_vpm as ov


def random_kernel(states: int, rng: np.random.Generator) -> np.ndarray:
    """A sparse ergodic kernel: a few random successors, a cycle that connects all, and rest at home."""
    kernel = np.zeros((states, states))
    for state in range(states):
        targets = rng.integers(states, size=4)
        np.add.at(kernel[state], targets, rng.dirichlet(np.ones(4)) * 0.7)
    kernel[np.arange(states), (np.arange(states) + 1) % states] += 0.2
    kernel[np.arange(states), np.arange(states)] += 0.1
    return kernel


def sample(kernel: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One successor for each x."""
    uniform = rng.uniform(size=len(x))
    return np.minimum((uniform[:, None] > np.cumsum(kernel, axis=1)[x]).sum(axis=1), len(kernel) - 1)


def counted(pairs: ov.Transitions, states: int) -> np.ndarray:
    """The counted kernel, as a dense matrix."""
    counts = np.zeros((states, states))
    np.add.at(counts, (pairs.x, pairs.x_next), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def eigenvector_distribution(kernel: np.ndarray) -> np.ndarray:
    """Return the stationary distribution by dense linear algebra: μ(I - 𝒯) = 0, Σμ = 1."""
    states = len(kernel)
    system = np.vstack([(np.eye(states) - kernel).T, np.ones(states)])
    return np.linalg.lstsq(system, np.append(np.zeros(states), 1), rcond=None)[0]


def everywhere(states: int, per_state: int, rng: np.random.Generator) -> tuple[np.ndarray, ov.Transitions]:
    """A random chain observed `per_state` times from each state."""
    kernel = random_kernel(states, rng)
    x = np.repeat(np.arange(states), per_state)
    return kernel, ov.Transitions(x, sample(kernel, x, rng), x_initial=np.arange(min(states, 3)))
