"""Which of many policies are worth a full answer? All are solved for roughly first, and those that may be best stay.

The rough solution is LSTD-Q with a quarter of the features on the log's sample, and of its doubts that about the past
alone: a seventh of the time of `auto`. A policy stays if no other one beats it by more than z errors of their paired
difference (`ope_vpm.ope.questions.paired`), whose biases are how far the values move at a ridge ten times larger, and
what the past predicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ope_vpm.ope.auto.estimator import Auto
from ope_vpm.ope.estimator import Estimator, ProblemEstimator
from ope_vpm.ope.inference.doubts import PAST, remarks
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums
from ope_vpm.ope.linear.doubts import ratio_error_bound, sample_rows
from ope_vpm.ope.linear.estimate import LinearEstimate
from ope_vpm.ope.linear.past import history
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.linear import find_lstd
from ope_vpm.ope.questions.paired import Evaluated
from ope_vpm.ope.vpm.estimator import VPMEstimator
from ope_vpm.plugins.valuation import Valuation
from ope_vpm.policy import TargetPolicy

LEAST_POLICIES = 4
"""Fewer cost less without a race: a rough solution takes a tenth of an answer, and the first two or three stay."""
REACH = 4.0
"""z. Of 245 races of twenty policies on generated tasks (seeds 20000 to 20400) the best one stayed in 243, and what
stayed was worse by 0.4 and 19 floors in the other two; alike policies, as in most of these, all stay."""
SCREENED = "screened: a rough solution puts it behind others by more than its error, and no more was asked"


@dataclass(frozen=True, kw_only=True)
class Rough(ProblemEstimator):
    """LSTD-Q with few features, doubted by the past alone."""

    name: ClassVar[str] = "screen"
    streams: ClassVar[bool] = True

    n_features: int = 100
    """Random features of the state."""
    draws: int = 8
    """Target actions per state where the policy's mean action is not known otherwise."""

    def find(self, problem: Problem) -> RawEstimate:
        """The linear solution on the log's sample, with the remark that it is rough."""
        found = _with_past(find_lstd(problem.on_sample, self.n_features, None, self.draws))
        return found if problem.log.sample is problem.log else _of_whole(problem, found)


def _with_past(found: LinearEstimate) -> LinearEstimate:
    """The solution, and its return, with what the past predicts of their residuals: a log may hide part of the state.

    Without it the best of twenty policies was screened in 2 of 146 races (seeds 70000 to 70400), both on such logs.
    """
    tau, residual = sample_rows(found)
    past, per_episode = history(found.equations.on_sample, residual), found.per_episode
    doubts = PAST.of(past.share, bias=past.bias(ratio_error_bound(tau, residual)))
    found = found.doubted((*doubts, *remarks([SCREENED])))
    return found if per_episode is None else replace(found, per_episode=_with_past(per_episode))


def _of_whole(problem: Problem, found: RawEstimate) -> RawEstimate:
    """An estimate on the sample as one of the whole log, whose other episodes move it nowhere."""
    assert found.sums is not None
    some, per_episode = problem.log.episodes[: len(found.sums.numerator)], found.per_episode
    numerator, denominator = np.zeros((2, problem.data.n_episodes, found.sums.numerator.shape[1]))
    numerator[some], denominator[some] = found.sums.numerator, found.sums.denominator
    return RawEstimate(
        value=found.value,
        uncertainty=Bootstrap(episodes=EpisodeSums(numerator, denominator)),
        rows_worth=found.rows_worth,
        doubts=found.doubts,
        diagnostics={**found.diagnostics, "sample_rows": len(problem.log.sample.data)},
        per_episode=None if per_episode is None else _of_whole(problem, per_episode),
    )


def worth_a_race(estimator: Estimator, problem: Problem, policies: int) -> bool:
    """Whether rough solutions say enough: for `auto` and `vpm` on continuous states, whose answers are linear too."""
    return isinstance(estimator, Auto | VPMEstimator) and not problem.finite and policies >= LEAST_POLICIES


def screened(
    valuation: Valuation, targets: Mapping[str, TargetPolicy], jobs: int | None = None
) -> dict[str, Evaluated]:
    """The rough solutions of policies that are not the best, by more than the error of a difference allows."""
    rough = dict(zip(targets, valuation.each(list(targets.values()), jobs, Rough()), strict=True))
    leads = {name: each.of_return or each for name, each in rough.items()}
    return {name: rough[name] for name in leads if any(beats(other, leads[name]) for other in leads.values())}


def beats(one: Evaluated, other: Evaluated) -> bool:
    """Whether a policy is better than another by more than the error of their difference allows."""
    found = one.less(other)
    return found.value > REACH * found.sides[0]
