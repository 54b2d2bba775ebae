"""The Cramér–Rao bound: the least variance of an unbiased estimate of a Taxi policy's value from a log."""

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Floats
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.envs.taxi import (
    ACTIONS,
    STATES,
    as_table,
    exact_distribution,
    expected_rewards,
    initial_distribution,
    target_kernel,
    transition_probabilities,
)
from ope_vpm.policy import TablePolicy

Table = npt.ArrayLike | TablePolicy


def value_function(target: Table, gamma: float) -> Floats:
    """Return the value of each state, shape (2000,): V with V = r + γ𝒯V; at γ = 1 h with h = r - v + 𝒯h."""
    table = as_table(target)
    reward = (table * expected_rewards()).sum(axis=1)
    return FiniteChain.plain(target_kernel(table)).value_function(reward, gamma)


def visits(behaviour: Table, length: int) -> Floats:
    """Return the expected number of visits to each state in a trajectory of `length` steps, shape (2000,)."""
    kernel, distribution, total = target_kernel(behaviour), initial_distribution(), np.zeros(STATES)
    for _ in range(length):
        total += distribution
        distribution = distribution @ kernel
    return total


def cramer_rao_bound(target: Table, behaviour: Table, trajectories: int, length: int, gamma: float = 1.0) -> float:
    """Return the Cramér–Rao bound on the mean squared error of an unbiased estimate of the target's value.

    Transition probabilities and initial distribution are unknown, rewards known. The information of a log about a row
    𝒯(·|s, a) grows with the row's expected number of visits n(s, a), and the value's derivative along it is
    γd(s)π(a|s)V, where d is the target's distribution over states. The bound is therefore
    Σ γ²(dπ)²·Var(V(s')|s, a)/n, plus, at γ < 1, (1-γ)²·Var(V(s₀)) divided by the number of trajectories.

    Args:
        target: the policy to evaluate.
        behaviour: the policy that logs.
        trajectories: the number of trajectories in the log.
        length: the number of steps of each.
        gamma: the discount γ.
    """
    wanted, logged = as_table(target), as_table(behaviour)
    values, distribution = value_function(wanted, gamma), exact_distribution(wanted, gamma)
    kernel = transition_probabilities()
    spread = (kernel @ values**2 - (kernel @ values) ** 2).reshape(STATES, ACTIONS)
    times = trajectories * visits(logged, length)[:, None] * logged
    mass = distribution[:, None] * wanted
    noise = np.divide((gamma * mass) ** 2 * spread, times, out=np.zeros_like(mass), where=mass > 0)
    start = initial_distribution()
    first = (1 - gamma) ** 2 * (start @ values**2 - (start @ values) ** 2) / trajectories
    return float(noise.sum() + first)
