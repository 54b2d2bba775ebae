"""Two policies on one log: how far the difference of their values may be off.

The values of two policies on one log err together. So the influence functions are subtracted episode by episode, and
so are suspected biases of one kind, as far as the two estimates are moved by the same episodes:

    S² = Σ_e (ψ_e - φ_e)²·E/(E - 1) + Σ_k (b_k² + c_k² - 2ρ·b_k·c_k),

ψ and φ the influence of each of E episodes on the two values, b_k and c_k what the doubt with code k suspects of each,
and ρ the correlation of ψ and φ, not below 0.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from ope_vpm.arrays import ROUNDING, Floats
from ope_vpm.ope.estimator import Estimator, ProblemEstimator, needs_rows
from ope_vpm.ope.evaluate import answer
from ope_vpm.ope.inference.estimate import RawEstimate, interval_of
from ope_vpm.ope.inference.uncertainty import LEVEL
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue
from ope_vpm.ope.problem import Problem

OTHER = "other"
"""Stands for whatever an interval holds beyond noise and the biases that doubts name."""


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The value of one policy, how each episode moves it, and how far it may be off for which reason."""

    value: PolicyValue
    influence: Floats | None = field(default=None, repr=False)
    """(episodes,): how much each episode moves what is compared; None where the estimator does not tell."""
    biases: Mapping[str, float] = field(default_factory=dict)
    """How far it may be off, by the code of the doubt."""
    of_return: Evaluated | None = field(default=None, repr=False)
    """The return of an episode, where it leads."""
    of: EpisodeReturn | None = None
    """The quantity that differs, if it is not the value per step: the return of an episode, or the worst of them."""

    @property
    def lead(self) -> PolicyValue | EpisodeReturn:
        """The number that is compared."""
        return self.of or self.value

    def error_of_difference(self, other: Evaluated) -> float:
        """S of the difference to another policy's value on the same log; infinite where it is not known."""
        return self.errors_of_difference(other)[1]

    def errors_of_difference(self, other: Evaluated) -> tuple[float, float]:
        """The noise of the difference, which shrinks as the log grows, and S, which holds the biases as well."""
        if self.influence is None or other.influence is None:
            mine, its = self.lead.standard_error, other.lead.standard_error
            error = float("inf") if mine is None or its is None else float(np.hypot(mine, its))
            return error, error
        if len(self.influence) < 2:
            return float("inf"), float("inf")
        noise = noise_of(self.influence - other.influence)
        shared = correlation(self.influence, other.influence)
        pairs = ((self.biases.get(code, 0.0), other.biases.get(code, 0.0)) for code in {*self.biases, *other.biases})
        squares = sum((mine - its) ** 2 + 2 * (1 - shared) * mine * its for mine, its in pairs)
        return noise, float(np.sqrt(noise**2 + squares))


def noise_of(influence: Floats) -> float:
    """√(Σψ²·E/(E - 1)): the standard error by E episodes, deviations from an estimated mean being too small."""
    episodes = len(influence)
    return float(np.sqrt(np.sum(influence**2) * episodes / (episodes - 1)))


def correlation(one: Floats, other: Floats) -> float:
    """The correlation of two influence functions, whose means are 0; 0 where it is negative or nothing varies."""
    size = np.linalg.norm(one) * np.linalg.norm(other)
    found = float(np.clip(one @ other / size, 0.0, 1.0)) if size > 0 else 0.0
    return 1.0 if found > 1 - ROUNDING else found


def student(episodes: int, level: float = LEVEL) -> float:
    """The quantile of Student's distribution for a two-sided interval from so many episodes."""
    return float(stdtrit(episodes - 1, (1 + level) / 2)) if episodes > 1 else float("inf")


def evaluated(estimator: Estimator, problem: Problem, ignore: Collection[str] = ()) -> Evaluated:
    """The value of a policy, with its influence function where the estimator gives one.

    Args:
        estimator: ours or another package's.
        problem: the question, whose log was checked.
        ignore: codes of the doctor's findings that were passed over.
    """
    if not isinstance(estimator, ProblemEstimator):
        if problem.streamed:
            raise ValueError(f"{estimator.name} {needs_rows(problem)}")
        return Evaluated(answer(estimator, problem, ignore))
    value, raw = estimator.answered(problem)
    return found(problem, value, raw)


def found(problem: Problem, value: PolicyValue, raw: RawEstimate) -> Evaluated:
    """A value with what its estimate says of episodes and biases; nothing of the rows is kept."""
    of_return = None
    if value.per == "episode" and raw.per_episode is not None:
        influence, biases = _parts(problem, raw.per_episode)
        of_return = Evaluated(value, influence, biases, of=value.episode_return)
    return Evaluated(value, *_parts(problem, raw), of_return)


def _parts(problem: Problem, raw: RawEstimate) -> tuple[Floats | None, dict[str, float]]:
    """The influence of each episode, and the biases by the codes of doubts."""
    error, interval = interval_of(problem, raw)
    if raw.sums is None or error is None or interval is None:
        return None, {}
    influence = raw.sums.influence
    whole = max(error, max(raw.value - interval[0], interval[1] - raw.value) / student(len(influence)))
    budget = float(np.sqrt(max(whole**2 - noise_of(influence) ** 2, 0.0)))
    biases = {doubt.code: doubt.bias for doubt in raw.doubts if doubt.bias}
    named = float(np.linalg.norm(list(biases.values())))
    if named > budget:  # some are told without widening the interval, or in units of another column
        return influence, {code: bias * budget / named for code, bias in biases.items()}
    return influence, biases | {OTHER: float(np.sqrt(budget**2 - named**2))}
