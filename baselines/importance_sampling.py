"""Weighted importance sampling (Precup, Sutton, Dasgupta 2001), in log space, for episodes of any lengths."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from ope_vpm.arrays import Bools, Floats
from ope_vpm.ope.adapter.given import Behaviour
from ope_vpm.ope.authoring import (
    Bootstrap,
    EpisodeSums,
    Problem,
    ProblemEstimator,
    RawEstimate,
    doubts_of_weights,
    remarks,
)
from ope_vpm.ope.behaviour.clone import behaviour_log_prob, check_behaviour
from ope_vpm.ope.finite.doubts import with_rare_rewards
from ope_vpm.ope.inference.doubts import DISAGREEMENT, Doubts
from ope_vpm.ope.inference.estimate import OVERLAP, unsupported, value_or_nan
from ope_vpm.ope.inference.logged_mean import reward_sums, time_weights
from ope_vpm.ope.inference.returns import ends_under, return_estimate, with_ratio_return, with_weighted_return

SMALLEST = 1e-300
"""Keeps divisions by weights that have all vanished defined."""


@dataclass(frozen=True, kw_only=True)
class ActionRatios(ProblemEstimator):
    """Estimators that weigh rows by action ratios π/b: where b comes from, and a weighted mean as an estimate."""

    behaviour: Behaviour = None
    """"cloned", "logged" or the policy that acted, as in `evaluate`; None: as the question says."""

    def check(self, problem: Problem) -> None:
        """The target needs densities, and logged ones must be there if asked for."""
        check_behaviour(self.name, problem, self.behaviour)

    def log_ratio(self, problem: Problem) -> tuple[Floats, dict[str, Any]]:
        """Log π - log b of each logged action, and how well b was fitted, as a diagnostic."""
        clone = behaviour_log_prob(problem, self.behaviour)
        fit = {"behaviour_held_out_log_likelihood": clone.held_out_log_likelihood}
        return problem.target_log_prob - clone.log_prob, fit


def ratio_of_sums(
    problem: Problem, sums: EpisodeSums, weights: Floats, doubts: Doubts, diagnostics: dict[str, Any]
) -> RawEstimate:
    """The estimate Σ_k Σ_e numerator_ek / Σ_e denominator_ek.

    Args:
        problem: the question.
        sums: numerators and denominators by episode e and column k.
        weights: (n,): of the rows; where all are 0 there is no value.
        doubts: what may speak against it, besides how few episodes have the weight.
        diagnostics: for people to read.
    """
    return RawEstimate(
        value=value_or_nan(sums.ratios.sum(), weights),
        uncertainty=Bootstrap(episodes=sums),
        weights=weights,
        doubts=(*doubts_of_weights(problem.data, weights), *doubts),
        diagnostics=diagnostics,
    )


@dataclass(frozen=True, kw_only=True)
class TrajectoryWise(ActionRatios):
    """Each episode weighted by the product of all its ratios."""

    name: ClassVar[str] = "wist"
    follows_states: ClassVar[bool] = False

    def find(self, problem: Problem) -> RawEstimate:
        """The ratio of the weighted sums of rewards and of time."""
        log_ratio, fit = self.log_ratio(problem)
        data = problem.data
        whole = np.add.reduceat(log_ratio, data.starts)
        weight = np.exp(whole - _largest(whole))
        by_time, tail = time_weights(problem)
        weights = by_time * weight[data.episode]
        whole_time = max(float(weights.sum() + tail @ weight), SMALLEST)
        unlogged = 0.0
        if problem.gamma < 1:
            beyond = weight * ~problem.ends * data.from_reset * problem.gamma**data.lengths / (1 - problem.gamma)
            unlogged = float(beyond.sum()) / whole_time
        sums = reward_sums(data, weights, tail * weight, problem.time_limit).sums
        found = ratio_of_sums(problem, sums, weights, cut_short(problem, sums, weights, unlogged), fit)
        found = with_lost_weight(problem, found, np.exp(np.minimum(whole, LARGEST_LOG)))
        if problem.episodic:
            found = with_weighted_return(problem, found)
        return with_rare(problem, found, weights / whole_time, ends_under(problem, weights))


@dataclass(frozen=True, kw_only=True)
class StepWise(ActionRatios):
    """Each step weighted by the product of the ratios up to it, scaled at each time over the episodes.

    An episode that ended keeps its last weight, with reward 0 (γ < 1) or as one no longer there (restarts);
    one whose log was cut is left out from there on.
    """

    name: ClassVar[str] = "wiss"
    follows_states: ClassVar[bool] = False

    def find(self, problem: Problem) -> RawEstimate:
        """The sum over time of ratios, the weighted mean reward at each time."""
        log_ratio, fit = self.log_ratio(problem)
        sums, weights, time, unlogged = step_wise(problem, log_ratio, problem.data.rewards)
        found = ratio_of_sums(problem, sums, weights, cut_short(problem, sums, weights, unlogged), fit)
        found = found.doubted(unsupported(problem, lost_weight(problem, log_ratio), OVERLAP))
        if not problem.episodic:
            return with_rare(problem, found, weights, 0.0)
        if problem.ends.all():  # the usual definition: the weighted mean rewards of all times, added up
            ends = 1 / time
            found = replace(found, per_episode=return_estimate(found, time * found.value, sums.scaled(time), ends))
        else:
            rate = step_wise(problem, log_ratio, problem.ending.astype(np.float64))[0]
            ends = float(rate.ratios.sum())
            found = with_ratio_return(problem, found, rate)
        if problem.on_end == "restart":
            around = step_wise(problem, log_ratio, problem.data.rewards - found.value)[0]
            uncertainty = Bootstrap(episodes=raised(around, found.value))
            found = replace(found, uncertainty=uncertainty)
        return with_rare(problem, found, weights, ends)


def with_rare(problem: Problem, found: RawEstimate, share: Floats, ends: float) -> RawEstimate:
    """An estimate, and its return, that know from how few episodes their rare rewards are.

    Args:
        problem: the question.
        found: the estimate.
        share: (n,): how much the reward of each row counts in its value.
        ends: the rate of ends per step, by which the return divides.
    """
    of_return = found.per_episode
    if of_return is not None and ends > 0:
        found = replace(found, per_episode=with_rare_rewards(problem.data, of_return, share / ends))
    return with_rare_rewards(problem.data, found, share)


LARGEST_LOG = 50.0
"""The largest logarithm of a product of ratios, for its mean alone: e⁵⁰ is far above 1, whatever the other products
are."""


def with_lost_weight(problem: Problem, found: RawEstimate, product: Floats) -> RawEstimate:
    """The estimate, with a doubt where products of ratios, whose mean is 1, have a lower one.

    What is lost are the episodes that the target would have had: most often long ones, whose products of many ratios
    vanish, so that the few short ones stand for all. They may have paid anything that the rewards allow.

    Args:
        problem: the question.
        found: the estimate.
        product: (episodes,): of the ratios of each episode.
    """
    lost = _missing(product[:, None], np.ones((len(product), 1), dtype=np.bool_))
    return found.doubted(unsupported(problem, float(lost[0]), OVERLAP))


FEW_CUT = 0.05
"""The weight of cut episodes up to which the mean over the logged steps passes for the long run's without a remark: the
share of steps without data from which every estimate asks for caution."""


BEYOND = "{:.0%} of the discounted weight lies beyond the steps at which episodes were cut"
CUT = (
    "episodes were cut, and the mean over their logged steps, which products of ratios tell, need not be that of the "
    "long run"
)


def cut_short(problem: Problem, sums: EpisodeSums, weights: Floats, unlogged: float) -> Doubts:
    """Doubts because the log stopped before the task did.

    Below γ = 1 the steps beyond the log may pay anything that the rewards allow. At γ = 1 a method that weighs
    trajectories knows the mean over the logged steps, and no long run: how far the later half of the steps lies from
    all of them says how much of the way is left.

    Args:
        problem: the question.
        sums: of which the estimate is the ratio.
        weights: (n,): of the rows.
        unlogged: the share of the discounted time that lies beyond the log.
    """
    data = problem.data
    if problem.gamma < 1:
        return unsupported(problem, unlogged, BEYOND)
    whole, cut = float(weights.sum()), float(weights[~problem.ends[data.episode]].sum())
    if not whole > 0 or cut <= FEW_CUT * whole:
        return ()
    value = value_or_nan(sums.ratios.sum(), weights)
    late = np.where(2 * data.time >= data.lengths[data.episode], weights, 0.0)
    later = float(late @ data.rewards / late.sum()) if late.sum() > 0 else value
    return (*DISAGREEMENT.suspects(abs(later - value)), *remarks([CUT]))


def step_wise(problem: Problem, log_ratio: Floats, paid: Floats) -> tuple[EpisodeSums, Floats, float, float]:
    """Per-episode sums with one column per time step, each row's share in the value, and the whole discounted time.

    The last number is the share of the discounted time that lies beyond the log: after its last step, of what still
    runs then, and wherever no episode with any weight is left.

    Args:
        problem: the question.
        log_ratio: log π - log b of each logged action.
        paid: the reward of each row.
    """
    data, gamma = problem.data, problem.gamma
    alive, weight = step_weights(problem, log_ratio)
    rewards = np.zeros(alive.shape)
    rewards[data.episode, data.time] = paid
    horizon = alive.shape[1]
    total = np.maximum(weight.sum(axis=0), SMALLEST)
    share = np.where(alive, weight, 0.0).sum(axis=0) / total
    discount = gamma ** np.arange(horizon)
    norm = float(discount @ share)
    after = 0.0 if gamma == 1 else gamma**horizon / (1 - gamma)
    running = after * float(weight[~problem.ends, -1].sum() / total[-1])
    unlogged = running / max(norm + running, SMALLEST)
    if problem.on_end == "absorb":
        ended = float(weight[problem.ends, -1].sum() / total[-1])
        norm = float(discount @ (weight.sum(axis=0) > 0) + after * ended)
        unlogged = max(0.0, 1 - (1 - gamma) * norm)
    scaled = np.where(alive, weight, 0.0) * discount / max(norm, SMALLEST)
    weights = (scaled / total)[data.episode, data.time]
    return EpisodeSums(scaled * rewards, weight), weights, norm, unlogged


def raised(sums: EpisodeSums, value: float) -> EpisodeSums:
    """Add a value to ratios of sums, spread evenly over them, whichever episodes are drawn.

    Where ends restart, the value per step divides by a time that the log does not know: the mean length of an episode.
    Sums of r - v know its part in the error, for they are 0 however long episodes are; v is added to them again.
    """
    known = sums.denominator.any(axis=0)
    return EpisodeSums(sums.numerator + value * sums.denominator * known / max(known.sum(), 1), sums.denominator)


def log_products(problem: Problem, log_ratio: Floats) -> tuple[Bools, Bools, Floats]:
    """Which episodes still run at each time, which have a product of ratios so far, and its logarithm.

    All are (episodes, times). Ended episodes keep their last product, cut ones have none.
    """
    data = problem.data
    used = data.from_reset if problem.gamma < 1 else np.ones(data.n_episodes, dtype=np.bool_)
    horizon = int(data.lengths.max())
    alive = (np.arange(horizon) < data.lengths[:, None]) & used[:, None]
    ratios = np.zeros(alive.shape)
    ratios[data.episode, data.time] = log_ratio
    with np.errstate(invalid="ignore"):
        return alive, alive | (problem.ends & used)[:, None], np.cumsum(ratios, axis=1)


def step_weights(problem: Problem, log_ratio: Floats) -> tuple[Bools, Floats]:
    """Which episodes still run at each time, and their products of ratios so far, (episodes, times).

    Products are divided by the largest of their time; those that are not known are 0.
    """
    alive, known, product = log_products(problem, log_ratio)
    largest = np.array([_largest(product[known[:, t], t]) for t in range(alive.shape[1])])
    with np.errstate(invalid="ignore"):
        return alive, np.where(known, np.exp(product - largest), 0.0)


def lost_weight(problem: Problem, log_ratio: Floats) -> float:
    """The discounted share of the logged steps for which products of ratios are missing.

    At each time their mean is 1 in truth; as far as it lies below 1, beyond two standard errors, they are missing.
    """
    _, known, product = log_products(problem, log_ratio)
    missing = _missing(np.where(known, np.exp(np.minimum(product, LARGEST_LOG)), 0.0), known)
    weight = problem.gamma ** problem.data.time.astype(np.float64)
    return float(weight @ missing[problem.data.time] / weight.sum())


def _missing(products: Floats, known: Bools) -> Floats:
    """1 less the mean of each column and less two of its standard errors, but not below 0; over what is known alone."""
    count = np.maximum(known.sum(axis=0), 1)
    mean = products.sum(axis=0) / count
    spread = np.sqrt(np.where(known, (products - mean) ** 2, 0.0).sum(axis=0) / count)
    return cast(Floats, np.where(known.any(axis=0), np.maximum(0.0, 1 - mean - 2 * spread / np.sqrt(count)), 0.0))


def _largest(logs: Floats) -> float:
    """The largest logarithm; 0 where all are minus infinity or there are none."""
    top = float(logs.max(initial=-np.inf))
    return top if np.isfinite(top) else 0.0
