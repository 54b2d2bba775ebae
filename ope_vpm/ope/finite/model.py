"""A completed finite model: a linear map M from states to seen pairs, and substitutes for what was never seen.

    M = D + EL,   V = M'y,   mass of pairs = M'd transposed,

D (states, pairs) sparse, E (states, substitutes) and L (substitutes, pairs): a state is worth its seen pairs, and a few
linear combinations of all of them. Stationary and discounted solutions, episodes that a clock ends and likelihood
intervals all use this one map.

Where the target's chain has several closed classes c with average rewards g_c at γ = 1, the value is v = Σ_s p(s)·g(s),
where p is the distribution of the logged states and g(s) the average reward in the long run from s: g_c within a class,
and g = 𝒯g in transient states. Besides the rewards and transitions within the classes, two things move it:

    ψ = g(s) - v                                        how much of the log begins where,
      + N(s, a)/p(s, a) · (g(s') - Σ_s' P̂(s'|s, a)g(s'))  where transient pairs lead,

N(s, a) being the expected number of passes through a transient pair before a class is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.arrays import ROUNDING, Floats, Integers
from ope_vpm.chain.finite.chain import FiniteChain, named_states, reducibility
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.threads import cached_property


@dataclass(frozen=True, eq=False)
class Mixture:
    """The average rewards of several closed classes, and how the log's mass reaches them."""

    value: float
    """The mean of `gain` over the log's mass."""
    gain: Floats
    """(states,): the average reward in the long run from each state."""
    ratio: Floats
    """(pairs,): the passes through each transient pair over the log's share of it; 0 within closed classes."""
    gain_after: Floats
    """(pairs,): the expected gain of the state after each pair."""
    begins_after: bool
    """Whether the mass of a logged step begins at the state after it rather than at its own."""

    @classmethod
    def of(cls, counts: PairCounts, gain: Floats, passes: Floats, start: Floats, begins_after: bool) -> Mixture:
        """Put the mixture together.

        Args:
            counts: the log.
            gain: (states,): the average reward in the long run from each state.
            passes: (pairs,): the expected number of passes through each pair before a closed class is reached.
            start: (states,): the distribution of the log's mass.
            begins_after: whether that is the distribution of the states after the steps.
        """
        ratio = passes * counts.times.sum() / counts.times
        return cls(float(start @ gain / start.sum()), gain, ratio, counts.transitions @ gain, begins_after)

    def influence(self, counts: PairCounts) -> Floats:
        """(steps,): ψ of each logged step; its mean is 0 over the steps that the mixture was counted from."""
        begins = counts.next_state if self.begins_after else counts.state_of_pair[counts.pair]
        after = counts.value_after(self.gain) - self.gain_after[counts.pair]
        psi: Floats = self.gain[begins] - self.value + self.ratio[counts.pair] * after
        return psi


@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteSolution:
    """The exact solution of a completed model."""

    value: float
    """What the target is worth, on the scale of one reward."""
    distribution: Floats
    """(states,): where the target spends its time; below γ = 1 the time after an absorbing end is left out."""
    mass: Floats
    """(pairs,): how much of that time each seen pair counts for, unseen pairs that it represents included."""
    values: Floats
    """(states,): V; at γ = 1 the differential value, up to a constant."""
    q: Floats
    """(pairs,): Q of the seen pairs, with the average reward taken off at γ = 1."""
    unseen_mass: float
    """The share of the target's time on pairs that were never seen."""
    beyond: float = 0.0
    """The share of the target's time that regions which the log never reached may take: see `Fit.beyond`."""
    error: float = 0.0
    """How far the value may be off because of what was put in the place of unseen pairs, as one standard error."""
    unseen_range: tuple[float, float] = (0.0, 0.0)
    """How far below and above the value lies what the extremes seen so far would make of it, were all unseen pairs like
    them; zeros where predictions of unseen pairs could be checked."""
    alternative: float | None = None
    """The value by another treatment, where the error is the distance to it."""
    mixture: Mixture | None = None
    """How several closed classes are mixed at γ = 1; None where there is one."""
    predicted: bool = False
    """Whether the values of unseen pairs were predicted from those of seen ones, which `error` then knows."""
    details: dict[str, Any] = field(default_factory=dict)
    """More about the treatment, for people to read."""
    doubts: tuple[str, ...] = ()
    """What makes the solution itself doubtful, in sentences."""

    @property
    def spread(self) -> float:
        """The standard deviation of Q over the pairs that the target takes."""
        total = self.mass.sum()
        if total == 0:  # it takes nothing that was seen
            return 0.0
        mean = self.mass @ self.q / total
        return float(np.sqrt(self.mass @ (self.q - mean) ** 2 / total))


