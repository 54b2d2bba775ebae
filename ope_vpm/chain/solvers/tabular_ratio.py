"""The ratio that the tabular solver finds, with the value function and the sampling variance of its counted chain."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Floats, group_sums
from ope_vpm.chain.finite.counts import CountedChain, StateIndex, count, largest_class
from ope_vpm.chain.finite.pooling import pooled
from ope_vpm.chain.finite.reversible import reversible
from ope_vpm.chain.finite.small_counts import smoothed_variance
from ope_vpm.chain.solvers.solution import ValueFunction
from ope_vpm.chain.transitions import Transitions


@dataclass(frozen=True)
class TabularRatio:
    """τ = μ/p over finite states."""

    kind = "tabular"

    states: Any
    """The labels of the states, sorted."""
    p: Floats
    mu: Floats
    unseen: str
    pool_increments: bool | float
    reversible: bool = False
    largest: bool = False
    """Whether the rows outside of the largest communicating class were left out."""

    def __call__(self, x: Array) -> Floats:
        """τ(x); 0 for a state never seen, where there is no data to weigh."""
        number = StateIndex.of(self.states)(x)
        tau = np.divide(self.mu, self.p, out=np.zeros_like(self.mu), where=self.p > 0)
        return np.where(number >= 0, tau[number], 0.0)

    def probabilities(self, states: Array) -> Floats:
        """The stationary probability of each of some states."""
        number = StateIndex.of(self.states)(states)
        return np.where(number >= 0, self.mu[number], 0.0)

    def value_function(self, transitions: Transitions, values: Floats, gamma: float) -> ValueFunction:
        """The h with h = values - E_μ[values] + 𝒯h (γ = 1), or h = values + γ𝒯h."""
        counted, kept, values = self._kept(transitions, values)
        row = counted.index(kept.x)
        total = group_sums(row, kept.row_weights * values, len(counted.p))
        times = counted.p * len(kept)
        reward = np.divide(total, times, out=np.zeros_like(total), where=times > 0)
        return _by_state(counted, counted.chain.value_function(reward, gamma))

    def sampling_variance(
        self, transitions: Transitions, values: Floats, mean: float, gamma: float
    ) -> tuple[float, ValueFunction] | None:
        """The variance of an expectation that knows how few rows states have, and the value function that it used.

        None where the influence function is taken as it is: with pooled increments and detailed balance, which share
        rows between states already, where successors are known with their probabilities, and where there are too many
        states that mix too slowly. If these form several closed classes, perhaps only because a row between them is
        missing, the variance is ∞: it takes their shares for the data's own, and on a ring of 50 000 states with four
        rows each E[f] was off by 180 of its standard errors.
        """
        if self.reversible or self.pool_increments is not False or transitions.next_weight is not None:
            return None
        counted = counts_by(transitions, self.unseen)  # with all classes, for smoothing tells how they may be joined
        found = smoothed_variance(counted, transitions, values, mean, gamma)
        if found is None and gamma == 1 and len(counted.chain.closed_classes) > 1:
            found = np.inf, np.zeros(len(counted.p))
        return None if found is None else (found[0], _by_state(counted, found[1]))

    def _kept(self, transitions: Transitions, values: Floats) -> tuple[CountedChain, Transitions, Floats]:
        """The chain that the ratio was found from, its rows, and their values."""
        counted = counts_by(transitions, self.unseen, self.pool_increments)
        found = largest_class(transitions, counted, self.unseen) if self.largest else None
        if found is None:
            return counted, transitions, values
        kept = transitions.select(found.rows)
        return counts_by(kept, self.unseen), kept, values[found.rows]

    def arrays(self) -> dict[str, Any]:
        """Everything, for saving."""
        return {"states": self.states, "p": self.p, "mu": self.mu}

    def settings(self) -> dict[str, Any]:
        """Everything that is not an array, for saving."""
        return {
            "unseen": self.unseen,
            "pool_increments": self.pool_increments,
            "reversible": self.reversible,
            "largest": self.largest,
        }


def counts_by(transitions: Transitions, unseen: str, pool_increments: bool | float = False) -> CountedChain:
    """The counts by a treatment that is already chosen."""
    if pool_increments is not False:
        return pooled(transitions, pool_increments)
    return reversible(transitions) if unseen == "reversible" else count(transitions, unseen)


def _by_state(counted: CountedChain, value: Floats) -> ValueFunction:
    """Numbers of states as a function of states; of a state never seen, their mean over where it restarts."""

    def evaluate(x: Array) -> Floats:
        number = counted.index(x)
        return np.where(number >= 0, value[number], counted.restart @ value)

    return evaluate
