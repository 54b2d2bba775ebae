"""Ordered states, few data: each state's distribution of increments x' - x, shrunk towards the one of all states.

A queue moves by the same rule at every length; what would leave the range of states stays at its end, like a service
that finds the queue empty. Sharing what all states show about increments makes the ratio smooth; how far to share is
read off the data's own likelihood.
"""

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from ope_vpm.arrays import Array, Bools, Floats, Integers, group_sums
from ope_vpm.chain.finite.counts import CountedChain, StateIndex, initial_distribution, matrix_of, successor_weights
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.chain.transitions import Transitions

STRENGTHS = np.logspace(-1, 5, 61)
"""The concentrations κ that are tried, ten per decade: from a tenth of an observation, which changes nothing, to 10⁵,
with which all states move alike."""
MOST_ENTRIES = 50_000_000
"""The largest matrix of states by increments: 400 MB."""
ROUNDS, SETTLED = 1000, 1e-10
"""Most rounds of the EM algorithm, and the change of a probability below which it ends. Its error falls by the share of
rows at the ends in each round: 200 rounds if this is 0.9."""


def pooled(transitions: Transitions, strength: bool | float) -> CountedChain:
    """Count transitions over the whole range of states, each row mixed with the pooled distribution of increments.

    Args:
        transitions: between ordered states; every whole number in their range becomes a state.
        strength: how many observations the pooled distribution is worth in each state; True: by likelihood.
    """
    transitions = transitions.with_weight()
    x, x_next = transitions.x, transitions.reached
    low, high = int(min(x.min(), x_next.min())), int(max(x.max(), x_next.max()))
    increments = np.unique(x_next - x[:, None])
    size = high - low + 1
    if size * increments.size > MOST_ENTRIES:
        raise ValueError(
            f"pool_increments needs a short range of ordered states: {size} states x {increments.size} increments"
        )
    weight = successor_weights(transitions)
    counts = matrix_of(np.broadcast_to(x[:, None] - low, x_next.shape), x_next - low, weight, size)
    at_end = (x_next == low).ravel(), (x_next == high).ravel()
    number = np.searchsorted(increments, (x_next - x[:, None]).ravel())
    prior = _applied(increments, pooled_increments(number, weight.ravel(), increments.size, at_end), size)
    kappa = float(strength) if strength is not True else likeliest_strength(counts, prior)
    times = np.asarray(counts.sum(axis=1)).ravel()
    mixed = (sparse.diags_array(1 / (times + kappa)) @ (counts + kappa * prior)).tocsr()
    mixed.eliminate_zeros()
    p = times / times.sum()
    return CountedChain(
        index=StateIndex.of(np.arange(low, high + 1)),
        p=p,
        kernel=mixed,
        lost=np.zeros(size),
        restart=p,
        known_initial=initial_distribution(transitions, lambda x: np.clip(x - low, 0, size - 1), size),
        unseen=(times == 0).astype(np.float64),
        times=np.bincount(x - low, minlength=size),
    )


def likeliest_strength(counts: SparseMatrix, prior: SparseMatrix) -> float:
    """The concentration κ of the Dirichlet prior κ·prior under which the counts are most likely."""
    counts = counts.tocoo()
    probability = np.asarray(prior.tocsr()[counts.row, counts.col]).ravel()
    times = np.bincount(counts.row, weights=counts.data)
    times = times[times > 0]

    def log_likelihood(kappa: float) -> float:
        rows = times.size * gammaln(kappa) - gammaln(kappa + times).sum()
        cells = gammaln(kappa * probability + counts.data) - gammaln(kappa * probability)
        return float(rows + cells.sum())

    return float(max(STRENGTHS, key=log_likelihood))


def pooled_increments(number: Integers, weight: Floats, size: int, at_end: tuple[Bools, Bools]) -> Floats:
    """The distribution of increments that is most likely if what would leave the range stays at its end.

    A queue that is empty before and after a step may have moved by 0, or lost a customer that was not there: counting
    such steps as increments of 0 would make long queues shrink too slowly. The EM algorithm shares each step that ends
    at the lower end among the increments up to the one seen, and at the upper end among those from it on.

    Args:
        number: of each step's increment, in increasing order of increments.
        weight: of each step.
        size: how many increments there are.
        at_end: whether each step ends in the least state, and whether in the largest.
    """
    below, above = at_end[0] & ~at_end[1], at_end[1] & ~at_end[0]
    exact, lower, upper = (group_sums(number[kept], weight[kept], size) for kept in (~(below | above), below, above))
    total = exact + lower + upper
    share: Floats = total / total.sum()
    for _ in range(ROUNDS):
        up_to, from_on = np.cumsum(share), np.cumsum(share[::-1])[::-1]
        from_lower = share * np.cumsum((lower / up_to)[::-1])[::-1]
        from_upper = share * np.cumsum(upper / from_on)
        last, share = share, (exact + from_lower + from_upper) / total.sum()
        if np.abs(share - last).max() < SETTLED:
            break
    return share


def _applied(increments: Array, share: Floats, size: int) -> SparseMatrix:
    """One distribution of increments applied to each state; what would leave the range stays at its end."""
    state = np.arange(size)
    target = np.clip(state[:, None] + increments, 0, size - 1)
    return matrix_of(np.repeat(state, increments.size), target, np.tile(share, size), size)
