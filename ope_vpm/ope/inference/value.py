"""The answer of an estimator: what a policy is worth, how sure that is, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, read_only
from ope_vpm.ope.inference.verdict import Level


@dataclass(frozen=True, eq=False)
class PolicyValue:
    """What a policy is worth, on the scale of one reward.

    At gamma = 1 the long-run average reward per step; below, (1 - gamma) · E[Σ gamma^t r_t].
    """

    estimator: str
    value: float
    gamma: float
    standard_error: float | None
    """None where one episode says nothing about the next."""
    interval: tuple[float, float] | None
    """Meant to hold the truth in 95 of 100 datasets; wider where bias is suspected."""
    effective_sample_size: float | None
    """How many rows of equal weight the weighted log is worth; None where rows are not weighted."""
    verdict: Level
    """"reliable", "caution" or "unreliable"."""
    reasons: tuple[str, ...]
    """Why it is not "reliable", worst first."""
    diagnostics: dict[str, Any] = field(default_factory=dict, repr=False)
    """Plain numbers and words; their meaning stands in docs/evaluation.md."""
    weights: Floats | None = field(default=None, repr=False)
    """How much each logged row counts under the target: not negative, mean 1; 0 for rows not used."""

    def __post_init__(self) -> None:
        if self.weights is not None:
            object.__setattr__(self, "weights", read_only(self.weights))

    def as_return(self) -> float:
        """The expected discounted sum of rewards, value / (1 - gamma)."""
        if self.gamma == 1:
            raise ValueError("at gamma = 1 the return is infinite: `value` is the average reward (use gamma < 1)")
        return self.value / (1 - self.gamma)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; without the weights."""
        return {
            "estimator": self.estimator,
            "value": self.value,
            "gamma": self.gamma,
            "return": None if self.gamma == 1 else self.as_return(),
            "standard_error": self.standard_error,
            "interval": None if self.interval is None else list(self.interval),
            "effective_sample_size": self.effective_sample_size,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "diagnostics": {name: _plain(value) for name, value in self.diagnostics.items()},
        }

    def __str__(self) -> str:
        between = "no interval" if self.interval is None else "[{:.6g}, {:.6g}]".format(*self.interval)
        lines = [f"{self.estimator}: {self.value:.6g}  {between}  {self.verdict}"]
        return "\n".join([*lines, *(f"  - {reason}" for reason in self.reasons)])


def _plain(value: Any) -> Any:
    """What JSON can hold: it has no NaN and no arrays."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
