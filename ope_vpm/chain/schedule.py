"""The damping α_t of the power iteration (eq:damped_power_ratio)."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]
Damping = float | str | Schedule


def schedule(damping: Damping) -> Schedule:
    """Return the damping α_t as a function of the step t = 1, 2, ….

    Args:
        damping: a constant in (0, 1]; "sqrt" for the paper's 1/√t; or a function of t.
    """
    if callable(damping):
        return lambda step: _checked(damping(step), step)
    if damping == "sqrt":
        return inverse_square_root
    if isinstance(damping, str) or not 0 < damping <= 1:
        raise ValueError(f'damping must be a number in (0, 1], "sqrt" or a function of the step: got {damping!r}')
    return lambda step: damping


def _checked(alpha: float, step: int) -> float:
    if not 0 < alpha <= 1:
        raise ValueError(f"damping must give numbers in (0, 1]: at step {step} it gave {alpha}")
    return alpha


def inverse_square_root(step: int) -> float:
    """Return α_t = 1/√t, the step size of thm:convergence."""
    return 1 / math.sqrt(step)
