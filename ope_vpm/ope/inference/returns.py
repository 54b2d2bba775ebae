"""The undiscounted return of an episode, at γ = 1 on tasks that end.

An ended episode restarts, so that the mean reward per step is v = E[return]/E[length], and the probability that a step
is the last one is e = 1/E[length], the value of the same chain with the reward 1[the task ends here]. So the return is
R = v/e, and it is also the charge at which reward and charge break even: the value of the rewards r - R·1[end] is 0.
To first order episodes move it by (ψ_r - R·ψ_e)/e, which is the influence function of those charged rewards over e;
whatever is suspected about the bias of their value holds for the return, divided by e, as well.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from scipy.special import betaincinv

from ope_vpm.arrays import Floats, effective_sample_size
from ope_vpm.ope.inference.doubts import FEW, among, judge, remarks, scaled
from ope_vpm.ope.inference.estimate import (
    RawEstimate,
    all_doubts,
    interval_of,
    noise_of,
    outside,
    return_range,
    reward_range,
)
from ope_vpm.ope.inference.uncertainty import LEVEL, Bootstrap, Derived, EpisodeSums, Interval
from ope_vpm.ope.inference.value import EpisodeReturn
from ope_vpm.ope.problem import Problem

LEAST_RATE = 1e-9
"""As a share of the log's own rate of ends: a smaller rate is what rounding leaves of 0."""
FEW_ENDS = "how often the target reaches an end is known from few of them, worth {:.1f}"
LONGER = "the target's episodes have {:.0f} steps on average, more than any logged one: no end after so many was seen"
Estimate = TypeVar("Estimate", bound=RawEstimate)
UNKNOWN = RawEstimate(value=float("nan"))
"""The return of a target that reaches no end."""


def fixed_length(problem: Problem) -> int | None:
    """The length of every episode, where a time limit alone ends them: the return is then length · value."""
    return None if problem.data.table.terminated.any() else problem.limit


def reaches_ends(problem: Problem, rate: float) -> bool:
    """Whether a rate of ends per step says that the target reaches some: it is not 0 but for rounding, nor negative."""
    return bool(np.isfinite(rate) and rate > LEAST_RATE * problem.ends.sum() / len(problem.data))


Find = Callable[[Problem], RawEstimate]


def with_return(problem: Problem, found: RawEstimate, find: Find, plain: Find | None = None) -> RawEstimate:
    """An estimate with the return of an episode, where the estimator has not found it itself.

    Args:
        problem: the question, at γ = 1 on a task that ends.
        found: what the estimator found.
        find: what it finds for other rewards.
        plain: what a simpler estimate is, linear in the rewards, by which the return is first guessed; None: `find`.
    """
    length = fixed_length(problem)
    if length is not None:
        return replace(found, per_episode=uncharged(0.0, 1 / length, found))
    if found.per_episode is not None:
        return found
    return replace(found, per_episode=_charged(problem, found, find, plain))


def _charged(problem: Problem, found: RawEstimate, find: Find, plain: Find | None) -> RawEstimate:
    """The return by further questions: the rate of ends, and the value of charged rewards.

    An estimator that is linear in the rewards values charged ones at 0. Where it is not, because a ridge or a
    regression depends on them, one step of Newton's method remains. With a plain estimate, R₀ = v₀/e₀, beside the
    estimator's own, R₁ = v₁/e₁, the step divides by the larger rate, so that it ends between the two: at R₁ where the
    target ends sooner than the plain one says, and nearer to R₀ the smaller e₁ is. Arguments as in `with_return`.
    """
    ends = problem.charged(0.0, -1.0)
    own = find(ends)
    guess, rate = (found, own) if plain is None else (plain(problem), plain(ends))
    if not np.isfinite(guess.value) or not reaches_ends(problem, rate.value):
        return UNKNOWN
    charge, sooner = guess.value / rate.value, own if own.value > rate.value else rate
    charged = find(problem.charged(1.0, charge))
    error = 0.0 if sooner.sums is None else sooner.sums.standard_error / sooner.value
    found_return = with_rate_doubt(uncharged(charge, sooner.value, charged), error)
    return with_counted_ends(problem, found, sooner.value, found_return) if problem.finite else found_return


