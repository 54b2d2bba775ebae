"""Empirical Bayes for pairs seen rarely or never: their outcomes are shrunk towards the state's own and the log's.

The outcome of a step is y = r + γV(s'). A pair seen n times keeps the share n/(n + κ) of its own mean outcome; what it
gives up goes to the mean outcome of its state over the logged actions, which is what the behaviour is worth there. A
pair never seen takes the share A/(A + λ) of that mean, A being the number of actions seen in the state, and the rest
from the whole log. κ = c·σ²/τ² follows from the counts: σ² is the variance of outcomes within pairs, τ² that of pairs
within states. As the data vanish every pair is worth what its state is, and the value goes to the logged mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.model import CompletedModel
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.solve import FiniteSolution, Treatment

STRENGTH = 0.1
"""c. One minimises the error of single pairs, but a value is a mean over many of them, in which noise averages out and
bias does not. Geometric means over eleven tuning tasks at c = 0, 0.1, 0.3, 1, 3: 0.78, 0.75, 0.75, 0.77, 0.80 floors
(docs/verdicts.md)."""
FROM_THE_LOG = 0.03
"""λ. It keeps a state with one seen action that leads nowhere else from swallowing the chain. On Taxi 0.03 and 0.1 did
equally well; on tasks with many states and short episodes 0.1 had twice the error of 0.03."""


def drawn_from_log(problem: FiniteProblem) -> Floats:
    """(pairs,): every step of the log with equal probability, less the share of time after the ends of episodes."""
    times = problem.counts.times
    share: Floats = (1 - problem.absorbed) * times / times.sum()
    return share


def behaviour_shares(counts: PairCounts) -> Floats:
    """(pairs,): the share of each pair in the visits of its state, an estimate of b(a|s)."""
    share: Floats = counts.times / counts.visits[counts.state_of_pair]
    return share


@dataclass(frozen=True, eq=False)
class Pool:
    """How much of each pair's outcome is its own, its state's, and the log's."""

    problem: FiniteProblem
    kept: Floats
    """(pairs,): the share of its own mean that each seen pair keeps, n/(n + κ)."""

    @classmethod
    def of(cls, problem: FiniteProblem, kappa: float) -> Pool:
        """With one κ for all pairs; infinite where pairs of a state do not differ.

        A pair whose rows have all been given weight 0 has nothing of its own to keep.
        """
        times = problem.counts.times
        seen = (times > 0) & np.isfinite(kappa)
        return cls(problem, np.divide(times, times + kappa, out=np.zeros(len(times)), where=seen))

    @property
    def of_state(self) -> Floats:
        """(states,): the share of its state's mean in what an unseen pair is worth, A/(A + λ)."""
        seen = self.problem.counts.actions_seen
        share: Floats = seen / (seen + FROM_THE_LOG)
        return share

    @property
    def given_up(self) -> Floats:
        """(pairs,): the target's probability of each seen pair that goes to its state's mean."""
        lost: Floats = self.problem.probability * (1 - self.kept)
        return lost

    @property
    def model(self) -> CompletedModel:
        """The counted model of a policy that moves towards the behaviour where little is known."""
        problem, counts, drawn = self.problem, self.problem.counts, self.problem.counts.times / self.problem.counts.times.sum()
        state, share = counts.state_of_pair, self.of_state
        local = group_sums(state, self.given_up, counts.states) + share * problem.unseen
        return CompletedModel(
            problem=problem,
            probability=problem.probability * self.kept + local[state] * behaviour_shares(counts),
            substitute=(1 - share) * problem.unseen,
            substitute_reward=np.full(counts.states, drawn @ counts.reward),
            substitute_next=drawn @ counts.transitions,
            represented_by=drawn,
            begins_after=True,
        )

    def moved_mass(self, distribution: Floats) -> float:
        """The mass that pooling takes from seen pairs and gives to others, under a distribution over states."""
        state = self.problem.counts.state_of_pair
        return float(distribution[state] @ (self.given_up * (1 - behaviour_shares(self.problem.counts))))


