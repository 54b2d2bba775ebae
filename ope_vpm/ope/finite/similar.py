"""Pairs never seen, where something is known of the states: what the same action did in the most similar states.

Of the target's probability of an unseen pair (s, a) the share W/(W + N^½) goes to the pairs with the same action in the
ten nearest states that hold it, W = Σ n^½·exp(-d²/2h²) being how much these have to say: n is how often each was seen,
d its distance in standardised features, and h the usual distance of a state to its nearest one; N is how often s itself
was left. The rest is treated as without features: so what is still unseen in a state that the log knows well, because
nobody ever does it there, is judged by the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ope_vpm.arrays import Array, Floats
from ope_vpm.chain.finite.solve import SparseMatrix
from ope_vpm.linear.features import Standardiser
from ope_vpm.ope.finite.counts import PairCounts

NEAREST = 10
"""States that are asked. With 30 the errors of three made-up wards, whose treatments have smooth effects, were within
a tenth of those with 10."""
COUNT_POWER = 0.5
"""A pair seen n times counts n^½, as in `preference`, and so does the state. With 1 in place of N^½ the gain was about
the same on the wards, with 3·N^½ half as much."""
SMALLEST = 1e-12
"""Probabilities and weights below it are taken for 0."""

StateFeatures = Any
"""(states, d) numbers with a row for each state by its number, or a function of observations that returns such rows."""


@dataclass(frozen=True, eq=False)
class Borrowed:
    """What unseen pairs take from other states."""

    policy: SparseMatrix
    """(states, pairs), sparse: the target's probability that goes to seen pairs of other states."""
    rest: Floats
    """(states, actions): the target's probability of unseen pairs that is left."""


def standardised_features(given: StateFeatures, observations: Array) -> Floats:
    """(states, d): the features of the states of a log, each with mean 0 and deviation 1.

    Args:
        given: an array with a row for each state by its number, or a function of observations.
        observations: of the states.
    """
    rows = given(observations) if callable(given) else _rows(given, observations)
    features = np.asarray(rows, dtype=np.float64)
    if features.ndim != 2 or len(features) != len(observations) or not np.isfinite(features).all():
        raise ValueError(
            "state_features must be finite numbers, one row for each state: got shape "
            f"{features.shape} for {len(observations)} states"
        )
    return Standardiser.fit(features)(features)


def _rows(given: Any, observations: Array) -> Floats:
    """The rows of a table by the numbers of the states."""
    table, numbers = np.asarray(given, dtype=np.float64), np.asarray(observations)
    if numbers.size != len(numbers) or not np.issubdtype(numbers.dtype, np.integer):
        raise ValueError(
            "state_features as an array needs states that are numbers: "
            "give a function of observations instead, which returns a row for each"
        )
    if table.ndim != 2 or numbers.min() < 0 or numbers.max() >= len(table):
        raise ValueError(
            f"state_features must have a row for each state, by its number: the log has states {numbers.min()} to "
            f"{numbers.max()}, and the array has shape {table.shape}"
        )
    rows: Floats = table[numbers.ravel()]
    return rows


def borrowed(counts: PairCounts, missing: Floats, features: Floats) -> Borrowed:
    """What unseen pairs take from the same action in similar states.

    Args:
        counts: the seen pairs.
        missing: (states, actions): the target's probabilities of unseen pairs.
        features: (states, d), standardised.
    """
    width, rest, parts = _usual_distance(features), np.array(missing), []
    for action in np.flatnonzero((missing > SMALLEST).any(axis=0)):
        known, asking = np.flatnonzero(counts.action_of_pair == action), np.flatnonzero(missing[:, action] > SMALLEST)
        if not len(known):
            continue
        number = min(NEAREST, len(known))
        from scipy.spatial import cKDTree  # imported here: it takes long, and few need it

        found = cKDTree(features[counts.state_of_pair[known]]).query(features[asking], k=number)
        distance, place = (each.reshape(len(asking), number) for each in found)
        weight = np.exp(-0.5 * (distance / width) ** 2) * counts.times[known][place] ** COUNT_POWER
        total = weight.sum(axis=1)
        own = counts.visits[asking] ** COUNT_POWER
        taken = missing[asking, action] * total / np.maximum(total + own, SMALLEST)
        rest[asking, action] -= taken
        share = taken[:, None] * weight / np.maximum(total, SMALLEST)[:, None]
        parts.append((share.ravel(), np.repeat(asking, number), known[place].ravel()))
    shape = counts.states, counts.pairs
    if not parts:
        return Borrowed(sparse.csr_array(shape), rest)
    data, rows, columns = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Borrowed(sparse.csr_array((data, (rows, columns)), shape=shape), rest)


def _usual_distance(features: Floats) -> float:
    """The median distance of a state to its nearest one."""
    if len(features) < 2:
        return 1.0
    from scipy.spatial import cKDTree  # imported here: it takes long, and few need it

    nearest, _ = cKDTree(features).query(features, k=2)
    return max(float(np.median(nearest[:, 1])), SMALLEST)