def with_counted_ends(problem: Problem, found: RawEstimate, rate: float, of_return: RawEstimate) -> RawEstimate:
    """A return on finite states whose interval and verdict know from how few ends it was counted.

    Where only ends pay, as for a probability of survival, the return lies between the least and the largest pay, and is
    a share of the way from one to the other. Its interval reaches at least as far as the exact limits of such a share
    in as many ends as the weighted log is worth: an influence function is 0 where all of them pay the same. Otherwise
    it reaches as far as the value's, over the rate of ends. What speaks against the value speaks against the return.

    Args:
        problem: the question, on finite states and actions.
        found: the estimate of the value per step.
        rate: of ends per step.
        of_return: the estimate of the return.
    """
    allowed, uncertainty, ends = return_range(problem), of_return.uncertainty, of_return.ends_worth
    if ends is None and of_return.weights is not None:
        ends = effective_sample_size(np.maximum(of_return.weights, 0)[problem.ending])
    if ends is None or uncertainty is None:
        return of_return
    few = FEW.of(ends, problem.data.n_episodes, sentence=FEW_ENDS)
    longer = [LONGER.format(1 / rate)] if 1 / rate > problem.data.lengths.max() else []
    of_return = of_return.doubted(among(found.doubts, FEW), few, remarks(longer))
    width, rewards = allowed.high - allowed.low, problem.data.reward_facts
    inner = rewards.inner or bool(rewards.last[~problem.ends].any())
    if inner or not (np.isfinite(width) and width > 0 and ends > 0):
        if found.uncertainty is None:
            return of_return
        low, high = ((end - found.value) / rate for end in found.uncertainty.limits)
        reach = of_return.value + low, of_return.value + high
    else:
        share = float(np.clip((of_return.value - allowed.low) / width, 0, 1))
        low, high = share_limits(share * ends, ends)
        reach = allowed.low + width * low, allowed.low + width * high
    return replace(of_return, uncertainty=Derived(of=uncertainty, limits=reach))


def share_limits(events: float, trials: float) -> Interval:
    """The exact limits of a binomial share (Clopper and Pearson 1934), the numbers need not be whole."""
    tail = (1 - LEVEL) / 2
    low = float(betaincinv(events, trials - events + 1, tail)) if events > 0 else 0.0
    high = float(betaincinv(events + 1, trials - events, 1 - tail)) if events < trials else 1.0
    return low, high


def uncharged(charge: float, rate: float, charged: RawEstimate) -> RawEstimate:
    """The return, from a first guess and an estimate of what is left of it.

    Args:
        charge: the first guess of the return.
        rate: the rate of ends; an error in it matters as far as the guess was wrong.
        charged: of the rewards r - charge·1[the task ends here].
    """
    of = charged.uncertainty
    uncertainty = of and Derived(of=of, at=charged.value, shift=charge, factor=1 / rate)
    value, doubts = charge + charged.value / rate, scaled(charged.doubts, 1 / rate)
    return replace(charged, value=value, uncertainty=uncertainty, doubts=doubts, per_episode=None)


def ends_under(problem: Problem, weights: Floats) -> float:
    """The rate of ends per step by weights of the logged rows; 0 where they have none."""
    total = float(weights.sum())
    return float(weights @ problem.ending) / total if total > 0 else 0.0


def return_estimate(
    found: RawEstimate, value: float, sums: EpisodeSums, rate: float, rate_error: float = 0.0
) -> RawEstimate:
    """The estimate of a return.

    Args:
        found: of the value, whose weights and doubts it shares.
        value: R.
        sums: how each episode moves it, to first order by (ψ_r - R·ψ_e)/e.
        rate: e, by which the value's suspected biases are divided, too.
        rate_error: the standard error of the rate of ends, relative to the rate.
    """
    uncertainty, doubts = Bootstrap(episodes=sums), scaled(found.doubts, 1 / rate)
    of_return = replace(found, value=value, uncertainty=uncertainty, doubts=doubts, per_episode=None)
    return with_rate_doubt(of_return, rate_error)


