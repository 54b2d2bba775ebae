"""Transitions between finite states, counted: the sparse matrix that the tabular solver works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.arrays import Array, Floats, Integers
from ope_vpm.chain.transitions import Transitions


@dataclass(frozen=True)
class StateIndex:
    """Numbers the states that occur, so that their labels may be anything from 0 to 2⁶³."""

    states: Integers
    """The labels, sorted."""
    table: Integers | None
    """label → number, -1 where there is none; None where labels are too spread out for a table."""

    @classmethod
    def of(cls, labels: Array) -> StateIndex:
        """Number the distinct labels."""
        largest = int(labels.max())
        if largest > 10 * labels.size + 1000:
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

    A step from state i goes to j with probability `kernel[i, j]`, and off the map, to a state never seen as x,
    with probability `leak[i]`; from there it comes back by the law `restart`.
    """

    index: StateIndex
    p: Floats
    """The share of the rows that start in each state."""
    kernel: Any
    leak: Floats
    restart: Floats
    start: Floats | None
    """The law of the initial states, as far as they are known; None where there are none."""
    unseen: Floats
    """The share of each state's successors that were never seen as x, whatever becomes of them."""
    times: Integers
    """How many rows start in each state."""

    @property
    def initial(self) -> Floats:
        """The law of the initial states, those never seen as x coming in by `restart`."""
        if self.start is None:
            raise ValueError("there are no initial states")
        missing = 1 - float(self.start.sum())
        return self.start + missing * self.restart

    def step(self, mu: Floats) -> Floats:
        """One exact power step on a law over states."""
        moved: Floats = mu @ self.kernel
        lost = float(mu @ self.leak)
        return moved + lost * self.restart if lost else moved

    def with_relay(self) -> Any:
        """The kernel with one more state for all that is off the map: kernel + leak·restartᵀ, kept sparse."""
        if not self.leak.any():
            return self.kernel
        blocks = [
            [self.kernel, sparse.csr_array(self.leak[:, None])],
            [sparse.csr_array(self.restart[None]), None],
        ]
        return sparse.block_array(blocks, format="csr")


def count(transitions: Transitions, unseen: str) -> CountedChain:
    """Count transitions; `unseen` says where mass goes that reaches an x' never seen as x (see `Tabular`)."""
    transitions = transitions.with_weight()
    weight, share = transitions.row_weights, transitions.next_weight
    labels, successors = transitions.x, transitions.successors
    index = StateIndex.of(labels)
    row, column = index(labels), index(successors)
    value = weight[:, None] if share is None else weight[:, None] * share
    size = index.states.size
    p: Floats = np.bincount(row, weights=weight, minlength=size).astype(np.float64)
    missing = np.bincount(row, weights=np.where(column < 0, value, 0.0).sum(axis=1), minlength=size) / p
    if unseen == "restrict":
        value = _restricted(value, column, weight)
    total: Floats = np.bincount(row, weights=value.sum(axis=1), minlength=size).astype(np.float64)
    kernel, leak = _normalised(row, column, value, total)
    p /= weight.sum()
    times = np.bincount(row, minlength=size)
    restart = least_seen(times) if unseen == "good-turing" else p
    return CountedChain(index, p, kernel, leak, restart, _initial_law(transitions, index, unseen), missing, times)


def _normalised(row: Integers, column: Integers, value: Floats, total: Floats) -> tuple[Any, Floats]:
    """Row-stochastic counts, and what each row lost to unknown columns."""
    size = total.size
    scale = np.divide(1.0, total, out=np.zeros(size), where=total > 0)
    probability = (value * scale[row][:, None]).ravel()
    rows = np.repeat(row, column.shape[1]) if column.shape[1] > 1 else row
    columns = column.ravel()
    known = columns >= 0
    leak = np.where(total > 0, 0.0, 1.0)
    if not known.all():
        lost = ~known
        leak += np.bincount(rows[lost], weights=probability[lost], minlength=size)
        rows, columns, probability = rows[known], columns[known], probability[known]
    kernel = sparse.coo_array((probability, (rows, columns)), shape=(size, size)).tocsr()
    kernel.eliminate_zeros()  # an edge that is never taken must not connect anything
    return kernel, leak


def _restricted(value: Floats, column: Integers, weight: Floats) -> Floats:
    """Each row's successors scaled up over the known ones; a row with none is left out."""
    known = np.where(column >= 0, value, 0.0)
    total = known.sum(axis=1)
    scale = np.divide(weight, total, out=np.zeros_like(total), where=total > 0)
    scaled: Floats = known * scale[:, None]
    return scaled


def least_seen(times: Integers) -> Floats:
    """The uniform law over the states seen once (or, where none is, seen least often)."""
    rare = times == times.min()
    law: Floats = rare / rare.sum()
    return law


def _initial_law(transitions: Transitions, index: StateIndex, unseen: str) -> Floats | None:
    if transitions.x_initial is None:
        return None
    number, weight = index(transitions.x_initial), transitions.initial_weights
    known = number >= 0
    law: Floats = np.bincount(number[known], weights=weight[known], minlength=index.states.size) / weight.sum()
    if unseen == "restrict" and law.any():
        law /= law.sum()
    return law