@dataclass(frozen=True)
class Components:
    """The variance components of outcomes."""

    within: float
    """σ², of single outcomes around the mean of their pair; 0 where no pair was seen twice, so that none is known."""
    between: float
    """τ², of pairs around the mean of their state, noise subtracted; 0 where there is no sign of any."""
    of_any_pair: float
    """The same with every pair counting once, however often it was seen. What is seen rarely may differ more, as a fall
    from a cliff does that the behaviour avoids; pairs never seen are more like those."""

    @property
    def kappa(self) -> float:
        """c·σ²/τ²: how often a pair must be seen to keep half of its own mean."""
        if self.within == 0:
            return 0.0
        return STRENGTH * self.within / self.between if self.between > 0 else float("inf")


def components(problem: FiniteProblem, values: Floats, predicted: Floats | float = 0.0) -> Components:
    """The analysis of variance of outcomes r + γV(s'), one way, pairs within states.

    Args:
        problem: the counts.
        values: V.
        predicted: (pairs,): what is known of each pair beforehand, subtracted before pairs are compared.
    """
    counts, times, state = problem.counts, problem.counts.times, problem.counts.state_of_pair
    outcome = counts.rewards + problem.gamma * counts.value_after(values)
    mean = group_sums(counts.pair, counts.weight * outcome, counts.pairs) / times
    freedom = float(np.maximum(times - 1, 0).sum())
    within = float(counts.weight @ (outcome - mean[counts.pair]) ** 2) / freedom if freedom > 0 else 0.0
    apart, shares = from_state_mean(counts, mean - predicted), behaviour_shares(counts)
    several = counts.actions_seen > 1
    visits, squares = counts.visits[several], group_sums(state, times**2, counts.states)[several]
    weight = float((visits - squares / visits).sum())
    if weight <= 0:
        return Components(within, 0.0, float(np.mean(mean**2) - np.mean(mean) ** 2))
    noise = within * float((counts.actions_seen[several] - 1).sum())
    between = max(float(times @ apart**2) - noise, 0.0) / weight
    alone = several[state]
    plain = float(np.mean(apart[alone] ** 2)) - within * float(np.mean((1 - shares[alone]) / times[alone]))
    return Components(within, between, max(plain, between))


def unseen_range(problem: FiniteProblem, distribution: Floats, apart: Floats) -> tuple[float, float]:
    """The mass of unseen pairs times the extremes of seen pairs: (at most 0, at least 0).

    Args:
        problem: the counts and the target.
        distribution: over states, under the target.
        apart: (pairs,): how far the outcome of each seen pair lies from what would be put in its place.
    """
    mass = float(distribution @ problem.unseen)
    return mass * min(float(apart.min()), 0.0), mass * max(float(apart.max()), 0.0)


def from_state_mean(counts: PairCounts, y: Floats) -> Floats:
    """(pairs,): how far each pair's outcome lies from the mean of its state's logged steps."""
    mean = group_sums(counts.state_of_pair, behaviour_shares(counts) * y, counts.states)
    apart: Floats = y - mean[counts.state_of_pair]
    return apart


class Pooled(Treatment):
    """Unseen pairs are worth what their state is on average, and seen ones what was seen of them.

    Shrinking rarely seen pairs as well gained nothing without the target's preferences: 0.87 floors over eleven tuning
    tasks, 0.88 with the strength above, and log10 MSE -3.54 on Taxi, -3.45 with it.
    """

    name = "pooled"

    def complete(self, problem: FiniteProblem) -> CompletedModel:
        """With the share of the log that keeps states with one seen action from swallowing the chain."""
        return Pool.of(problem, 0.0).model

    def judged(self, problem: FiniteProblem, solution: FiniteSolution) -> FiniteSolution:
        """An unseen pair may be as far from its state's mean as seen pairs are from the mean of all."""
        apart = from_state_mean(problem.counts, solution.q)
        return replace(
            super().judged(problem, solution), unseen_range=unseen_range(problem, solution.distribution, apart)
        )