def with_rate_doubt(of_return: Estimate, rate_error: float) -> Estimate:
    """The return with a doubt about the rate of ends, by which it divides.

    A rate with the relative standard error ε is known as if 1/ε² ends had been counted.
    """
    return of_return.doubted(FEW.of(1 / rate_error**2, sentence=FEW_ENDS) if rate_error > 0 else ())


def with_ratio_return(
    problem: Problem, found: RawEstimate, rate: EpisodeSums, ends: float | None = None, sums: EpisodeSums | None = None
) -> RawEstimate:
    """An estimate that is linear in the rewards with its return R = v/e, from the same estimate of the rate e of ends.

    Args:
        problem: the question, at γ = 1 on a task that ends.
        found: the estimate of the value v.
        rate: how each episode moves the estimate for the reward 1[the task ends here].
        ends: e; None: the sum of the ratios of `rate`.
        sums: Σ w r over Σ w·1[end], where it is that ratio; None: R is moved by (ψ_r - R·ψ_e)/e, to first order.
    """
    ends = float(rate.ratios.sum()) if ends is None else ends
    own = found.sums
    if not reaches_ends(problem, ends) or (sums is None and own is None):
        return replace(found, per_episode=UNKNOWN)
    value = found.value / ends if sums is None else float(sums.ratios[0])
    if sums is None and own is not None:
        sums = EpisodeSums.of_influence(value, (own.influence - value * rate.influence) / ends)
    assert sums is not None
    return replace(found, per_episode=return_estimate(found, value, sums, ends, rate.standard_error / ends))


def with_weighted_return(problem: Problem, found: RawEstimate) -> RawEstimate:
    """An estimate whose value is Σ w r / Σ w with its return, Σ w r / Σ w·1[the task ends here].

    Args:
        problem: the question, at γ = 1 on a task that ends.
        found: the estimate of the value, with weights.
    """
    if found.weights is None:
        return found
    data, ending, weights = problem.data, problem.ending, found.weights
    episode, count = data.episode, data.n_episodes
    sums = EpisodeSums.of_rows(episode, count, weights * data.rewards, weights * ending)
    rate = EpisodeSums.of_rows(episode, count, weights * ending, weights)
    return with_ratio_return(problem, found, rate, sums=sums)


NO_ENDS = "every logged step pays the same and a time limit alone ends episodes, so the log says nothing about ends"
NO_LIMIT = (
    "without a time limit a return may have no end: the interval is that of the return if episodes end as often as the "
    "log shows"
)
SAME_RETURN = "every logged episode ends with the same pay, so the log says nothing about other ends"
ONE_EPISODE = "one episode gives no interval: it cannot say how episodes differ"


def episode_return(problem: Problem, raw: RawEstimate) -> EpisodeReturn | None:
    """The return with its interval and its verdict; None where the target reaches no end."""
    if not np.isfinite(raw.value):
        return None
    allowed = return_range(problem)
    error, interval = interval_of(problem, raw)
    level, reasons = judge(all_doubts(problem, raw), noise_of(problem, raw, error, float(problem.data.lengths.mean())))
    if interval is None:
        reasons = (ONE_EPISODE, *reasons)
    elif allowed.single:
        level, reasons = "unreliable", (SAME_RETURN, *reasons)
    elif allowed.beyond(interval):  # values beyond it by their noise are usual where the truth is near one of its ends
        level, reasons = "unreliable", (outside("return", raw.value, allowed), *reasons)
    unknown = allowed.single  # equal rewards have no error, and say nothing of others
    if reward_range(problem).single and not problem.data.table.terminated.any():
        level, reasons, unknown = "unreliable", (NO_ENDS, *reasons), True
    if not np.isfinite([allowed.low, allowed.high]).all() and level == "unreliable":
        reasons = (*reasons, NO_LIMIT)
    if interval is not None and unknown and np.isfinite([allowed.low, allowed.high]).all():
        interval = allowed.low, allowed.high
    cut = None if interval is None else allowed.cut(interval)
    return EpisodeReturn(allowed.nearest(raw.value), error, cut, level, reasons)
