"""The counted model of a finite MDP under the target, solved exactly over states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.arrays import Floats, Integers, group_sums
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.ope.adapter.time_limit import clock_remarks
from ope_vpm.ope.finite.counts import CountedPairs, count_pairs, influence
from ope_vpm.ope.inference.estimate import RawEstimate, evidence_of_weights
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class CountedModel:
    """Counts of one log and the target on them.

    Where the target takes actions never seen in a state, its probabilities are scaled up over the seen ones;
    a state in which none was seen restarts from the logged states.
    """

    pair: Integers
    """The number of each step's (s, a) among the seen pairs."""
    following: Integers
    """The number of the state after each step; -1 where nothing follows."""
    weight: Floats
    """How much each step counts."""
    state_of_pair: Integers
    chance: Floats
    """The target's probability of each seen pair's action in its state, scaled up."""
    unseen: Floats
    """The target's probability of unseen actions, by state."""
    starts: Integers
    """The number of each initial state."""
    reward: Floats
    """The mean reward of each seen pair."""

    @property
    def initial(self) -> Floats:
        """The law of initial states; zeros where none is known."""
        return np.bincount(self.starts, minlength=len(self.unseen)) / max(len(self.starts), 1)

    @property
    def times(self) -> Floats:
        """How often each pair was seen."""
        return group_sums(self.pair, self.weight)

    def transitions(self) -> Any:
        """P̂(s'|s, a), sparse (pairs, states); rows of ended episodes sum to less than 1."""
        known = self.following >= 0
        share = self.weight / self.times[self.pair]
        shape = (len(self.state_of_pair), len(self.unseen))
        return sparse.csr_array((share[known], (self.pair[known], self.following[known])), shape=shape)

    def policy(self) -> Any:
        """The target over seen pairs, sparse (states, pairs)."""
        shape = (len(self.unseen), len(self.state_of_pair))
        return sparse.csr_array((self.chance, (self.state_of_pair, np.arange(shape[1]))), shape=shape)

    def kernel(self) -> Any:
        """States to states under the target; empty states restart."""
        moved = (self.policy() @ self.transitions()).tocsr()
        empty = np.flatnonzero(np.bincount(self.state_of_pair, minlength=len(self.unseen)) == 0)
        logged = group_sums(self.state_of_pair, self.times, len(self.unseen))
        leave = sparse.csr_array((np.ones(len(empty)), (empty, np.zeros(len(empty), dtype=int))), (len(logged), 1))
        return (moved + leave @ sparse.csr_array(logged[None] / logged.sum())).tocsr()


def counted_model(problem: Problem) -> CountedModel:
    """Count the steps, and scale the target over the seen actions."""
    return scaled(count_pairs(problem))


def scaled(counted: CountedPairs) -> CountedModel:
    """Counts with the target scaled over the seen actions."""
    covered = counted.covered[counted.state_of_pair]
    uniform = 1 / np.bincount(counted.state_of_pair, minlength=counted.states)[counted.state_of_pair]
    return CountedModel(
        pair=counted.pair,
        following=counted.following,
        weight=counted.weight,
        state_of_pair=counted.state_of_pair,
        chance=np.divide(counted.chance, covered, out=uniform, where=covered > 0),
        unseen=1 - counted.covered,
        starts=counted.starts,
        reward=counted.reward,
    )


def solve(model: CountedModel, gamma: float) -> tuple[float, Floats, Floats]:
    """The value, the law over states and the value function over states, all exact."""
    chain = FiniteChain.plain(model.kernel())
    reward = model.policy() @ model.reward
    logged = group_sums(model.state_of_pair, model.times, len(reward))
    law = chain.distribution(model.initial if gamma < 1 else logged / logged.sum(), gamma)
    values = chain.value_function(reward, gamma)
    return float((1 - gamma) * model.initial @ values if gamma < 1 else law @ reward), law, values


def find_tabular(problem: Problem, simulate: int | None) -> RawEstimate:
    """Solve the counted model; `simulate`: as many steps of one rollout instead, as in the paper."""
    model = counted_model(problem)
    value, law, values = solve(model, problem.gamma)
    mass = law[model.state_of_pair] * model.chance
    sums = influence(problem, count_pairs(problem), value, mass, values)
    tau = (mass / (model.times / model.weight.sum()))[model.pair]
    weights = group_sums(problem.steps.rows, tau * model.weight, len(problem.data))
    unseen = float(law @ np.maximum(model.unseen, 0) / law.sum())
    after = model.reward + problem.gamma * (model.transitions() @ values)
    middle = mass @ after / mass.sum()
    spread = float(np.sqrt(mass @ (after - middle) ** 2 / mass.sum())) if unseen > 0 else 0.0
    evidence = evidence_of_weights(
        problem.data,
        weights,
        unseen_mass=unseen,
        remarks=clock_remarks(problem, known=False),
    )
    diagnostics = {"solver": "counts", "exact_value": value, "dropped": problem.steps.dropped}
    answer = value if simulate is None else rollout(model, problem.gamma, simulate, problem.seed)
    return RawEstimate(
        value=answer,
        uncertainty=Bootstrap(episodes=sums, suspected_bias=max(unseen * spread, abs(answer - value))),
        weights=weights,
        evidence=evidence,
        diagnostics=diagnostics,
    )


def rollout(model: CountedModel, gamma: float, horizon: int, seed: int) -> float:
    """The mean reward along one simulated trajectory, weighted by γ^t."""
    rng = np.random.default_rng(seed)
    policy, transitions, kernel = model.policy(), model.transitions(), model.kernel()
    initial = model.initial if model.initial.any() else np.full(len(model.unseen), 1 / len(model.unseen))
    state, total, mass = int(rng.choice(len(initial), p=initial)), 0.0, 0.0
    for time in range(horizon):
        pair = _draw(policy, state, rng)
        total += gamma**time * (0.0 if pair is None else model.reward[pair])
        mass += gamma**time
        following = _draw(kernel, state, rng) if pair is None else _draw(transitions, pair, rng)
        if following is None:
            mass += gamma ** (time + 1) / (1 - gamma)
            break
        state = following
    return total / mass


def _draw(matrix: Any, row: int, rng: np.random.Generator) -> int | None:
    """A column of a sparse row, by its probabilities; None for what is missing to 1."""
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    place = int(np.searchsorted(np.cumsum(matrix.data[part]), rng.random() * (1 - 1e-12)))
    return int(matrix.indices[part][place]) if place < part.stop - part.start else None
