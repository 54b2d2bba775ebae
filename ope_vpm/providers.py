"""Who brings the estimators: functions that are handed in from above, and called when an estimator is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ope_vpm.ope.estimator import Estimator

PROVIDERS: list[Callable[[], dict[str, type[Estimator]]]] = []
"""In the order in which they were handed in."""


def provide(classes: Callable[[], dict[str, type[Estimator]]]) -> None:
    """Register a function that imports estimators and returns them by name.

    The baselines are built upon `ope_vpm.ope`, so that it cannot import them. This module imports nothing, so that
    `import ope_vpm` can register them and stay quick.
    """
    PROVIDERS.append(classes)
