"""Two policies on one log: how far the difference of their values may be off.

The values of two policies on one log err together. So the influence functions are subtracted episode by episode, and
so are suspected biases of one kind, as far as the two estimates are moved by the same episodes:

    S² = Σ_e (ψ_e - φ_e)²·E/(E - 1) + Σ_k (b_k² + c_k² - 2ρ·b_k·c_k),

ψ and φ the influence of each of E episodes on the two values, b_k and c_k what the doubt with code k adds to the error
of each, and ρ the correlation of ψ and φ, not below 0.

The interval of a value may reach farther than t·S on one side: as far as rewards allow for steps without data, say. A
side of the interval of the difference is made of such sides as variances are recovered from intervals (MOVER, Zou and
Donner 2008), and it is never longer than the two intervals, taken as independent, allow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import stdtrit

from ope_vpm.arrays import ROUNDING, Floats
from ope_vpm.ope.estimator import Estimator, ProblemEstimator, needs_rows, policy_value
from ope_vpm.ope.evaluate import answer
from ope_vpm.ope.inference.doubts import Doubt, Doubts
from ope_vpm.ope.inference.estimate import RawEstimate, interval_of
from ope_vpm.ope.inference.logged_mean import logged_mean
from ope_vpm.ope.inference.placebo import after_cuts
from ope_vpm.ope.inference.uncertainty import LEVEL, EpisodeSums
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue
from ope_vpm.ope.problem import Problem

LOGGED = "logged"
SURE = 2.6
"""Errors beyond which a drift is no noise; that has one in a hundred more."""
DRIFTS = (
    "the log's mean is not yet its policy's long-run average: later halves of episodes pay otherwise than whole ones"
)
CUT = "episodes were cut long before the discount makes later steps small: what these pay is told by states alone"
LONGER = "log longer episodes, or use a smaller gamma"

Sides = tuple[float, float]
"""How far an interval reaches below and above a value, over Student's quantile: as standard errors."""


@dataclass(frozen=True)
class Difference:
    """The difference of two values on one log, and how far it may be off."""

    value: float
    noise: float
    """The part of its error that shrinks as the log grows."""
    error: float
    """S, which holds the biases as well; infinite where it is not known."""
    sides: Sides
    """S and what the intervals of the values hold beyond theirs, below and above."""

    def most(self, reach: float) -> float:
        """The largest difference in an interval that reaches so many times the side above."""
        return self.value + (reach * self.sides[1] if self.sides[1] > 0 else 0.0)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """The value of one policy, how each episode moves it, and how far it may be off for which reason."""

    value: PolicyValue
    influence: Floats | None = field(default=None, repr=False)
    """(episodes,): how much each episode moves what is compared; None where the estimator does not tell."""
    biases: Mapping[str, float] = field(default_factory=dict)
    """What each doubt adds to the error, by its code."""
    beyond: Sides = (0.0, 0.0)
    """e below and above the value where its interval reaches t·√(S² + e²) in place of t·S."""
    of_return: Evaluated | None = field(default=None, repr=False)
    """The return of an episode, where it leads."""
    of: EpisodeReturn | None = None
    """The quantity that differs, if it is not the value per step: the return of an episode, or the worst of them."""

    @property
    def lead(self) -> PolicyValue | EpisodeReturn:
        """The number that is compared."""
        return self.of or self.value

    def less(self, other: Evaluated) -> Difference:
        """This value less another policy's on the same log, with the errors of the difference."""
        value = gap(self.lead.value, other.lead.value)
        if self is other:
            return Difference(value, 0.0, 0.0, (0.0, 0.0))
        if self.influence is None or other.influence is None:
            mine, its = self.lead.standard_error, other.lead.standard_error
            noise = error = float("inf") if mine is None or its is None else float(np.hypot(mine, its))
            longest, beyond = self._independent(other, 0.0), (0.0, 0.0)
        elif len(self.influence) < 2:  # nothing tells how episodes differ
            return Difference(value, float("inf"), float("inf"), (float("inf"), float("inf")))
        else:
            noise = noise_of(self.influence - other.influence)
            together = correlation(self.influence, other.influence)
            shared = max(together, 0.0)
            pairs = [
                (self.biases.get(code, 0.0), other.biases.get(code, 0.0)) for code in {*self.biases, *other.biases}
            ]
            error = float(np.hypot(noise, np.sqrt(sum(b**2 + c**2 - 2 * shared * b * c for b, c in pairs))))
            longest, beyond = self._independent(other, min(together, 0.0)), _beyond(self.beyond, other.beyond, shared)
        below, above = (min(float(np.hypot(error, more)), most) for more, most in zip(beyond, longest, strict=True))
        return Difference(value, noise, error, (below, above))

    def _independent(self, other: Evaluated, together: float) -> Sides:
        """The sides of the difference by the two intervals alone, as far as they err together; infinite without one."""
        (below, above), (under, over) = self._sides, other._sides
        pairs = (below, over), (above, under)
        lower, upper = (float(np.sqrt(a**2 + b**2 - 2 * together * a * b)) for a, b in pairs)
        return lower, upper

    @property
    def _sides(self) -> Sides:
        """How far the interval that is printed, cut to what is possible, reaches."""
        if self.lead.interval is None or self.influence is None:
            return float("inf"), float("inf")
        (low, high), reach = self.lead.interval, student(len(self.influence))
        return (self.lead.value - low) / reach, (high - self.lead.value) / reach


