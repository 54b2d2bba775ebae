"""The least squares that minimax weight learning and minimax Q learning come down to."""

from __future__ import annotations

import numpy as np

from ope_vpm.arrays import Floats

FREE = 1e-8
"""The penalty of the constant, which is free but for rounding."""


def scaled_least_squares(matrix: Floats, right: Floats, scale: Floats, ridge: float) -> Floats:
    """The x with the least ‖Λ^-½(right - matrix·x)‖² + (ridge·‖Λ^½x‖)².

    Args:
        matrix: shape (D, D).
        right: shape (D,).
        scale: the diagonal of Λ; the constant, which has 0 there, has 1 here and no ridge.
        ridge: in units in which every feature has mean square 1.
    """
    root = np.sqrt(np.where(scale > 0, scale, 1.0))
    penalty = np.full(len(right), ridge)
    penalty[0] = FREE
    stacked = np.vstack([matrix / np.outer(root, root), np.diag(penalty)])
    answer = np.linalg.lstsq(stacked, np.concatenate([right / root, np.zeros_like(right)]), rcond=None)[0]
    solution: Floats = answer / root
    return solution
