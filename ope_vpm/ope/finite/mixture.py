"""How several closed classes are mixed at γ = 1, and how uncertain that is.

Where the target's chain has several closed classes c with average rewards g_c, the value is v = Σ_s p(s)·g(s), where p
is the distribution of the logged states and g(s) the average reward in the long run from s: g_c within a class, and
g = 𝒯g in transient states. Besides the rewards and transitions within the classes, two things move it:

    ψ = g(s) - v                                        how much of the log begins where,
      + N(s, a)/p(s, a) · (g(s') - Σ_s' P̂(s'|s, a)g(s'))  where transient pairs lead,

N(s, a) being the expected number of passes through a transient pair before a class is reached.
"""

from __future__ import annotations

from dataclasses import dataclass

from ope_vpm.arrays import Floats
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.inference.uncertainty import EpisodeSums, entry_rate_of_ends, initial_sums
from ope_vpm.ope.problem import Problem


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


def mixture_sums(problem: Problem, psi: Floats, ratio: Floats, first: Floats) -> EpisodeSums:
    """Per-episode sums of ψ, and what the initial states add where transient pairs end episodes.

    Args:
        problem: the question.
        psi: of each step.
        ratio: the ratio of passes at each step.
        first: the gain of each initial state.
    """
    data, steps = problem.data, problem.steps
    share = steps.weight / steps.weight.sum()
    sums = EpisodeSums.of_rows(data.episode[steps.rows], data.n_episodes, share * psi, share)
    return sums.beside(initial_sums(problem, entry_rate_of_ends(problem, steps.rows, share * ratio), first))
