"""VPM on pairs (s, a): the chain's own solvers, with a value and its influence function by episode."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.chain import VPM, StationaryEstimate, StationaryWarning, Transitions
from ope_vpm.chain.solvers.solution import ValueFunction
from ope_vpm.ope.adapter.pairs import Pairs
from ope_vpm.ope.adapter.time_limit import clock_remarks
from ope_vpm.ope.inference.estimate import RawEstimate, evidence_of_weights
from ope_vpm.ope.inference.influence import EpisodeSums, influence_sums
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.problem import Problem

MOST_WIDENING = 10.0


def find_on_pairs(problem: Problem, method: VPM, draws: int) -> RawEstimate:
    """Fit the ratio over pairs; the value is Σ τ r / Σ τ."""
    pairs = problem.pairs(draws)
    estimate = quietly(method, pairs.transitions)
    value = weighted_mean(estimate, pairs)
    sums = influence(problem, pairs, estimate, value, draws)
    spread = sums.standard_error
    other = another_treatment(method, pairs, estimate, value)
    weights = by_row(problem, pairs, estimate.weights)
    report = estimate.diagnostics
    evidence = evidence_of_weights(
        problem.data,
        weights,
        mean_ratio=report.mean_ratio,
        residual=report.stationarity_residual,
        residual_noise=report.stationarity_noise,
        unseen_mass=report.unseen_mass,
        disagreement=None if other is None or spread == 0 else other / spread,
        remarks=(*report.doubts, *clock_remarks(problem, known=False)),
    )
    diagnostics = {"solver": report.solver, "dropped": pairs.dropped, "ended": pairs.ended, "notes": report.notes}
    return RawEstimate(
        value=value,
        uncertainty=Bootstrap(episodes=sums, suspected_bias=other or 0.0),
        weights=weights,
        evidence=evidence,
        diagnostics=diagnostics | report.settings,
    )


def quietly(method: VPM, transitions: Transitions) -> StationaryEstimate:
    """Fit; what the chain would warn of stands in the diagnostics' notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StationaryWarning)
        return method.fit(transitions)


def weighted_mean(estimate: StationaryEstimate, pairs: Pairs) -> float:
    """Σ τ r / Σ τ, the absorbing row included: its reward is 0."""
    return float(estimate.weights @ pairs.rewards / estimate.weights.sum())


def by_row(problem: Problem, pairs: Pairs, weights: Floats) -> Floats:
    """Weights of the logged rows; copies of a row are summed, the absorbing row left out."""
    logged = pairs.rows >= 0
    return group_sums(pairs.rows[logged], weights[logged], len(problem.data))


def another_treatment(method: VPM, pairs: Pairs, estimate: StationaryEstimate, value: float) -> float | None:
    """Finite states: how far the value lies from what another treatment of unseen pairs gives; 0 if all are seen.

    No treatment is best everywhere, so their difference is what is known about the bias.
    """
    if estimate.diagnostics.solver != "tabular":
        return None
    if estimate.diagnostics.unseen_mass == 0:
        return 0.0
    used = estimate.diagnostics.settings["unseen"]
    options: dict[str, Any] = method.options | {"unseen": "restart" if used == "good-turing" else "good-turing"}
    other = quietly(VPM(gamma=method.gamma, solver="tabular", seed=method.seed, **options), pairs.transitions)
    return abs(weighted_mean(other, pairs) - value)


def influence(problem: Problem, pairs: Pairs, estimate: StationaryEstimate, value: float, draws: int) -> EpisodeSums:
    """Per-episode sums whose bootstrap is that of the estimate to first order.

    Each row contributes τ·(r + γh(x') - h(x) - v), h the chain's value function; for first states see `influence`.
    """
    gamma = problem.gamma
    h = estimate.value_function(pairs.rewards)
    offset = value if gamma == 1 else 0.0
    logged = pairs.rows >= 0
    rows, share = pairs.rows[logged], (estimate.weights / estimate.weights.sum())[logged]
    residual = ((td_residual(pairs, h, gamma) - offset) * leverage(pairs, estimate))[logged]
    first = np.zeros(0) if pairs.transitions.x_initial is None else initial_values(problem, pairs, h, draws)
    level = value if gamma == 1 else None
    return influence_sums(problem, rows, _row_share(pairs)[logged], share, residual, first, level)


def td_residual(pairs: Pairs, h: ValueFunction, gamma: float) -> Floats:
    """The residual r + γh(x') - h(x), averaged over the successors of each row."""
    tr = pairs.transitions
    chance = np.ones(tr.successors.shape[:2]) if tr.next_weight is None else tr.next_weight
    after = np.zeros(len(tr))
    for k in range(chance.shape[1]):
        after += chance[:, k] * h(tr.successors[:, k])
    return pairs.rewards + gamma * after - h(tr.x)


def leverage(pairs: Pairs, estimate: StationaryEstimate) -> Floats:
    """Finite states: residuals are taken around each x's own mean, so they are too small by √((n-1)/n).

    Those of x seen once are 0 and say nothing: the others stand for them.
    """
    tr = pairs.transitions
    if not tr.finite:
        return np.ones(len(tr))
    _, number = np.unique(tr.x, return_inverse=True)
    weight = np.ones(len(tr)) if tr.weight is None else tr.weight
    times = group_sums(number, weight)[number]
    often = (times > 1.5) & (pairs.rows >= 0)
    factor = np.sqrt(np.divide(times, times - 1, out=np.ones_like(times), where=often))
    square = np.where(pairs.rows >= 0, estimate.weights, 0.0) ** 2
    whole, known = square.sum(), square[often].sum()
    widening = np.sqrt(whole / known) if known > 0 else MOST_WIDENING
    return factor * min(float(widening), MOST_WIDENING)


def initial_values(problem: Problem, pairs: Pairs, h: ValueFunction, draws: int) -> Floats:
    """The value function at each logged first state, averaged over the target's actions there."""
    tr, first = pairs.transitions, problem.log.initial_observations
    assert tr.x_initial is not None
    values = h(tr.x_initial)
    if pairs.encoder.n_actions is None:
        mean: Floats = values.reshape(len(first), draws).mean(axis=1)
        return mean
    chance = problem.policy.probabilities(first)
    possible = chance > 0
    episode = np.nonzero(possible)[0]
    return group_sums(episode, chance[possible] * values, len(first))


def _row_share(pairs: Pairs) -> Floats:
    weight = pairs.transitions.row_weights
    share: Floats = weight / weight[pairs.rows >= 0].sum()
    return share
