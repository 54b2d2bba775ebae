"""A finite evaluation problem: counted pairs, the target's probabilities in their states, and the discount."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import ROUNDING, Floats, group_sums
from ope_vpm.lazy import cached_property
from ope_vpm.ope.adapter.pairs import absorbed_share
from ope_vpm.ope.finite.counts import PairCounts, count_pairs
from ope_vpm.ope.finite.similar import Borrowed, borrowed, standardised_features
from ope_vpm.ope.finite.tally import count_stream
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, eq=False)
class FiniteProblem:
    """What the target policy is worth, asked of counts: everything that a treatment of unseen pairs may look at."""

    counts: PairCounts
    target: Floats
    """(states, actions): the target's probabilities π(a|s)."""
    gamma: float
    absorbed: float = 0.0
    """The share of the log's discounted time that lies after the end of an episode; 0 where none ends for good."""
    features: Floats | None = None
    """(states, d), standardised: by which states are similar; None where nothing is known of them."""

    @cached_property
    def probability(self) -> Floats:
        """(pairs,): the target's probability of each seen pair's action in its state."""
        return self.target[self.counts.state_of_pair, self.counts.action_of_pair]

    @cached_property
    def seen(self) -> Floats:
        """(states,): the target's probability of all actions that were seen in a state."""
        return group_sums(self.counts.state_of_pair, self.probability, self.counts.states)

    @cached_property
    def missing(self) -> Floats:
        """(states, actions): the target's probabilities of the pairs that were not seen, 0 for the others."""
        missing = np.array(self.target)
        missing[self.counts.state_of_pair, self.counts.action_of_pair] = 0
        return missing

    @cached_property
    def unseen(self) -> Floats:
        """(states,): the target's probability of all actions that were not seen in a state."""
        total: Floats = self.missing.sum(axis=1)
        return total

    @cached_property
    def borrowed(self) -> Borrowed | None:
        """What unseen pairs take from similar states; None where nothing is known of the states."""
        return None if self.features is None else borrowed(self.counts, self.missing, self.features)

    @property
    def own_missing(self) -> Floats:
        """(states, actions): the same as `missing`, less what unseen pairs take from similar states."""
        return self.missing if self.borrowed is None else self.borrowed.rest

    @property
    def all_seen(self) -> bool:
        """Whether the log holds everything that the target does, but for rounding."""
        return bool((self.unseen < ROUNDING).all())

    @property
    def compares_actions(self) -> bool:
        """Whether some state was left by two actions: otherwise nothing says how far apart actions may be."""
        return bool((self.counts.actions_seen > 1).any())

    @cached_property
    def untried(self) -> Floats:
        """(states,): the target's probability of actions that no logged step took, in whatever state."""
        tried = np.zeros(self.target.shape[1], dtype=np.bool_)
        tried[self.counts.action_of_pair] = True
        total: Floats = self.target[:, ~tried].sum(axis=1)
        return total

    def q(self, values: Floats, level: float) -> Floats:
        """(pairs,): Q(s, a) = r̂ - level + γP̂V of the seen pairs; at γ = 1 the level is the average reward."""
        after: Floats = self.counts.transitions @ values
        return self.counts.reward - level + self.gamma * after


@remembered
def finite_problem(problem: Problem) -> FiniteProblem:
    """The counts of a problem's log and the target on them, shared by all estimators."""
    counts = _counts(problem)
    target = problem.policy.probabilities(counts.observations)
    absorbed = absorbed_share(problem.data, problem.ends, problem.gamma) if problem.on_end == "absorb" else 0.0
    given = problem.state_features
    features = None if given is None else standardised_features(given, counts.observations)
    return FiniteProblem(counts, target, problem.gamma, absorbed, features)


def _counts(problem: Problem) -> PairCounts:
    """The counts, which all policies share."""
    if problem.streamed:
        return count_stream(problem.log, problem.on_end, problem.time_limit, problem.seed)
    return count_pairs(problem.log, problem.steps)
