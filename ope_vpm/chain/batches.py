"""Transitions as batches of features, for the passes over rows in `ope_vpm.linear`.

The variance of sums of influences allows for pairs (x_t, x_{t+lag}) that overlap in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from ope_vpm.arrays import Array, Floats, Integers, chunks
from ope_vpm.chain.transitions import Transitions
from ope_vpm.linear.features import BATCH_ROWS
from ope_vpm.linear.moments import Batch
from ope_vpm.threads import cached_property


def sum_of_products(psi: Floats, time: Integers | None, lag: int) -> float:
    """Σ ψ_i ψ_j over all i and j that are correlated: an estimate of the variance of Σ ψ.

    The influence of a pair from t to t+lag has mean 0 given everything up to t, so influences whose pairs do not
    overlap are uncorrelated, and all products with |t_i - t_j| < lag are needed (Hansen and Hodrick 1980). That sum can
    come out too small, even negative, on short paths; the same sum with weights 1 - |t_i - t_j|/lag (Newey and West
    1987) cannot be negative and is taken where it is larger.

    Args:
        psi: the influence of each pair.
        time: when each pair begins; None where none overlap.
        lag: how long a pair lasts.
    """
    if time is None or lag == 1:
        return float(psi @ psi)
    by_time = _on_a_line(psi, time, lag)
    total = np.cumsum(np.concatenate([np.zeros(lag), by_time, np.zeros(lag)]))
    place = np.arange(len(by_time)) + lag
    around = total[place + lag - 1] - total[place - lag]
    windows = total[lag:] - total[:-lag]
    return max(float(by_time @ around), float(windows @ windows) / lag)


def _on_a_line(psi: Floats, time: Integers, lag: int) -> Floats:
    """The summed influences of each moment, moments without any included; longer gaps than the lag are shortened."""
    moments, number = np.unique(time, return_inverse=True)
    place = np.concatenate([[0], np.cumsum(np.minimum(np.diff(moments), lag))])
    return cast(Floats, np.bincount(place[number], weights=psi))


SAMPLE = 2000
"""Rows from which the scales of the data are estimated: a standard deviation is then known to two per cent."""


@dataclass(frozen=True)
class TransitionBatches:
    """The rows of transitions, with the features of x and, averaged over a row's successors, those of x'."""

    transitions: Transitions
    features: Callable[[Array], Floats]
    weight: Floats | None = None
    """How often each row counts; None: the weights of the transitions, scaled to mean 1."""
    reward: Floats | None = None
    """A function of each row whose expectation is asked for; None: 0."""

    def __len__(self) -> int:
        return len(self.transitions)

    @cached_property
    def size(self) -> int:
        """The number of features, D."""
        return int(self.features(self.transitions.x[:1]).shape[1])

    @property
    def next_size(self) -> int:
        """D again: every feature of x' counts."""
        return self.size

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over all rows in batches of `BATCH_ROWS`."""
        data = self.transitions
        weight = self.weight
        if weight is None and data.weight is not None:
            weight = data.row_weights
        for rows in chunks(len(data), BATCH_ROWS, of=(data.x, data.x_next)):
            yield Batch(
                np.arange(rows.start, rows.stop),
                self.features(data.x[rows]),
                self._next(rows),
                None if weight is None else weight[rows],
                None if self.reward is None else self.reward[rows],
            )

    def sample(self, most: int, rng: np.random.Generator) -> TransitionBatches:
        """Batches of all rows, or of `most` of them drawn without replacement; for those of no other weights."""
        part = self.transitions.sample(most, rng)
        return self if part is self.transitions else TransitionBatches(part, self.features)

    def initial(self) -> Iterator[tuple[Floats, Floats]]:
        """The initial states in batches, as features and weights; none where the data have none."""
        start, weight = self.transitions.x_initial, self.transitions.initial_weights
        if start is not None:
            for rows in chunks(len(start), BATCH_ROWS):
                yield self.features(start[rows]), weight[rows]

    def _next(self, rows: slice) -> Floats:
        """φ(x') of some rows, averaged over their successors."""
        successors = self.transitions.x_next[rows]
        if self.transitions.next_weight is None:
            return self.features(successors)
        share = self.transitions.next_weight[rows]
        total = share[:, :1] * self.features(successors[:, 0])
        for k in range(1, share.shape[1]):
            total += share[:, k : k + 1] * self.features(successors[:, k])
        return total


def sample_rows(transitions: Transitions, rng: np.random.Generator) -> Floats:
    """The x of some rows, drawn by weight, as float64."""
    weight = None if transitions.weight is None else transitions.weight / transitions.weight.sum()
    n = len(transitions)
    rows = rng.choice(n, size=SAMPLE, p=weight) if n > SAMPLE or weight is not None else np.arange(n)
    return np.asarray(transitions.x[np.sort(rows)], dtype=np.float64)
