"""A finite evaluation problem: counted pairs, the target on them, and what unseen pairs borrow from similar states.

Where something is known of the states, of the target's probability of an unseen pair (s, a) the share W/(W + N^½) goes
to the pairs with the same action in the ten nearest states that hold it, W = Σ n^½·exp(-d²/2h²) being how much these
have to say: n is how often each was seen, d its distance in standardised features, and h the usual distance of a state
to its nearest one; N is how often s itself was left. The rest is treated as without features: so what is still unseen
in a state that the log knows well, because nobody ever does it there, is judged by the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.arrays import ROUNDING, Array, Bools, Floats, chunks, group_sums
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope.adapter.ends import absorbed_share
from ope_vpm.ope.finite.counts import LoggedSteps, PairCounts, SomeSteps, Sums, count_pairs
from ope_vpm.ope.finite.tally import count_stream, numbers_of, planned, steps_of_part
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.threads import cached_property

NEAREST = 10
"""States that are asked. With 30 the errors of three made-up wards, whose treatments have smooth effects, were within
a tenth of those with 10."""
COUNT_POWER = 0.5
"""A pair seen n times counts n^½, as in `preference`, and so does the state. With 1 in place of N^½ the gain was about
the same on the wards, with 3·N^½ half as much."""
SMALLEST = 1e-12
"""Probabilities and weights below it are taken for 0."""
StateFeatures = Any
"""(states, d) numbers with a row for each state by its number, or a function of observations that returns such rows."""


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


def over_steps(problem: Problem, function: Callable[..., Sums], *settings: Any, ended: Bools | None = None) -> Sums:
    """The result of a function of `LoggedSteps` for a log in memory; merged results for one that is read in parts.

    Args:
        problem: the question.
        function: takes the steps and the settings; for parts it is one of a module, which other processes find.
        settings: whatever it needs.
        ended: (episodes,): whether the task ended with each episode; None: as the question has it.
    """
    counts, ended = finite_problem(problem).counts, problem.ends if ended is None else ended
    if problem.log.streamed:
        plan = planned(problem.log, problem.on_end, problem.time_limit, problem.seed)
        found: Sums = problem.log.total(steps_of_part, plan, numbers_of(counts, plan), ended, function, *settings)
        return found
    return function(LoggedSteps(problem.data, 0, _in_memory(problem, counts, ended)), *settings)


def _in_memory(problem: Problem, counts: PairCounts, ended: Bools) -> Iterator[SomeSteps]:
    data, ending = problem.data, np.zeros(len(problem.data), dtype=np.bool_)
    ending[data.ends[ended]] = True
    for part in chunks(len(problem.steps.rows)):
        row = problem.steps.rows[part]
        some = counts.pair[part], counts.next_state[part], counts.weight[part], counts.rewards[part]
        yield SomeSteps(row, *some, data.episode[row], ending[row], ending[row] & data.truncated[row])


@dataclass(frozen=True, eq=False)
class Borrowed:
    """What unseen pairs take from other states."""

    policy: SparseMatrix
    """(states, pairs), sparse: the target's probability that goes to seen pairs of other states."""
    rest: Floats
    """(states, actions): the target's probability of unseen pairs that is left."""


def standardised_features(given: StateFeatures, observations: Array) -> Floats:
    """(states, d): the features of the states of a log, each with mean 0 and deviation 1.

    Args:
        given: an array with a row for each state by its number, or a function of observations.
        observations: of the states.
    """
    rows = given(observations) if callable(given) else _rows(given, observations)
    features = np.asarray(rows, dtype=np.float64)
    if features.ndim != 2 or len(features) != len(observations) or not np.isfinite(features).all():
        raise ValueError(
            "state_features must be finite numbers, one row for each state: got shape "
            f"{features.shape} for {len(observations)} states"
        )
    return Standardiser.fit(features)(features)


def _rows(given: Any, observations: Array) -> Floats:
    """The rows of a table by the numbers of the states."""
    table, numbers = np.asarray(given, dtype=np.float64), np.asarray(observations)
    if numbers.size != len(numbers) or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(
            "state_features as an array needs states that are numbers: "
            "give a function of observations instead, which returns a row for each"
        )
    if table.ndim != 2 or numbers.min() < 0 or numbers.max() >= len(table):
        raise ValueError(
            f"state_features must have a row for each state, by its number: the log has states {numbers.min()} to "
            f"{numbers.max()}, and the array has shape {table.shape}"
        )
    rows: Floats = table[numbers.ravel()]
    return rows


def borrowed(counts: PairCounts, missing: Floats, features: Floats) -> Borrowed:
    """What unseen pairs take from the same action in similar states.

    Args:
        counts: the seen pairs.
        missing: (states, actions): the target's probabilities of unseen pairs.
        features: (states, d), standardised.
    """
    width, rest, parts = _usual_distance(features), np.array(missing), []
    for action in np.flatnonzero((missing > SMALLEST).any(axis=0)):
        known, asking = np.flatnonzero(counts.action_of_pair == action), np.flatnonzero(missing[:, action] > SMALLEST)
        if not len(known):
            continue
        number = min(NEAREST, len(known))
        from scipy.spatial import cKDTree  # imported here: it takes long, and few need it

        found = cKDTree(features[counts.state_of_pair[known]]).query(features[asking], k=number)
        distance, place = (each.reshape(len(asking), number) for each in found)
        weight = np.exp(-0.5 * (distance / width) ** 2) * counts.times[known][place] ** COUNT_POWER
        total = weight.sum(axis=1)
        own = counts.visits[asking] ** COUNT_POWER
        taken = missing[asking, action] * total / np.maximum(total + own, SMALLEST)
        rest[asking, action] -= taken
        share = taken[:, None] * weight / np.maximum(total, SMALLEST)[:, None]
        parts.append((share.ravel(), np.repeat(asking, number), known[place].ravel()))
    shape = counts.states, counts.pairs
    if not parts:
        return Borrowed(sparse.csr_array(shape), rest)
    data, rows, columns = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Borrowed(sparse.csr_array((data, (rows, columns)), shape=shape), rest)


def _usual_distance(features: Floats) -> float:
    """The median distance of a state to its nearest one."""
    if len(features) < 2:
        return 1.0
    from scipy.spatial import cKDTree  # imported here: it takes long, and few need it

    nearest, _ = cKDTree(features).query(features, k=2)
    return max(float(np.median(nearest[:, 1])), SMALLEST)