def gap(one: float, other: float) -> float:
    """The difference of two numbers; 0 where rounding alone tells them apart."""
    return 0.0 if abs(one - other) <= ROUNDING * max(abs(one), abs(other)) else one - other


def _beyond(one: Sides, other: Sides, shared: float) -> Sides:
    """What limits of two values allow for their difference: the same limit moves both, or each has its own.

    Where one cause moves both down by their lower sides or up by their upper ones, the difference moves by what these
    differ; where there are two, the lower side of one meets the upper side of the other. For equal sides b and c this
    is b² + c² - 2ρ·b·c, as of other biases.
    """
    (below, above), (under, over) = one, other
    same = max(below - under, over - above, 0.0), max(above - over, under - below, 0.0)
    own = np.hypot(below, over), np.hypot(above, under)
    lower, upper = (float(np.sqrt(shared * a**2 + (1 - shared) * b**2)) for a, b in zip(same, own, strict=True))
    return lower, upper


def noise_of(influence: Floats) -> float:
    """√(Σψ²·E/(E - 1)): the standard error by E episodes, deviations from an estimated mean being too small."""
    episodes = len(influence)
    return float(np.sqrt(np.sum(influence**2) * episodes / (episodes - 1)))


def correlation(one: Floats, other: Floats) -> float:
    """The correlation of two influence functions, whose means are 0; 0 where nothing varies."""
    size = np.linalg.norm(one) * np.linalg.norm(other)
    found = float(np.clip(one @ other / size, -1.0, 1.0)) if size > 0 else 0.0
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
    whole = _paired(problem, raw, value)
    if value.per != "episode" or raw.per_episode is None:
        return whole
    return replace(whole, of_return=replace(_paired(problem, raw.per_episode, value), of=value.episode_return))


def _paired(problem: Problem, raw: RawEstimate, value: PolicyValue) -> Evaluated:
    """The influence of each episode, what each doubt adds to the error, and what the interval holds beyond both."""
    _, interval = interval_of(problem, raw)
    if raw.sums is None or interval is None:
        return Evaluated(value)
    influence = raw.sums.influence
    known, reach = np.hypot(noise_of(influence), raw.suspected_bias), student(len(influence))
    sides = (raw.value - interval[0]) / reach, (interval[1] - raw.value) / reach
    below, above = (float(np.sqrt(max(side, known) ** 2 - known**2)) for side in sides)
    return Evaluated(value, influence, {doubt.code: doubt.error for doubt in raw.doubts if doubt.error}, (below, above))


def of_log(problem: Problem) -> Evaluated:
    """The policy that logged the data, whose value is the logged mean: noise speaks against it, and a drift.

    Below γ = 1 what follows where an episode was cut is told by the state that it was cut in, and half of the distance
    to what its last steps paid is suspected as bias.
    """
    mean = logged_mean(problem)
    later = after_cuts(problem.log.sample, problem.gamma, problem.on_end, problem.time_limit)
    raw = replace(mean, value=mean.value + later, doubts=(*_drift(problem), *_cut(later, mean.error)), weights=None)
    if raw.per_episode is not None:
        raw = replace(raw, per_episode=replace(raw.per_episode, doubts=(), weights=None))
    return found(problem, policy_value(problem, LOGGED, raw), raw)


def _cut(later: float, error: float) -> Doubts:
    """A warning where the time after cuts matters more than noise does."""
    return (Doubt(CUT, 1.0, abs(later) / 2, CUT, LONGER),) if abs(later) > error else ()


def _drift(problem: Problem) -> Doubts:
    """A warning where nothing ends and later halves of episodes pay otherwise than whole ones, beyond noise.

    A log's mean is the long-run average of its own policy once episodes have forgotten how they began. Where the second
    half of an episode leaves half of what the first one left, that is as far again from the mean of later halves.
    """
    data = problem.data
    if problem.gamma < 1 or problem.streamed or problem.ends.any():
        return ()
    late = (data.time >= (data.lengths // 2)[data.episode]).astype(np.float64)
    both, where = (late, np.ones(len(data))), (data.episode, data.n_episodes)
    later, whole = (EpisodeSums.of_rows(*where, weight * data.rewards, weight) for weight in both)
    distance = float(later.ratios[0] - whole.ratios[0])
    if data.n_episodes < 2 or abs(distance) <= SURE * noise_of(later.influence - whole.influence):
        return ()
    return (Doubt(DRIFTS, 1.0, 2 * abs(distance), DRIFTS, LONGER),)