@dataclass(frozen=True, eq=False)
class CompletedModel:
    """In each state the target takes a seen pair, or else a substitute, which pays something and leads somewhere."""

    problem: FiniteProblem
    probability: Floats
    """(pairs,): the probability of each seen pair in its state."""
    substitute: Floats
    """(states, substitutes), E: the probability of each substitute. Those after the first may count negatively."""
    substitute_reward: Floats
    """(substitutes,): what each pays."""
    substitute_next: Floats
    """(substitutes, states): the distribution of the state after each; sums to less than 1 where it may end."""
    represented_by: Floats
    """(substitutes, pairs), L: the seen pairs for which the mass of each counts; zeros where for none."""
    begins_after: bool
    """At γ = 1 the log's mass decides how several closed classes are mixed: whether that of a step begins at the state
    after it rather than at its own."""
    borrowed: SparseMatrix | None = None
    """(states, pairs), sparse: the probability of seen pairs of other states that stand for unseen ones."""

    @cached_property
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
        """The chain of states under the target; the substitutes are instantaneous states of it."""
        kernel = (self.policy @ self.problem.counts.transitions).tocsr()
        kernel.eliminate_zeros()
        return FiniteChain(kernel, sparse.csr_array(self.substitute), sparse.csr_array(self.substitute_next))

    def solve(self) -> FiniteSolution:
        """The exact solution."""
        problem, counts, gamma = self.problem, self.problem.counts, self.problem.gamma
        reward = self.pay
        values, distribution = self.balance
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

    @cached_property
    def balance(self) -> tuple[Floats, Floats]:
        """(states,) each: V, and where the target spends its time."""
        gamma, start = self.problem.gamma, self.start if self.problem.gamma == 1 else self.problem.counts.initial
        if self.signed and gamma == 1:
            return self.chain.signed(self.pay, start)
        return self.chain.value_function(self.pay, gamma), self.chain.distribution(start, gamma)

    @property
    def signed(self) -> bool:
        """Whether some substitutes may count negatively: then there is one closed class."""
        return len(self.substitute_reward) > 1

    @property
    def pay(self) -> Floats:
        """(states,): the mean reward of a step from each state."""
        pay: Floats = self.policy @ self.problem.counts.reward + self.substitute @ self.substitute_reward
        return pay

    def values(self, y: Floats) -> Floats:
        """(states, k): V from outcomes y of the seen pairs, (pairs, k): M'y, the transpose of `mass`."""
        values: Floats = self.policy @ y + self.substitute @ (self.represented_by @ y)
        return values

    def mass(self, of_states: Floats) -> Floats:
        """(pairs,): how much each seen pair counts, from how much each state does."""
        whole: Floats = of_states @ self.policy + (of_states @ self.substitute) @ self.represented_by
        return whole

    def mixture(self, reward: Floats) -> Mixture | None:
        """How closed classes are mixed, where there are several of them."""
        if self.problem.gamma < 1 or self.signed or len(self.chain.closed_classes) == 1:
            return None
        start, passes = self.start, self.mass(self.chain.passes(self.start))
        return Mixture.of(self.problem.counts, self.chain.gain(reward), passes, start, self.begins_after)

    def doubts(self) -> tuple[str, ...]:
        """That there is no single stationary distribution, or one on a small part of the log."""
        if self.problem.gamma < 1 or self.signed:
            return ()
        labels = self.problem.counts.labels
        doubt = reducibility(self.chain, self._share_of_log, lambda members: named_states(labels[members]))
        return () if doubt is None else (doubt,)

    def _share_of_log(self, members: Integers) -> float:
        """The share of the log's steps that begin in the states of a closed class, whatever action they took."""
        counts = self.problem.counts
        inside = np.zeros(counts.states + 1, dtype=bool)
        inside[members] = True
        return float(counts.times[inside[counts.state_of_pair]].sum() / counts.times.sum())

    def rollout(self, horizon: int, seed: int) -> float:
        """The mean reward along one simulated trajectory, weighted by γ^t: the paper's model-based estimate."""
        rng, counts, gamma = np.random.default_rng(seed), self.problem.counts, self.problem.gamma
        if self.signed:
            raise ValueError("unseen='auto' says what unseen pairs are worth, not where they lead: use 'pooled'")
        policy = sparse.hstack([self.policy, self.substitute], format="csr")
        transitions = sparse.vstack([counts.transitions, self.substitute_next], format="csr")
        initial = counts.initial if counts.initial.any() else np.full(counts.states, 1 / counts.states)
        state, total, time_weight = int(rng.choice(len(initial), p=initial)), 0.0, 0.0
        for time in range(horizon):
            pair = _drawn_column(policy, state, rng)
            if pair is None:
                raise ArithmeticError(f"the target's probabilities in state {state} do not sum to 1")
            reward = counts.reward[pair] if pair < counts.pairs else self.substitute_reward[0]
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
