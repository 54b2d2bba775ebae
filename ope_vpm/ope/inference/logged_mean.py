"""Weights by time alone, and the mean that they give: the value of the policy that logged the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.passes import WeightSums, added
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.streamed import Part
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit, ended_episodes
from ope_vpm.ope.adapter.pair_features import Weighting
from ope_vpm.ope.inference.doubts import remarks
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.returns import with_ratio_return
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

LAST_STEPS = 30
"""The steps before a truncation whose mean reward speaks for the time after it: enough to average over a gait, few
enough to have forgotten where the episode began. At γ = 0.99 the logged mean of HalfCheetah logs of 200 steps is then
off by 3.4 on-policy errors instead of 9.2, that of Swimmer by 1.4 instead of 13."""


def time_weights(problem: Problem) -> tuple[Floats, Floats]:
    """γ^t of each row, and for each episode the mass of the time after its end, in which the reward is 0.

    Below γ = 1 only episodes that begin at a reset count. Where the log stopped before the task did, the discounted
    time after it, γ^L/(1 - γ), is given to the last steps of the episode: what they pay is what it would have gone on
    paying. Where a restart follows the end there is no time after it: by renewal, the discounted value is then
    E[Σ_{t<T} γ^t r_t] / E[Σ_{t<T} γ^t].
    """
    return weights_by_time(problem.data, problem.gamma, problem.on_end, problem.time_limit)


def weights_by_time(data: LoggedDataset, gamma: float, on_end: OnEnd, time_limit: TimeLimit) -> tuple[Floats, Floats]:
    """The weights of `time_weights` for a log or a part of one; the target policy does not matter."""
    if gamma == 1:
        return np.ones(len(data)), np.zeros(data.n_episodes)
    table = data.table
    counts = table.from_reset.astype(np.float64)
    ends = ended_episodes(data, time_limit)
    later = counts * gamma**table.lengths / (1 - gamma)
    weights: Floats = np.power(gamma, np.arange(int(table.lengths.max())), dtype=np.float64)[data.time]
    if not counts.all():
        weights *= counts[data.episode]
    episode, rows = last_rows(data)
    weights[rows] += np.where(~ends, later / np.minimum(table.lengths, LAST_STEPS), 0.0)[episode]
    after = later * ends * data.ends_here * (on_end == "absorb")
    return weights, after


def last_rows(data: LoggedDataset) -> tuple[Integers, Integers]:
    """The rows among the last `LAST_STEPS` of their episodes, and which episodes these are."""
    beyond = data.table.lengths - 1 - data.time[data.ends]  # rows of the episode after those that are here
    count = np.minimum(np.maximum(LAST_STEPS - beyond, 0), data.lengths)
    episode = np.repeat(np.arange(data.n_episodes), count)
    place = np.arange(len(episode)) - np.repeat(np.cumsum(count) - count, count)
    return episode, data.ends[episode] - place


@dataclass(frozen=True)
class RewardSums:
    """Sums of weights and weighted rewards over the rows of each episode; those of parts are merged."""

    first: int
    """The number of the first episode."""
    reward: Floats
    """(episodes,): Σ w r."""
    weight: Floats
    """(episodes,): Σ w."""
    tail: Floats
    """(episodes,): the mass of the time after the end."""
    ended: Floats
    """(episodes,): Σ w·1[the task ends here]."""
    squares: float
    """Σ w² over all rows."""

    def merge(self, other: RewardSums) -> RewardSums:
        """The sums of two parts, one after another; an episode may have rows in both."""
        mine = slice(0, len(self.reward))
        theirs = slice(other.first - self.first, other.first - self.first + len(other.reward))
        names = ("reward", "weight", "tail", "ended")
        sums = {name: added(getattr(self, name), getattr(other, name), mine, theirs) for name in names}
        return RewardSums(self.first, **sums, squares=self.squares + other.squares)

    @property
    def sums(self) -> EpisodeSums:
        """Σ w r over Σ w and the tail, by episode."""
        return EpisodeSums(self.reward[:, None], (self.weight + self.tail)[:, None])

    @property
    def of_weights(self) -> WeightSums:
        """The weights, none of which is negative."""
        return WeightSums(self.weight.sum(), np.asarray(self.squares), self.weight)

    @property
    def rows_worth(self) -> float:
        """How many rows of equal weight the weighted rows are worth."""
        return float(self.weight.sum()) ** 2 / self.squares if self.squares > 0 else 0.0


def reward_sums(
    data: LoggedDataset, weights: Floats, tail: Floats, time_limit: TimeLimit, first: int = 0
) -> RewardSums:
    """The sums of the rows of a log, or of a part of one that begins with episode number `first`."""
    reward, weight = (np.add.reduceat(each, data.starts) for each in (weights * data.rewards, weights))
    ended = np.where(ended_episodes(data, time_limit) & data.ends_here, weights[data.ends], 0.0)
    return RewardSums(first, reward, weight, tail, ended, float(weights @ weights))


def _sums_of_part(
    part: Part, policy: TargetPolicy, gamma: float, on_end: OnEnd, time_limit: TimeLimit, weighting: Weighting | None
) -> RewardSums:
    weights, tail = weights_by_time(part, gamma, on_end, time_limit)
    weights = weights if weighting is None else weights * weighting(part, policy)
    return reward_sums(part, weights, tail, time_limit, part.first_episode)


def streamed_sums(problem: Problem, log: Log, weighting: Weighting | None = None) -> RewardSums:
    """The sums of a log that is read in parts, in one pass."""
    settings = problem.gamma, problem.on_end, problem.time_limit
    return log.total(_sums_of_part, problem.policy, *settings, weighting)


def weighted_estimate(problem: Problem, sums: RewardSums, weights: Floats | None, **known: Any) -> RawEstimate:
    """The weighted mean of the rewards, and of the return of an episode where there is one.

    Args:
        problem: the question.
        sums: over the rows of each episode.
        weights: of all rows, where they are kept.
        known: further fields of the estimate.
    """
    found = RawEstimate(
        value=float(sums.sums.ratios.sum()),
        uncertainty=Bootstrap(episodes=sums.sums),
        weights=weights,
        rows_worth=sums.rows_worth if weights is None else None,
        **known,
    )
    if not problem.episodic:
        return found
    rate = EpisodeSums(sums.ended[:, None], sums.weight[:, None])
    of_return = EpisodeSums(sums.reward[:, None], sums.ended[:, None])
    return with_ratio_return(problem, found, rate, sums=of_return)


@remembered
def logged_mean(problem: Problem) -> RawEstimate:
    """The mean logged reward, weighted by γ^t: what the behaviour policy is worth."""
    doubts = remarks(["the logged mean is the behaviour's value, whatever the target does"])
    if problem.log.streamed:
        return weighted_estimate(problem, streamed_sums(problem, problem.log), None, doubts=doubts)
    weights, tail = time_weights(problem)
    sums = reward_sums(problem.data, weights, tail, problem.time_limit)
    return weighted_estimate(problem, sums, weights, doubts=doubts)
