"""Weights by time alone, and the mean that they give: the value of the policy that logged the data."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.inference.returns import with_weighted_return
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.inference.value import RawEstimate
from ope_vpm.ope.inference.verdict import Evidence
from ope_vpm.ope.problem import Problem


def time_weights(problem: Problem) -> tuple[Floats, Floats]:
    """γ^t of each row, and for each episode the mass of the time after its end, in which the reward is 0.

    Below γ = 1 only episodes that begin at a reset count. Where a restart follows the end there is no such
    time: by renewal, the discounted value is then E[Σ_{t<T} γ^t r_t] / E[Σ_{t<T} γ^t].
    """
    data, gamma = problem.data, problem.gamma
    if gamma == 1:
        return np.ones(len(data)), np.zeros(data.n_episodes)
    counts = data.from_reset.astype(np.float64)
    absorbed = counts * problem.ends * (problem.on_end == "absorb")
    return gamma**data.time * counts[data.episode], absorbed * gamma**data.lengths / (1 - gamma)


def weighted_sums(problem: Problem, weights: Floats, tail: Floats) -> EpisodeSums:
    """Σ w r over Σ w and the tail, by episode."""
    data = problem.data
    sums = EpisodeSums.of_rows(data.episode, data.n_episodes, weights * data.rewards, weights)
    return EpisodeSums(sums.numerator, sums.denominator + tail[:, None])


def logged_mean(problem: Problem) -> RawEstimate:
    """The mean logged reward, weighted by γ^t: what the behaviour policy is worth."""
    weights, tail = time_weights(problem)
    sums = weighted_sums(problem, weights, tail)
    remark = "the logged mean is the behaviour's value, whatever the target does"
    found = RawEstimate(
        value=float(sums.ratios.sum()),
        uncertainty=Bootstrap(episodes=sums),
        weights=weights,
        evidence=Evidence(remarks=(remark,)),
    )
    return with_weighted_return(problem, found) if problem.episodic else found
