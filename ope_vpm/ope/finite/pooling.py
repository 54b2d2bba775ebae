"""Pairs never seen are worth what their state is worth on average, and a little of the log's mean.

The outcome of a step is y = r + γV(s'). A pair never seen takes the share A/(A + λ) of the mean outcome of its state
over the logged actions, which is what the behaviour is worth there, A being the number of actions seen in the state,
and the rest from the whole log. So the model is that of a policy that does what the behaviour did wherever the log does
not hold what the target does, and as the data vanish its value goes to the logged mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.limits import binomial_limits
from ope_vpm.ope.finite.model import CompletedModel
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.solve import FiniteSolution, Treatment

FROM_THE_STATE = 0.3
"""κ where pairs lead to several states, less as far as they lead to one: a pair seen n times gives κ/(n + κ) of itself
to the mean of its state, where something is unseen. A pair that was
seen once and led back to its own state would hold the target there for ever, though the behaviour left. At κ = 0, 0.03,
0.1, 0.3, 1 errors at γ = 1 are 3.46, 2.07, 1.40, 0.78, 0.37 floors on a ward in which patients often stay as they are,
1.10, 1.10, 1.12, 1.19, 1.48 on Garnet-rare and 2.72, 2.73, 2.75, 2.81, 2.96 on Pits-small (docs/finite.md)."""
FOR_STAYING = 1.0
"""Added to κ for a pair that always led back to its own state, and as much less as it did so less often: such pairs
hold the target, others do not. Errors at γ = 1 on that ward (near, older, mix; seeds 100 to 102) fall from 0.52 to 0.31
floors; from random treatments they rise from 0.89 to 1.29; on other tasks they hardly change."""
SAME_STATE = 1e-6
"""Squared state numbers that rounding may leave of 0."""
TINY = float(np.finfo(float).tiny)
FROM_THE_LOG = 0.03
"""λ. It keeps a state with one seen action that leads nowhere else from swallowing the chain. On Taxi 0.03 and 0.1 did
equally well; on tasks with many states and short episodes 0.1 had twice the error of 0.03."""


def behaviour_shares(counts: PairCounts) -> Floats:
    """(pairs,): the share of each pair in the visits of its state, an estimate of b(a|s)."""
    share: Floats = counts.times / counts.visits[counts.state_of_pair]
    return share


def share_of_state(counts: PairCounts) -> Floats:
    """(states,): the share of its state's mean in what an unseen pair is worth, A/(A + λ)."""
    share: Floats = counts.actions_seen / (counts.actions_seen + FROM_THE_LOG)
    return share


def kept_shares(problem: FiniteProblem) -> Floats:
    """(pairs,): the share n/(n + κ) of its own outcomes that a pair seen n times keeps; all where nothing is unseen."""
    times = problem.counts.times
    whole = np.ones(len(times))
    if problem.all_seen:
        return whole
    kappa = varying_share(problem.counts) * (FROM_THE_STATE + FOR_STAYING * staying_share(problem.counts))
    return np.divide(times, times + kappa, out=0 * whole, where=times > 0)


def staying_share(counts: PairCounts) -> Floats:
    """(pairs,): the share of its steps with which each pair led back to its own state."""
    stays = counts.weight * (counts.next_state == counts.state_of_pair[counts.pair])
    return group_sums(counts.pair, stays, counts.pairs) / np.maximum(counts.times, TINY)


def varying_share(counts: PairCounts) -> float:
    """The share of the pairs seen more than once that led to more than one state; 1 where no pair was.

    Where pairs always lead to the same state, once is enough to know it.
    """
    after = counts.next_state.astype(np.float64)
    mean = group_sums(counts.pair, counts.weight * after, counts.pairs) / np.maximum(counts.times, TINY)
    apart = group_sums(counts.pair, counts.weight * (after - mean[counts.pair]) ** 2, counts.pairs)
    again = counts.steps_of_pair > 1
    return float(np.mean(apart[again] > SAME_STATE)) if again.any() else 1.0


