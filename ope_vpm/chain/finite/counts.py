"""Transitions between finite states, counted: the sparse matrix that the tabular solver works on.

The largest communicating class of a counted chain holds the states that lead to one another with the most transitions.
A state that a few rows reach and none happens to leave is a closed class, to which a chain in the long run gives all
probability. Short paths have many of them at their ends. As in Markov state models (deeptime's `submodel_largest`), the
largest class is kept instead, and what leaves it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ope_vpm.arrays import Array, Floats, Integers, group_sums
from ope_vpm.chain.finite.chain import NEARLY_ALL, FiniteChain, named_states
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.chain.transitions import Transitions
from ope_vpm.threads import cached_property

LOOSE_TABLE, SMALL_TABLE = 10, 1000
"""Labels are looked up in a table of one entry per possible label while that has at most 1000 entries more than ten
times the number of rows, that is, while it is no larger than the data themselves."""


@dataclass(frozen=True)
class StateIndex:
    """Numbers the states that occur, so that their labels may be anything from 0 to 2⁶³."""

    states: Integers
    """The labels, sorted."""
    table: Integers | None
    """The number of each label, -1 where there is none; None where labels are too spread out for a table."""

    @classmethod
    def of(cls, labels: Array) -> StateIndex:
        """Number the distinct labels."""
        largest = int(labels.max())
        if largest > LOOSE_TABLE * labels.size + SMALL_TABLE:
            return cls(np.unique(labels), None)
        table = np.full(largest + 1, -1, dtype=np.int64)
        table[labels] = 0
        states = np.flatnonzero(table == 0)
        table[states] = np.arange(states.size)
        return cls(states, table)

    def __call__(self, labels: Array) -> Integers:
        """The numbers of some labels, -1 for those that do not occur."""
        if self.table is not None:
            inside = labels < self.table.size
            return np.where(inside, self.table[np.where(inside, labels, 0)], -1)
        place = np.minimum(np.searchsorted(self.states, labels), self.states.size - 1)
        return np.where(self.states[place] == labels, place, -1)


@dataclass(frozen=True)
class CountedChain:
    """A finite chain as the data shows it, over the states seen as x.

    A step from state i goes to j with probability `kernel[i, j]`, and to a state never seen as x with probability
    `lost[i]`. What is lost comes back within the same step, distributed as `restart`.
    """

    index: StateIndex
    p: Floats
    """The share of the rows that start in each state."""
    kernel: SparseMatrix
    lost: Floats
    restart: Floats
    known_initial: Floats | None
    """The distribution of the initial states, as far as they were seen as x; None where there are none."""
    unseen: Floats
    """The share of each state's successors that were never seen as x, whatever becomes of them."""
    times: Integers
    """How many rows start in each state."""

    @cached_property
    def chain(self) -> FiniteChain:
        """The Markov chain that this makes: lost mass passes through one instantaneous state, whence it restarts."""
        return FiniteChain(self.kernel, sparse.csr_array(self.lost[:, None]), sparse.csr_array(self.restart[None]))

    @property
    def initial(self) -> Floats:
        """The distribution of the initial states, those never seen as x replaced by `restart`."""
        if self.known_initial is None:
            raise ValueError("there are no initial states")
        missing = 1 - float(self.known_initial.sum())
        return self.known_initial + missing * self.restart

    def distribution(self, gamma: float) -> Floats:
        """The stationary distribution (γ = 1), or the discounted one from the initial states."""
        return self.chain.distribution(self.p if gamma == 1 else self.initial, gamma)


def count(transitions: Transitions, unseen: str) -> CountedChain:
    """Count transitions; `unseen` says where mass goes that reaches an x' never seen as x (see `Tabular`)."""
    transitions = transitions.with_weight()
    weight, value = transitions.row_weights, successor_weights(transitions)
    labels, successors = transitions.x, transitions.successors
    index = StateIndex.of(labels)
    row, column = index(labels), index(successors)
    size = index.states.size
    p = group_sums(row, weight, size)
    missing = group_sums(row, np.where(column < 0, value, 0.0).sum(axis=1), size) / p
    if unseen == "restrict":
        value = _restricted(value, column, weight)
    kernel, lost = _normalised(row, column, value, group_sums(row, value.sum(axis=1), size))
    p /= weight.sum()
    times = np.bincount(row, minlength=size)
    restart = least_seen(times) if unseen == "good-turing" else p
    initial = initial_distribution(transitions, index, size)
    if unseen == "restrict" and initial is not None and initial.any():
        initial /= initial.sum()
    return CountedChain(index, p, kernel, lost, restart, initial, missing, times)


def _normalised(row: Integers, column: Integers, value: Floats, total: Floats) -> tuple[SparseMatrix, Floats]:
    """Counts divided by their rows' totals, and what each row lost to unknown columns."""
    size = total.size
    scale = np.divide(1.0, total, out=np.zeros(size), where=total > 0)
    probability = (value * scale[row][:, None]).ravel()
    rows = np.repeat(row, column.shape[1]) if column.shape[1] > 1 else row
    columns = column.ravel()
    known = columns >= 0
    lost = np.where(total > 0, 0.0, 1.0)
    if not known.all():
        lost += group_sums(rows[~known], probability[~known], size)
        rows, columns, probability = rows[known], columns[known], probability[known]
    kernel = sparse.coo_array((probability, (rows, columns)), shape=(size, size)).tocsr()
    kernel.eliminate_zeros()  # an edge that is never taken must not connect anything
    return kernel, lost


