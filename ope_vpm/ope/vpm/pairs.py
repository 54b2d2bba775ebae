"""VPM on transitions between pairs (s, a) by one of the chain's solvers: kernel, neural, or power steps on counts."""

import warnings
from dataclasses import replace
from threading import RLock
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.chain import VPM, StationaryEstimate, StationaryWarning, Transitions
from ope_vpm.chain.diagnostics import Diagnostics
from ope_vpm.chain.solvers.solution import ValueFunction
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.adapter.pairs import Pairs
from ope_vpm.ope.finite.influence import MORE_THAN_ONCE, leverage, widening
from ope_vpm.ope.inference.doubts import DISAGREEMENT, Doubts, joined, remarks
from ope_vpm.ope.inference.estimate import RawEstimate, doubts_of_weights, unsupported
from ope_vpm.ope.inference.returns import UNKNOWN, with_ratio_return
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums, influence_sums
from ope_vpm.ope.problem import Problem


def find_by_solver(problem: Problem, method: VPM, draws: int) -> RawEstimate:
    """Fit the ratio over pairs; the value is Σ τ r / Σ τ.

    Args:
        problem: the question.
        method: the solver with its settings.
        draws: target actions per row where actions are continuous.
    """
    pairs = problem.pairs(draws)
    estimate = fit_quietly(method, pairs.transitions)
    value = weighted_mean(estimate, pairs)
    sums = pair_influence(problem, pairs, estimate, value, draws)
    other = other_treatment(method, pairs, estimate)
    distance = None if other is None else abs(weighted_mean(other, pairs) - value)
    logged = pairs.rows >= 0
    weights = group_sums(pairs.rows[logged], estimate.weights[logged], len(problem.data))
    report = estimate.diagnostics
    found = RawEstimate(
        value=value,
        uncertainty=Bootstrap(episodes=sums),
        weights=weights,
        doubts=(
            *doubts_of_weights(problem.data, weights),
            *_fit_doubts(problem, report),
            *DISAGREEMENT.suspects(distance),
            *remarks((*_smoothed(problem, pairs), *report.doubts, *_clock(problem))),
        ),
        diagnostics={
            "mean_ratio": report.mean_ratio,
            "stationarity_residual": report.stationarity_residual,
            "stationarity_noise": report.stationarity_noise,
            "solver": report.solver,
            "dropped": pairs.dropped,
            "ended": pairs.ended,
            "notes": report.notes,
            **report.settings,
        },
    )
    return _with_return(problem, pairs, found, estimate, other, draws) if problem.episodic else found


NOT_STATIONARY = "the distribution found is not stationary: it is off by {:.0%} beyond its noise"


def _fit_doubts(problem: Problem, report: Diagnostics) -> Doubts:
    """Doubts from the chain's own diagnostics: mass in the wrong place, and mass without data."""
    residual = report.stationarity_residual
    beyond = 0.0 if residual is None else max(0.0, residual - 3 * (report.stationarity_noise or 0.0))
    off = max(beyond, 0.0 if report.mean_ratio is None else abs(report.mean_ratio - 1))
    return joined(unsupported(problem, off, NOT_STATIONARY), unsupported(problem, report.unseen_mass))


SMOOTHED = (
    "the target's actions have no densities, so the ratio is one of smoothed actions, which biases the value: "
    "use auto or fqe"
)
"""Measured on a deterministic controller of `envs.linear_gaussian`, ten logs of 100 episodes, γ = 1 and 0.9: 7 of 20
intervals hold the true value, and 1 of the 13 that were called reliable without this remark; of auto's, 19 of 20."""


def _smoothed(problem: Problem, pairs: Pairs) -> tuple[str, ...]:
    """A doubt where a ratio to logged continuous actions does not exist, as for a deterministic target."""
    return () if problem.policy.has_log_prob or pairs.encoder.n_actions is not None else (SMOOTHED,)


def _clock(problem: Problem) -> tuple[str, ...]:
    return clock_remarks(problem.data, problem.time_limit, known=False)


