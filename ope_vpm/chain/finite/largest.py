"""The largest communicating class of a counted chain: the states that lead to one another with the most transitions.

A state that a few rows reach and none happens to leave is a closed class, to which a chain in the long run gives all
probability. Short paths have many of them at their ends. As in Markov state models (deeptime's `submodel_largest`), the
largest class is kept instead, and what leaves it is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from ope_vpm.arrays import Integers, group_sums
from ope_vpm.chain.finite.chain import NEARLY_ALL, named_states
from ope_vpm.chain.finite.counts import CountedChain, StateIndex
from ope_vpm.chain.transitions import Transitions


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
