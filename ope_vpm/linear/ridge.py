"""Which ridge? One grid of candidates, and rules that choose among them from the data alone."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats

RIDGES = tuple(10 ** (exponent / 2) for exponent in range(-12, -1))
"""10⁻⁶ … 10⁻¹ in half decades, in units of the features' mean squares: the grid on which `TOLERANCE` was measured."""
COARSE_RIDGES = RIDGES[::2]
"""Whole decades, where every candidate costs a fit for each fold and each bandwidth."""
TOLERANCE = 1.5
"""How much larger than the least the standard error of the chosen ridge may be. Frozen on logs 0 to 5 of Reacher and
HalfCheetah tasks and confirmed on logs 6 to 15; on the tasks of docs/control.md 1.1, 1.2 and 2.0 give 1.81, 1.70 and
1.59 times the error of on-policy means where 1.5 gives 1.54."""
DECADE = 2
"""Places between a ridge and one ten times larger in `RIDGES`."""


def choose_ridge(errors: Floats, tolerance: float = TOLERANCE) -> int:
    """The index of the smallest ridge whose standard error is at most `tolerance` times the least.

    A ridge biases the estimate towards too little change from the data; the smallest one whose variance can be borne
    has the least bias.

    Args:
        errors: one standard error for each ridge, ridges rising; NaN where there is none.
        tolerance: see `TOLERANCE`.
    """
    finite = np.where(np.isfinite(errors), errors, np.inf)
    if not np.isfinite(finite).any():
        raise ArithmeticError("no ridge gives a finite estimate: the features are degenerate (try solver='kernel')")
    return int(np.argmax(finite <= tolerance * finite.min()))


def suspected_bias(values: Floats, chosen: int) -> float:
    """How far the value moves when the ridge is ten times larger: an estimate of what the chosen one has moved it.

    Args:
        values: one value for each ridge, ridges rising by half decades.
        chosen: the index of the ridge that was chosen.
    """
    larger = min(chosen + DECADE, len(values) - 1)
    return abs(float(values[larger] - values[chosen]))


def smallest_as_good(scores: Floats) -> int:
    """The index of the smallest ridge whose held-out score is within one standard error of the best.

    For expectations, bias costs more than variance: so it is the smallest ridge, where rules for prediction take the
    largest (Breiman's one-standard-error rule).

    Args:
        scores: shape (folds, ridges), lower being better.
    """
    best = int(np.argmin(scores.mean(axis=0)))
    behind = scores - scores[:, [best]]
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return int(np.argmax(behind.mean(axis=0) <= error))
