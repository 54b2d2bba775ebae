"""The floor: the least variance an unbiased estimate of a Taxi policy's value can have from logged trajectories."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Floats
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.envs.taxi import (
    ACTIONS,
    STATES,
    as_table,
    exact_law,
    expected_rewards,
    reset_law,
    target_kernel,
    transition_probabilities,
)
from ope_vpm.policy import TablePolicy

Table = npt.ArrayLike | TablePolicy


def value_function(target: Table, gamma: float) -> Floats:
    """(2000,): V = r + γ𝒯V, or at γ = 1 the h with h = r - v + 𝒯h."""
    table = as_table(target)
    reward = (table * expected_rewards()).sum(axis=1)
    return FiniteChain.plain(target_kernel(table)).value_function(reward, gamma)


def visits(behaviour: Table, length: int) -> Floats:
    """(2000,): how often a trajectory of `length` steps from a reset is expected in each state."""
    kernel, law, total = target_kernel(behaviour), reset_law(), np.zeros(STATES)
    for _ in range(length):
        total += law
        law = law @ kernel
    return total


def cramer_rao_bound(target: Table, behaviour: Table, trajectories: int, length: int, gamma: float = 1.0) -> float:
    """The Cramér–Rao bound on the mean squared error, with transitions and initial law unknown, rewards known.

    The Fisher information of a row 𝒯(·|s, a) is its expected number of visits n(s, a), and the value's derivative
    along it is γd(s)π(a|s)V, so that the bound is Σ γ²(dπ)²·Var(V(s')|s, a)/n, plus, below γ = 1,
    (1-γ)²·Var(V(s₀)) over the number of trajectories.
    """
    wanted, logged = as_table(target), as_table(behaviour)
    values, law = value_function(wanted, gamma), exact_law(wanted, gamma)
    kernel = transition_probabilities()
    spread = (kernel @ values**2 - (kernel @ values) ** 2).reshape(STATES, ACTIONS)
    times = trajectories * visits(logged, length)[:, None] * logged
    mass = law[:, None] * wanted
    noise = np.divide((gamma * mass) ** 2 * spread, times, out=np.zeros_like(mass), where=mass > 0)
    start = reset_law()
    first = (1 - gamma) ** 2 * (start @ values**2 - (start @ values) ** 2) / trajectories
    return float(noise.sum() + first)
