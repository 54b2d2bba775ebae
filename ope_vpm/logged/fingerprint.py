"""Fingerprints of episodes that can be added up over parts of a log: equal for equal states and actions in time.

The fingerprint of an episode is the sum over its rows of a mixed number of the row's bytes and its time, modulo 2^64,
twice with different constants. A sum does not care how the rows are split over files, batches and machines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Integers, chunks
from ope_vpm.logged.dataset import LoggedDataset

Words = npt.NDArray[np.uint64]


def fingerprints(data: LoggedDataset) -> Words:
    """(episodes, 2): of the rows that are here; those of an episode's other rows are to be added."""
    total = np.zeros((data.n_episodes, 2), dtype=np.uint64)
    for rows in chunks(len(data), of=[data.observations]):
        episode = data.episode[rows]
        first = np.flatnonzero(np.diff(episode, prepend=-1))
        words = _of_rows([data.observations[rows], data.actions[rows]], data.time[rows])
        total[episode[first]] += np.add.reduceat(words, first, axis=0)  # an episode comes once in a chunk
    return total


def beginnings(data: LoggedDataset) -> Words:
    """(n,): numbers of rows, equal where episodes are equal up to there, rewards included, in single precision.

    They are sums of mixed numbers of the rows so far.
    """
    total = np.empty(len(data), dtype=np.uint64)
    for rows in chunks(len(data), of=[data.observations]):
        columns = [_rounded(column[rows]) for column in (data.observations, data.actions, data.rewards)]
        total[rows] = _of_rows(columns, data.time[rows])[:, 0]
    total = np.cumsum(total, dtype=np.uint64)
    return total - np.concatenate([np.zeros(1, dtype=np.uint64), total])[data.starts][data.episode]


def _rounded(column: Array) -> Array:
    """Floats with 24 bits, as single precision has them, whatever their size; 0 for -0."""
    if column.dtype.kind != "f":
        return column
    mantissa, exponent = np.frexp(column.astype(np.float64))
    rounded: Array = np.ldexp(np.rint(mantissa * 2.0**24), exponent) + 0.0
    return rounded


def number_contents(prints: Words) -> Integers:
    """(episodes,): equal numbers for equal fingerprints, rising with them."""
    return np.unique(prints, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


ROUNDS = 4
"""In which states and actions learn of those around them: what differs within so many steps is told apart."""


def colours(state: Integers, action: Integers, following: Integers, time: Integers, often: Integers) -> Words:
    """(n,): a number for each row that depends on what its state and action are in the log, not on their names.

    States and actions are all alike at first. Then, some rounds long, each is told by when it occurs, and with which
    others before, beside and after it: the colour refinement of Weisfeiler and Leman (1968).

    Args:
        state: the number of each row's state.
        action: the number of its action.
        following: the number of the state after it; -1 where it is not known.
        time: of the row in its episode.
        often: how many times the row counts.
    """
    known, factors = following >= 0, _odd(np.random.default_rng(0), 4)
    count = int(max(state.max(), following.max())) + 1
    of_state, of_action = np.zeros(count, dtype=np.uint64), np.zeros(int(action.max()) + 1, dtype=np.uint64)
    for _ in range(ROUNDS):
        row = of_state[state] * factors[0] + of_action[action] * factors[1] + time.astype(np.uint64) * factors[2]
        row = _mixed(row + np.where(known, _mixed(of_state[following]), np.uint64(0))) * often.astype(np.uint64)
        of_state, of_action = _grouped(state, row, count), _grouped(action, row, len(of_action))
        of_state = of_state + factors[3] * _grouped(following[known], row[known], count)
    return _mixed(of_state[state] * factors[0] + of_action[action] * factors[1])


def _grouped(group: Integers, words: Words, count: int) -> Words:
    """The mixed sum of the words of each group."""
    total = np.zeros(count, dtype=np.uint64)
    np.add.at(total, group, words)
    return _mixed(total)


def _of_rows(columns: Sequence[Array], time: Integers) -> Words:
    """(n, 2): two mixed numbers of each row."""
    total = np.empty((len(time), 2), dtype=np.uint64)
    rng = np.random.default_rng(0)  # constants of the function, the same in every process
    for k in range(2):
        summed = time.astype(np.uint64) * _odd(rng, 1)
        for column in columns:
            words = _words(column)
            factors = _odd(rng, words.shape[1])
            summed += words[:, 0] * factors[0] if len(factors) == 1 else words @ factors
        total[:, k] = _mixed(summed)
    return total


def _words(column: Array) -> Words:
    """The bytes of each row, as numbers of 64 bits."""
    kind = np.uint32 if column.dtype.itemsize == 4 else np.uint64
    table = np.ascontiguousarray(column).reshape(len(column), -1)
    return table.view(kind).astype(np.uint64)


def _odd(rng: np.random.Generator, number: int) -> Words:
    return rng.integers(1 << 63, size=number, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _mixed(words: Words) -> Words:
    """Every bit of the result depends on every bit of the word (splitmix64's finaliser, Steele and others 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