def _with_return(
    problem: Problem,
    pairs: Pairs,
    found: RawEstimate,
    estimate: StationaryEstimate,
    other: StationaryEstimate | None,
    draws: int,
) -> RawEstimate:
    """The estimate with the return of an episode, Σ τ r / Σ τ·1[the task ends here], from the same ratio."""
    ends = replace(pairs, rewards=problem.ending[pairs.rows].astype(np.float64))
    rate = weighted_mean(estimate, ends)
    found = with_ratio_return(problem, found, pair_influence(problem, ends, estimate, rate, draws), rate)
    of_return = found.per_episode
    if other is None or of_return is None or of_return is UNKNOWN:
        return found
    other_rate = weighted_mean(other, ends)
    apart = of_return.value - (weighted_mean(other, pairs) / other_rate if other_rate > 0 else 0.0)
    return replace(found, per_episode=of_return.doubted(DISAGREEMENT.suspects(abs(apart))))


_WARNINGS = RLock()
"""What is warned of is one setting for all threads."""


def fit_quietly(method: VPM, transitions: Transitions) -> StationaryEstimate:
    """Fit the ratio; what the chain would warn of stands in the diagnostics' notes."""
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore", StationaryWarning)
        return method.fit(transitions)


def weighted_mean(estimate: StationaryEstimate, pairs: Pairs) -> float:
    """Σ τ r / Σ τ, the absorbing row included: its reward is 0."""
    return float(estimate.weights @ pairs.rewards / estimate.weights.sum())


def other_treatment(method: VPM, pairs: Pairs, estimate: StationaryEstimate) -> StationaryEstimate | None:
    """The estimate by another treatment of unseen pairs; None where states are continuous.

    No treatment is best everywhere, so their difference is what is known about the bias; it is 0 if all were seen.
    """
    if not pairs.transitions.finite:
        return None
    if estimate.diagnostics.unseen_mass == 0:
        return estimate
    used = estimate.diagnostics.settings["unseen"]
    options: dict[str, Any] = method.options | {"unseen": "restart" if used == "good-turing" else "good-turing"}
    return fit_quietly(VPM(gamma=method.gamma, solver="tabular", seed=method.seed, **options), pairs.transitions)


def pair_influence(
    problem: Problem, pairs: Pairs, estimate: StationaryEstimate, value: float, draws: int
) -> EpisodeSums:
    """How each episode moves the estimate, to first order.

    Each row contributes τ·(r + γh(x') - h(x) - v), h the chain's value function.
    """
    gamma, logged, h = problem.gamma, pairs.rows >= 0, estimate.value_function(pairs.rewards)
    level = value if gamma == 1 else 0.0
    weight = pairs.transitions.row_weights
    mass = (estimate.weights / estimate.weights.sum())[logged]
    residual = (td_residual(pairs, h, gamma) - level)[logged]
    if pairs.transitions.finite:
        residual *= _correction_for_counts(pairs, mass)
    return influence_sums(
        problem,
        rows=pairs.rows[logged],
        share=(weight / weight[logged].sum())[logged],
        mass=mass,
        residual=residual,
        first=initial_values(problem, pairs, h, draws),
        level=value if gamma == 1 else None,
    )


def td_residual(pairs: Pairs, h: ValueFunction, gamma: float) -> Floats:
    """The residual r + γh(x') - h(x), averaged over the successors of each row."""
    tr = pairs.transitions
    probability = np.ones(tr.successors.shape[:2]) if tr.next_weight is None else tr.next_weight
    after = np.zeros(len(tr))
    for k in range(probability.shape[1]):
        after += probability[:, k] * h(tr.successors[:, k])
    return pairs.rewards + gamma * after - h(tr.x)


def initial_values(problem: Problem, pairs: Pairs, h: ValueFunction, draws: int) -> Floats:
    """The value function at each logged initial state, averaged over the target's actions there."""
    first = problem.log.initial_observations
    if pairs.transitions.x_initial is None:
        return np.zeros(0)
    values = h(pairs.transitions.x_initial)
    if pairs.encoder.n_actions is None:
        return values.reshape(len(first), draws).mean(axis=1)
    probability = problem.policy.probabilities(first)
    possible = probability > 0
    episode = np.nonzero(possible)[0]
    return group_sums(episode, probability[possible] * values, len(first))


def _correction_for_counts(pairs: Pairs, mass: Floats) -> Floats:
    """The factor by which residuals around each x's own mean are too small: see `leverage` and `widening`."""
    tr, logged = pairs.transitions, pairs.rows >= 0
    _, number = np.unique(tr.x, return_inverse=True)
    times = group_sums(number, np.ones(len(tr)) if tr.weight is None else tr.weight)[number][logged]
    return leverage(times) * widening(mass, times > MORE_THAN_ONCE)
