"""May one policy take the place of another? A decision by an interval, for one look or for all at a growing log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import ndtr, stdtrit

from ope_vpm.arrays import is_number
from ope_vpm.ope.inference.uncertainty import LEVEL, Interval
from ope_vpm.outside import Shown

if TYPE_CHECKING:
    from ope_vpm.ope.questions.compare import Comparison

Decision = Literal["better", "worse", "not decided"]
EXIT_CODES: dict[Decision, int] = {"better": 0, "worse": 3, "not decided": 4}
TUNED_FOR = 200
"""Episodes at which the confidence sequence is narrowest: most logs that are looked at again and again have between
50 and 1000, where it is within a tenth of the narrowest possible."""


@dataclass(frozen=True)
class Gate(Shown):
    """Whether one policy may take the place of another, for programs that decide by an exit code."""

    decision: Decision
    """"better" where the whole interval lies above the least gain and its verdict is not "unreliable"."""
    min_gain: float
    interval: Interval | None
    """That of the difference; with `anytime` one that holds at all looks together."""
    anytime: bool
    would_decide: str
    """What would decide it; empty where it is decided."""
    comparison: Comparison

    @property
    def exit_code(self) -> int:
        """0 better, 3 worse, 4 not decided."""
        return EXIT_CODES[self.decision]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "decision": self.decision,
            "exit_code": self.exit_code,
            "min_gain": self.min_gain,
            "anytime": self.anytime,
            "interval": None if self.interval is None else list(self.interval),
            "would_decide": self.would_decide,
            "comparison": self.comparison.as_dict(),
        }

    def __str__(self) -> str:
        lines = [f"{self.decision} (exit code {self.exit_code})", str(self.comparison)]
        if self.anytime and self.interval is not None:
            lines.append("  at all looks together [{:.6g}, {:.6g}]".format(*self.interval))
        return "\n".join([*lines, *([f"  what would decide it: {self.would_decide}"] if self.would_decide else [])])


def check_gain(min_gain: float) -> None:
    """Refuse a least gain that is no number."""
    if not is_number(min_gain):
        raise ValueError(f"min_gain must be a finite number, such as 0 or 0.1: got {min_gain!r}")


def sequence_quantile(episodes: int) -> float:
    """The half-width of a 95 % normal-mixture confidence sequence, in standard errors, at so many episodes."""
    alpha = 1 - LEVEL
    rho = (-2 * np.log(alpha) + np.log(-2 * np.log(alpha)) + 1) / TUNED_FOR  # ρ²; narrowest there, section 2 of it
    spread = episodes * rho
    return float(np.sqrt((spread + 1) / spread * np.log((spread + 1) / alpha**2)))


def sequence_reach(episodes: int) -> float:
    """Student's quantile with the tail of `sequence_quantile`: few episodes tell their own spread badly."""
    return float(-stdtrit(episodes - 1, ndtr(-sequence_quantile(episodes))))
