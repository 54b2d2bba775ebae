"""The sampling variance of expectations under a counted chain, where states have few rows each.

The influence function of the counted chain takes the counts for the truth. With two to five rows per state that is far
too sure: a state seen once seems to have one successor, a set of states that happens not to be left seems to be left
never, and the variance around a mean of two rows is half of what it should be. So the chain is smoothed, as under a
Dirichlet prior, by two kinds of pseudo-observations:

* one row per state, to its neighbours: the states that it was seen to lead to or to be reached from, in proportion (the
  neighbour prior of Markov state models; one row is a unit-information prior, Kass and Wasserman 1995);
* one row in all, to anywhere in the data, so that no set of states is closed.

The variance is that of the counted rows under the smoothed chain, plus the square of what smoothing changes. Both kinds
of pseudo-observations lose their weight as rows are added, and the influence function's variance is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ope_vpm.arrays import Floats, Integers, group_sums
from ope_vpm.chain.batches import sum_of_products
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.chain.finite.counts import CountedChain
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.chain.transitions import Transitions


@dataclass(frozen=True, eq=False)
class SmoothedChain:
    """A counted chain with one pseudo-observation per state, to its neighbours."""

    chain: FiniteChain
    """The Markov chain that this makes."""
    near: SparseMatrix
    """The distribution of each state's pseudo-observation; a row of zeros for a state without neighbours."""
    times: Floats
    """The effective number of rows of each state, (Σw)²/Σw² of their weights."""
    added: Floats
    """The pseudo-observations of each state: 1, or 0 without neighbours."""

    @classmethod
    def of(cls, counted: CountedChain, row: Integers, weight: Floats) -> SmoothedChain:
        """Smooth a counted chain.

        Args:
            counted: the counts, without states that have no row.
            row: the number of each row's state.
            weight: of each row, positive.
        """
        size = len(counted.p)
        largest = np.zeros(size)
        np.maximum.at(largest, row, weight)
        scaled = weight / largest[row]  # squares of very small or large weights are no numbers
        times = group_sums(row, scaled, size) ** 2 / group_sums(row, scaled**2, size)
        counts = sparse.diags_array(times) @ counted.kernel
        both = (counts + counts.T).tocsr()
        total = np.asarray(both.sum(axis=1)).ravel()
        near = sparse.diags_array(np.divide(1.0, total, out=np.zeros(size), where=total > 0)) @ both
        added = (total > 0).astype(np.float64)
        scale = sparse.diags_array(1 / (times + added))
        enter = sparse.csr_array((times * counted.lost / (times + added))[:, None])
        chain = FiniteChain((scale @ (counts + near)).tocsr(), enter, counted.chain.leave)
        return cls(chain, near, times, added)

    def spread(self, h: Floats, centre: Floats) -> Floats:
        """The mean square of h(x') - centre over the pseudo-observation x' of each state."""
        squares: Floats = self.near @ h**2 - 2 * centre * (self.near @ h) + centre**2 * self.added
        return np.maximum(squares, 0.0)  # rounding may leave less than 0


def smoothed_variance(
    counted: CountedChain, transitions: Transitions, values: Floats, mean: float, gamma: float
) -> tuple[float, Floats] | None:
    """Return the sampling variance of E_μ[values], and the smoothed chain's value function h by state.

    None where the chain is too large and too slow for its equations to be solved.

    With n rows of a state, y the outcome values + γh(x') of each and m their mean under the smoothed chain, the
    variance is Σ μ²/n · Σ(y - m)²/(n + 1), the outer sum over states and the inner one over rows and the
    pseudo-observation, plus (mean - E_μ[values])² under the smoothed chain. Rows whose pairs overlap in time are
    correlated: see `sum_of_products`.

    That one row in N goes anywhere in the data makes the stationary distribution a discounted one: with K the other
    rows' matrix, μ = (1 - 1/N)μK + p/N.

    Args:
        counted: the counts of the transitions.
        transitions: one successor per row.
        values: one number per row.
        mean: the estimate whose variance is asked for.
        gamma: the discount γ.
    """
    used = np.ones(len(transitions), dtype=bool) if transitions.weight is None else transitions.weight > 0
    row, weight = counted.index(transitions.x[used]), transitions.row_weights[used]
    size = len(counted.p)
    of_state = group_sums(row, weight, size)
    reward = group_sums(row, weight * values[used], size) / of_state
    smoothed = SmoothedChain.of(counted, row, weight)
    anywhere = 1 / smoothed.times.sum() if gamma == 1 else 0.0
    discount = 1 - anywhere if gamma == 1 else gamma
    solved = _solved(smoothed.chain, counted, reward, gamma, anywhere)
    if solved is None:
        return None
    mu, h = solved
    centre = smoothed.chain.mean_after(h)
    column = counted.index(transitions.x_next[used])
    after = np.where(column >= 0, h[column], counted.restart @ h)
    noise = values[used] - reward[row]
    shrunk = np.sqrt(smoothed.times / (smoothed.times + smoothed.added))
    psi = np.zeros(len(transitions))
    psi[used] = (mu * shrunk)[row] * (weight / of_state[row]) * (noise + discount * (after - centre[row]))
    added = smoothed.spread(h, centre) * discount**2 + smoothed.added * _noise_within(noise, weight, size)
    away = anywhere * np.maximum(counted.p @ h**2 - 2 * centre * (counted.p @ h) + centre**2, 0.0)
    more = mu**2 / smoothed.times * (added / (smoothed.times + smoothed.added) + away)
    variance = sum_of_products(psi, transitions.time, transitions.lag) + more.sum() + (mean - mu @ reward) ** 2
    return float(variance), h


def _solved(
    chain: FiniteChain, counted: CountedChain, reward: Floats, gamma: float, anywhere: float
) -> tuple[Floats, Floats] | None:
    """The distribution and the value function of the smoothed chain."""
    if gamma == 1:
        return chain.restarted(counted.p, reward, anywhere)
    return chain.distribution(counted.initial, gamma), chain.value_function(reward, gamma)


def _noise_within(noise: Floats, weight: Floats, states: int) -> float:
    """The variance of values around the mean of their state, over all states; 0 where f is a function of the state."""
    freedom = len(noise) - states
    return float(weight @ noise**2 / weight.mean() / freedom) if freedom > 0 else 0.0
