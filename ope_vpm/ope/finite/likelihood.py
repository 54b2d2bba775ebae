"""Likelihood intervals for finite pairs, as CoinDICE (Dai et al. 2020): the values that data near the log give.

The log's episodes get other weights w, within a Kullback–Leibler ball around equal ones whose radius is half a χ²
quantile over the number of episodes. The interval is the range of the counted model's exact value over that ball; it
need not be symmetric, and nothing is drawn. CoinDICE weighs transitions; here episodes, which are what is independent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.ope.finite.problem import finite_problem
from ope_vpm.ope.finite.treatments import Treatment
from ope_vpm.ope.inference.uncertainty import LEVEL
from ope_vpm.ope.problem import Problem

ROUNDS = 8
"""How often the weights are tilted by how each episode moves the value at the last weights. Brute force over
the weights finds nothing beyond the ends that this reaches."""
LOG_TEMPERATURES = (-10.0, 20.0)
"""The bounds of log η between which the tilt is looked for, with influences scaled to at most 1: below, all
weight is on the most extreme episode; above, all weights are equal."""
LEAST_WEIGHT = 1e-9
"""The least weight of an episode, relative to the largest: a pair that it alone holds would otherwise have been seen 0
times, its mean being 0/0."""


@dataclass(frozen=True)
class Reweighted:
    """The counted model's answer with weighted episodes."""

    value: float
    influence: Floats
    """(episodes,): how the value moves with each episode's weight."""


def likelihood_interval(problem: Problem, treatment: Treatment) -> tuple[float, float]:
    """The least and the largest value within the ball."""
    episodes = problem.data.n_episodes
    radius = float(stdtrit(episodes - 1, 0.5 + LEVEL / 2)) ** 2 / (2 * episodes)
    low, high = (extreme(problem, treatment, radius, sign) for sign in (-1.0, 1.0))
    return low, high


def extreme(problem: Problem, treatment: Treatment, radius: float, sign: float) -> float:
    """The value at the end of the ball: the largest where the sign is 1, the least where it is -1."""
    at = reweighted(problem, treatment, np.ones(problem.data.n_episodes))
    best = at.value
    for _ in range(ROUNDS):
        at = reweighted(problem, treatment, tilted(sign * at.influence, radius))
        best = max(best, at.value) if sign > 0 else min(best, at.value)
    return best


def tilted(influence: Floats, radius: float) -> Floats:
    """The weights w of mean 1 with the largest Σ wψ and mean of w·log w at most `radius`: w ∝ exp(ψ/η)."""
    scale = float(np.abs(influence).max())
    if scale == 0:
        return np.ones(len(influence))

    from scipy.optimize import brentq  # imported here: it takes long, and few need it

    def weights(log_eta: float) -> Floats:
        exponent = influence / scale * np.exp(-log_eta)
        raw = np.maximum(np.exp(exponent - exponent.max()), LEAST_WEIGHT)
        scaled: Floats = raw / raw.mean()
        return scaled

    def beyond(log_eta: float) -> float:
        weight = weights(log_eta)
        return float(np.mean(weight * np.log(np.maximum(weight, 1e-300)))) - radius

    low, high = LOG_TEMPERATURES
    if beyond(low) < 0:  # fewer episodes than the ball is wide: all weight on the extreme ones
        return weights(low)
    return weights(float(brentq(beyond, low, high)))


def reweighted(problem: Problem, treatment: Treatment, weight: Floats) -> Reweighted:
    """Count again with weighted episodes, and solve.

    Args:
        problem: the question, on finite states and actions.
        treatment: of unseen pairs.
        weight: of each episode.
    """
    data, gamma, whole = problem.data, problem.gamma, finite_problem(problem)
    episode, first = data.episode[problem.steps.rows], problem.log.initial_episodes
    counts = whole.counts.reweighted(weight[episode], weight[first])
    solution = treatment.complete(replace(whole, counts=counts)).solve()
    level = solution.value if gamma == 1 else 0.0
    residual = counts.rewards - level + gamma * counts.value_after(solution.values) - solution.q[counts.pair]
    mass = (solution.mass / counts.times)[counts.pair]
    influence = group_sums(episode, whole.counts.weight * mass * residual, data.n_episodes)
    if solution.mixture is not None:
        psi = solution.mixture.influence(counts)
        influence += group_sums(episode, whole.counts.weight * psi, data.n_episodes) / counts.weight.sum()
    if gamma < 1:
        at_start, share = solution.values[counts.initial_states], weight[first] / weight[first].sum()
        influence[first] += (1 - gamma) * (at_start - share @ at_start) / weight[first].sum()
    return Reweighted(solution.value, influence)