def _restricted(value: Floats, column: Integers, weight: Floats) -> Floats:
    """Each row's successors scaled up over the known ones; a row with none is left out."""
    known = np.where(column >= 0, value, 0.0)
    total = known.sum(axis=1)
    scale = np.divide(weight, total, out=np.zeros_like(total), where=total > 0)
    return known * scale[:, None]


def least_seen(times: Integers) -> Floats:
    """The uniform distribution over the states seen once (or, where none is, seen least often)."""
    rare = times == times.min()
    return rare / rare.sum()


def matrix_of(row: Array, column: Array, value: Array, size: int) -> SparseMatrix:
    """Return the sparse matrix whose entries are sums of values at rows and columns, given in arrays of one shape."""
    return sparse.coo_array((np.ravel(value), (np.ravel(row), np.ravel(column))), shape=(size, size)).tocsr()


def successor_weights(transitions: Transitions) -> Floats:
    """Return how much each successor of each row counts, (n, K)."""
    share = 1.0 if transitions.next_weight is None else transitions.next_weight
    return np.broadcast_to(transitions.row_weights[:, None] * share, transitions.successors.shape[:2])


def initial_distribution(transitions: Transitions, number: Callable[[Array], Integers], size: int) -> Floats | None:
    """Return the distribution of the initial states over those with a number; None where there are none.

    Args:
        transitions: with or without initial states.
        number: the numbers of states, -1 for those without one.
        size: how many states have a number.
    """
    if transitions.x_initial is None:
        return None
    numbers, weight = number(transitions.x_initial), transitions.initial_weights
    known = numbers >= 0
    return group_sums(numbers[known], weight[known], size) / weight.sum()


@dataclass(frozen=True, eq=False)
class LargestClass:
    """The rows within the largest communicating class, and what was left out."""

    rows: Integers
    """The rows that begin and end in the class."""
    share: float
    """The share of the transitions that do."""
    states: Integers
    """The labels of the states that begin a row of the class."""
    others: Integers
    """The labels of the states that were left out."""

    @property
    def doubtful(self) -> bool:
        """Whether so much was left out that the answer is doubtful."""
        return self.share < NEARLY_ALL

    def __str__(self) -> str:
        return (
            f"the counted chain is reducible: kept are {named_states(self.states)}, which lead to one another, with "
            f"{self.share:.1%} of the transitions; left out are {named_states(self.others)} (classes='all' gives their "
            "probability to the states that are never left)"
        )


def largest_class(transitions: Transitions, counted: CountedChain, unseen: str) -> LargestClass | None:
    """Find the largest communicating class; None where the chain ends in it anyway, and nothing is to be left out.

    Args:
        transitions: with one successor per row.
        counted: the chain that they make.
        unseen: what becomes of mass there that reaches an x' never seen as x, as in `Tabular`; "reversible": it goes
            back to where it came from.
    """
    index = StateIndex.of(np.concatenate([transitions.x, transitions.x_next]))
    row, column, weight = index(transitions.x), index(transitions.x_next), transitions.row_weights
    size = index.states.size
    begins = np.zeros(size, dtype=bool)
    begins[row[weight > 0]] = True
    ends = np.flatnonzero(~begins)
    starts, stops = [row[weight > 0]], [column[weight > 0]]
    if unseen == "reversible":
        back = ~begins[column]
        starts, stops = [*starts, column[back]], [*stops, row[back]]
    elif unseen != "restrict" and ends.size:  # by way of one more node, from which mass starts again
        anywhere = index(counted.index.states[counted.restart > 0])
        starts, stops = [*starts, ends, np.full(anywhere.size, size)], [*stops, np.full(ends.size, size), anywhere]
    start, stop = np.concatenate(starts), np.concatenate(stops)
    graph = sparse.coo_array((np.ones(start.size), (start, stop)), shape=(size + 1, size + 1)).tocsr()
    count, label = csgraph.connected_components(graph, directed=True, connection="strong")
    within = (label[row] == label[column]) & (weight > 0)
    if not within.any():
        return None
    largest = int(np.argmax(group_sums(label[row[within]], weight[within], count)))
    closed = np.ones(count, dtype=bool)
    closed[label[start[label[start] != label[stop]]]] = False
    closed[np.setdiff1d(label[size], label[row])] = False  # the node itself is no state
    if closed[largest] and closed[np.unique(label[row])].sum() == 1:
        return None
    rows = np.flatnonzero(within & (label[row] == largest))
    kept = np.zeros(size, dtype=bool)
    kept[row[rows]] = True
    left_out = begins & ~kept
    share = float(weight[rows].sum() / weight.sum())
    return LargestClass(rows, share, index.states[kept], index.states[left_out])
