"""The median over episodes of their mean reward: a control that a few wild episodes cannot move.

It shows all that an estimator of another package needs: a `name`, keyword-only settings, `estimate`, and one line
in pyproject.toml. Once installed, `ov.evaluate(..., "median")` and every suite that names "median" or "all" have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import ope_vpm as ov


@dataclass(frozen=True, kw_only=True)
class Median:
    """The behaviour's typical episode; like the logged mean it does not ask what the target does."""

    name: ClassVar[str] = "median"

    replicates: int = 200
    """Of the bootstrap over episodes that gives the interval."""

    def estimate(
        self, data: ov.LoggedDataset, policy: Any, *, gamma: float = 1.0, seed: int = 0, **choices: Any
    ) -> ov.PolicyValue:
        """One number for the log, whatever the policy; γ plays no part."""
        means = data.returns / data.lengths
        drawn = np.random.default_rng(seed).choice(means, size=(self.replicates, len(means)))
        medians = np.median(drawn, axis=1)
        low, high = np.quantile(medians, [0.025, 0.975])
        return ov.PolicyValue(
            estimator=self.name,
            value=float(np.median(means)),
            gamma=gamma,
            standard_error=float(medians.std(ddof=1)),
            interval=(float(low), float(high)),
            effective_sample_size=None,
            verdict="caution",
            reasons=("the median episode is the behaviour's, whatever the target does",),
        )
