"""A completed finite model: counts where there are any, and one substitute for all pairs that were never seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ope_vpm.arrays import ROUNDING, Floats, Integers
from ope_vpm.chain.finite.chain import FiniteChain, named_states, reducibility
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.ope.finite.mixture import Mixture
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.solve import Completion, FiniteSolution


@dataclass(frozen=True, eq=False)
class CompletedModel(Completion):
    """In each state the target takes a seen pair, or else the substitute, which pays something and leads somewhere."""

    problem: FiniteProblem
    probability: Floats
    """(pairs,): the probability of each seen pair in its state."""
    substitute: Floats
    """(states,): the probability of the substitute."""
    substitute_reward: Floats
    """(states,): what the substitute pays."""
    substitute_next: Floats
    """(states,): the distribution of the state after it; sums to less than 1 where it may end."""
    represented_by: Floats
    """(pairs,): the distribution over seen pairs for which the substitute's mass counts; zeros where for none."""
    begins_after: bool
    """At γ = 1 the log's mass decides how several closed classes are mixed: whether that of a step begins at the state
    after it rather than at its own."""
    borrowed: SparseMatrix | None = None
    """(states, pairs), sparse: the probability of seen pairs of other states that stand for unseen ones."""

    @classmethod
    def of_seen(cls, problem: FiniteProblem) -> CompletedModel:
        """The model with nothing in the place of unseen pairs: it ends with them."""
        counts = problem.counts
        nothing = np.zeros(counts.states)
        return cls(problem, problem.probability, nothing, nothing, nothing, np.zeros(counts.pairs), begins_after=False)

    @property
    def policy(self) -> SparseMatrix:
        """(states, pairs), sparse: the probability of each seen pair in its state, and of those it borrows."""
        counts = self.problem.counts
        places = counts.state_of_pair, np.arange(counts.pairs)
        own = sparse.csr_array((self.probability, places), shape=(counts.states, counts.pairs))
        return own if self.borrowed is None else (own + self.borrowed).tocsr()

    @property
    def start(self) -> Floats:
        """(states,): the distribution of the states at which the log's mass begins."""
        counts = self.problem.counts
        return counts.times / counts.times.sum() @ counts.transitions if self.begins_after else counts.logged_states

    @cached_property
    def chain(self) -> FiniteChain:
        """The chain of states under the target; the substitute is an instantaneous state of it."""
        kernel = (self.policy @ self.problem.counts.transitions).tocsr()
        kernel.eliminate_zeros()
        enter, leave = sparse.csr_array(self.substitute[:, None]), sparse.csr_array(self.substitute_next[None])
        return FiniteChain(kernel, enter, leave)

    def solve(self) -> FiniteSolution:
        """The exact solution."""
        problem, chain = self.problem, self.chain
        counts, gamma = problem.counts, problem.gamma
        reward = self.policy @ counts.reward + self.substitute * self.substitute_reward
        distribution = chain.distribution(self.start if gamma == 1 else counts.initial, gamma)
        values = chain.value_function(reward, gamma)
        value = float(distribution @ reward if gamma == 1 else (1 - gamma) * counts.initial @ values)
        return FiniteSolution(
            value=value,
            distribution=distribution,
            mass=self.mass(distribution),
            values=values,
            q=problem.q(values, value if gamma == 1 else 0.0),
            unseen_mass=float(distribution @ problem.unseen / distribution.sum()),
            mixture=self.mixture(reward),
            doubts=self.doubts(),
        )

    def mass(self, of_states: Floats) -> Floats:
        """(pairs,): how much each seen pair counts, from how much each state does."""
        taken = of_states[self.problem.counts.state_of_pair] * self.probability
        whole: Floats = taken + (of_states @ self.substitute) * self.represented_by
        return whole if self.borrowed is None else whole + of_states @ self.borrowed

    def mixture(self, reward: Floats) -> Mixture | None:
        """How closed classes are mixed, where there are several of them."""
        if self.problem.gamma < 1 or len(self.chain.closed_classes) == 1:
            return None
        start, passes = self.start, self.mass(self.chain.passes(self.start))
        return Mixture.of(self.problem.counts, self.chain.gain(reward), passes, start, self.begins_after)

    def doubts(self) -> tuple[str, ...]:
        """That there is no single stationary distribution, or one on a small part of the log."""
        if self.problem.gamma < 1:
            return ()
        labels = self.problem.counts.labels
        doubt = reducibility(self.chain, self._share_of_log, lambda members: named_states(labels[members]))
        return () if doubt is None else (doubt,)

    def _share_of_log(self, members: Integers) -> float:
        """The share of the log's steps with pairs that a closed class of the chain takes, the substitute included."""
        counts = self.problem.counts
        inside = np.zeros(counts.states + 1, dtype=bool)
        inside[members] = True
        taken = inside[counts.state_of_pair] & (self.probability > 0)
        if inside[-1]:
            taken |= self.represented_by > 0
        if self.borrowed is not None:
            taken |= inside[:-1].astype(np.float64) @ self.borrowed > 0
        return float(counts.times[taken].sum() / counts.times.sum())

    def rollout(self, horizon: int, seed: int) -> float:
        """The mean reward along one simulated trajectory, weighted by γ^t: the paper's model-based estimate."""
        rng, counts, gamma = np.random.default_rng(seed), self.problem.counts, self.problem.gamma
        policy = sparse.hstack([self.policy, self.substitute[:, None]], format="csr")
        transitions = sparse.vstack([counts.transitions, self.substitute_next[None]], format="csr")
        initial = counts.initial if counts.initial.any() else np.full(counts.states, 1 / counts.states)
        state, total, time_weight = int(rng.choice(len(initial), p=initial)), 0.0, 0.0
        for time in range(horizon):
            pair = _drawn_column(policy, state, rng)
            if pair is None:
                raise ArithmeticError(f"the target's probabilities in state {state} do not sum to 1")
            reward = counts.reward[pair] if pair < counts.pairs else self.substitute_reward[state]
            total, time_weight = total + gamma**time * reward, time_weight + gamma**time
            next_state = _drawn_column(transitions, pair, rng)
            if next_state is None:
                time_weight += gamma ** (time + 1) / (1 - gamma)
                break
            state = next_state
        return float(total / time_weight)


def _drawn_column(matrix: SparseMatrix, row: int, rng: np.random.Generator) -> int | None:
    """A column of a sparse row of probabilities, drawn by them; None with the probability that is missing to 1."""
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    place = int(np.searchsorted(np.cumsum(matrix.data[part]), rng.random() * (1 - ROUNDING)))
    return int(matrix.indices[part][place]) if place < part.stop - part.start else None