def given_up(problem: FiniteProblem) -> Floats:
    """(pairs,): the target's probability of each seen pair that goes to the mean of its state."""
    lost: Floats = problem.probability * (1 - kept_shares(problem))
    return lost


def pooled_model(problem: FiniteProblem) -> CompletedModel:
    """The counted model of a policy that does what the behaviour did where the target's own action was never seen.

    The rest is drawn from the logged steps. The time after the ends of episodes is not among them, as it is for
    `Restart`: an unseen pair is a step like the others, and need not end anything.
    """
    counts, share = problem.counts, share_of_state(problem.counts)
    drawn, lost = counts.times / counts.times.sum(), given_up(problem)
    unseen: Floats = problem.own_missing.sum(axis=1)
    local = share * unseen + group_sums(counts.state_of_pair, lost, counts.states)
    return CompletedModel(
        problem=problem,
        probability=problem.probability - lost + local[counts.state_of_pair] * behaviour_shares(counts),
        substitute=(1 - share) * unseen,
        substitute_reward=np.full(counts.states, drawn @ counts.reward),
        substitute_next=drawn @ counts.transitions,
        represented_by=drawn,
        begins_after=True,
        borrowed=None if problem.borrowed is None else problem.borrowed.policy,
    )


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


def components(problem: FiniteProblem, values: Floats, predicted: Floats | float = 0.0) -> Components:
    """The analysis of variance of outcomes r + γV(s'), one way, pairs within states.

    Args:
        problem: the counts.
        values: V.
        predicted: (pairs,): what is known of each pair beforehand, subtracted before pairs are compared.
    """
    counts, times, state = problem.counts, problem.counts.times, problem.counts.state_of_pair
    mean, squares_within = counts.outcomes(values, problem.gamma)
    freedom = float(np.maximum(times - 1, 0).sum())
    within = squares_within / freedom if freedom > 0 else 0.0
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
    """How far unseen pairs may move the value if they are like seen ones: (at most 0, at least 0).

    Seen pairs say how often pairs are far below and above what would be put in their place; where few are, that is
    hardly known, so the exact limits of a binomial share are taken.

    Args:
        problem: the counts and the target.
        distribution: over states, under the target.
        apart: (pairs,): how far the outcome of each seen pair lies from what would be put in its place.
    """
    mass = float(distribution @ problem.unseen)
    (_, below), (_, above) = (binomial_limits(np.maximum(side, 0) / len(apart)) for side in (-apart, apart))
    return -mass * below, mass * above


def from_state_mean(counts: PairCounts, y: Floats) -> Floats:
    """(pairs,): how far each pair's outcome lies from the mean of its state's logged steps."""
    mean = group_sums(counts.state_of_pair, behaviour_shares(counts) * y, counts.states)
    apart: Floats = y - mean[counts.state_of_pair]
    return apart


class Pooled(Treatment):
    """Unseen pairs are worth what their state is on average, and seen ones what was seen of them.

    Shrinking rarely seen pairs by as much as is best for single ones lost: over six made-up tasks 1.62 floors without
    it and 1.62, 1.67, 1.77 with 0.1, 0.3 and 1 times that. A value is a mean over many pairs, in which noise averages
    out and bias does not. So κ is small, and there for pairs that lead back to where they began.
    """

    name = "pooled"

    def complete(self, problem: FiniteProblem) -> CompletedModel:
        """With the share of the log that keeps states with one seen action from swallowing the chain."""
        return pooled_model(problem)

    def judged(self, problem: FiniteProblem, solution: FiniteSolution) -> FiniteSolution:
        """An unseen pair may be as far from its state's mean as seen pairs are from the mean of all."""
        apart = from_state_mean(problem.counts, solution.q)
        return replace(
            super().judged(problem, solution), unseen_range=unseen_range(problem, solution.distribution, apart)
        )
