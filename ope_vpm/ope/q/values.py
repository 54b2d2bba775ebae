"""Q and V at the steps of a log and at its initial states, and the value that they imply.

For any V = E_π[Q] and any number ℓ, the target's stationary distribution d gives

    v = ℓ + (1-γ)E₀[V] + E_d[r - ℓ + γV(s') - Q(s, a)],

so the Bellman residuals, weighted by the ratio τ = d/p, are both the error of the first two terms and their influence
function.
"""

from dataclasses import dataclass

from ope_vpm.arrays import Floats
from ope_vpm.ope.inference.uncertainty import EpisodeSums, influence_sums
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class QValues:
    """Q and V at the steps of a problem's plan and at its initial states."""

    q: Floats
    """Q(s, a) of each step."""
    after: Floats
    """V(s') of each step; where nothing follows, of the end."""
    first: Floats
    """V of each initial state."""
    level: Floats
    """ℓ for each step: γ = 1, the average reward."""

    def value(self, problem: Problem) -> float:
        """The value of Q itself, ℓ + (1-γ)E₀[V]."""
        share = problem.steps.weight / problem.steps.weight.sum()
        return float(share @ self.level) + (1 - problem.gamma) * float(self.first.mean() if len(self.first) else 0.0)

    def residual(self, problem: Problem) -> Floats:
        """The Bellman residual r - ℓ + γV(s') - Q(s, a) of each step."""
        rewards = problem.data.rewards[problem.steps.rows]
        return rewards - self.level + problem.gamma * self.after - self.q


def influence(problem: Problem, tau: Floats, residual: Floats, first: Floats) -> EpisodeSums:
    """Per-episode sums of τ·residual, and what the initial states add.

    Args:
        problem: the question.
        tau: the ratio at each of the plan's steps.
        residual: of each step.
        first: V of each initial state.
    """
    plan = problem.steps
    share = plan.weight / plan.weight.sum()
    return influence_sums(problem, plan.rows, share, share * tau, residual, first)
