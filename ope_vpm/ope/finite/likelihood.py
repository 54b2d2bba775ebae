"""Likelihood intervals for finite pairs, as CoinDICE (Dai et al. 2020): the values that laws near the log give.

The log's episodes get other weights w, within a Kullback–Leibler ball around equal ones whose radius is half a χ²
quantile over the number of episodes. The interval is the range of the counted model's exact value over that ball; it
need not be symmetric, and nothing is drawn. CoinDICE weighs transitions; here episodes, which are what is independent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.ope.finite.model import CountedModel, counted_model
from ope_vpm.ope.inference.uncertainty import LEVEL
from ope_vpm.ope.problem import Problem

ROUNDS = 8
"""Of tilting the weights by how each episode moves the value at the last weights."""


@dataclass(frozen=True)
class Weighed:
    """The counted model's answer with weighted episodes."""

    value: float
    influence: Floats
    """(episodes,): how the value moves with each episode's weight."""


def likelihood_interval(problem: Problem) -> tuple[float, float]:
    """The least and the largest value within the ball."""
    episodes = problem.data.n_episodes
    radius = float(stats.t.ppf(0.5 + LEVEL / 2, episodes - 1)) ** 2 / (2 * episodes)
    low, high = (extreme(problem, radius, sign) for sign in (-1.0, 1.0))
    return low, high


def extreme(problem: Problem, radius: float, sign: float) -> float:
    """The value at the end of the ball, from below or above."""
    model = counted_model(problem)
    weight = np.full(problem.data.n_episodes, 1.0)
    at = weighed(problem, model, weight)
    best = at.value
    for _ in range(ROUNDS):
        weight = tilted(sign * at.influence, radius)
        at = weighed(problem, model, weight)
        best = max(best, at.value) if sign > 0 else min(best, at.value)
    return best


def tilted(influence: Floats, radius: float) -> Floats:
    """The weights w of mean 1 with the largest Σ wψ and mean of w·log w at most `radius`: w ∝ exp(ψ/η)."""
    scale = float(np.abs(influence).max())
    if scale == 0:
        return np.ones(len(influence))

    def of(log_eta: float) -> Floats:
        exponent = influence / scale * np.exp(-log_eta)
        raw = np.exp(exponent - exponent.max())
        scaled: Floats = raw / raw.mean()
        return scaled

    def beyond(log_eta: float) -> float:
        weight = of(log_eta)
        return float(np.mean(weight * np.log(np.maximum(weight, 1e-300)))) - radius

    if beyond(-10.0) < 0:  # fewer episodes than the ball is wide: all weight on the extreme ones
        return of(-10.0)
    return of(float(brentq(beyond, -10.0, 20.0)))


def weighed(problem: Problem, model: CountedModel, weight: Floats) -> Weighed:
    """Count again with weighted episodes, and solve."""
    data, plan, gamma = problem.data, problem.steps, problem.gamma
    episode = data.episode[plan.rows]
    counted = _recounted(model, model.weight * weight[episode], data.rewards[plan.rows])
    chain, reward = FiniteChain.plain(counted.kernel()), counted.policy() @ counted.reward
    first = problem.log.initial_episodes
    start_share = weight[first] / weight[first].sum() if len(first) else np.zeros(0)
    values = chain.value_function(reward, gamma)
    if gamma < 1:
        initial = group_sums(counted.starts, start_share, len(reward))
        law = chain.distribution(initial, gamma)
        value, offset = float((1 - gamma) * initial @ values), 0.0
    else:
        left = group_sums(counted.state_of_pair, counted.times, len(reward))
        law = chain.distribution(left / left.sum(), gamma)
        value = offset = float(law @ reward)
    q = counted.reward - offset + gamma * (counted.transitions() @ values)
    after = np.where(counted.following >= 0, values[counted.following], 0.0)
    residual = data.rewards[plan.rows] - offset + gamma * after - q[counted.pair]
    mass = (law[counted.state_of_pair] * counted.chance / counted.times)[counted.pair]
    influence = group_sums(episode, model.weight * mass * residual, data.n_episodes)
    if gamma < 1:
        at_start = values[counted.starts]
        influence[first] += (1 - gamma) * (at_start - start_share @ at_start) / weight[first].sum()
    return Weighed(value, influence)


def _recounted(model: CountedModel, weight: Floats, rewards: Floats) -> CountedModel:
    reward = group_sums(model.pair, weight * rewards) / group_sums(model.pair, weight)
    return replace(model, weight=weight, reward=reward)
