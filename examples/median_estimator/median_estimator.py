"""An estimator from another package: the median over episodes of the mean reward, which outliers hardly change.

It shows all that such an estimator needs: a `name`, keyword-only settings, `estimate`, and one line in pyproject.toml.
Once installed, `ov.evaluate(..., "median")` and every suite that names "median" or "all" have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import ope_vpm as ov


@dataclass(frozen=True, kw_only=True)
class Median:
    """The median episode of the behaviour policy; like the logged mean, it does not depend on the target policy."""

    name: ClassVar[str] = "median"

    replicates: int = 200
    """Replicates of the bootstrap over episodes, from which the interval is computed."""

    def estimate(
        self, data: ov.LoggedDataset, policy: Any, *, gamma: float = 1.0, seed: int = 0, **choices: Any
    ) -> ov.PolicyValue:
        """Estimate the value of a policy by the median episode; neither the policy nor γ changes it.

        Args:
            data: the logged episodes.
            policy: the target policy, which is not used.
            gamma: the discount, which is only recorded.
            seed: of the bootstrap.
            choices: further settings of `ov.evaluate`, such as `time_limit`, which are not used.
        """
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
            reasons=("the median episode is the behaviour policy's: it does not depend on the target",),
        )
