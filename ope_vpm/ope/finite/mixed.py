"""What pairs are worth that were never seen: a mixed model of the outcomes of those that were.

    Q(s, a) = m₀ + m_s + f(s, a)'c + u_sa,    m_s ~ (0, τ_m²),  u_sa ~ (0, τ_u²)

with y = r̂ + γP̂V, known to σ²/n, as the observed Q of a seen pair. The covariates f are ℓ = log π(a|s), for policies
prefer what is good, and log b̂(a|s), for what a behaviour avoids is bad where it was good, and good where it was bad;
both less their mean under the target in each state. Given the variances and the weights below all predictions are
linear in y, so that they make one map M from states to seen pairs (`CompletedModel`), which is solved exactly.

Two fits of c, with and without ℓ, are averaged, weighted by their evidence: choosing one of them would flip between
logs of one setting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import ROUNDING, Floats, effective_sample_size, group_sums
from ope_vpm.ope.finite.behaviour import BehaviourModel, centred_log_probabilities
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.model import CompletedModel
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.threads import cached_property

EFFECTIVE_PAIRS = 1000
"""Pairs, in Kish's sense, that the weights leave, or half of all if these are fewer. With 300 errors on Taxi are 0.1
decades (worse targets) and 1.5 decades (better ones) larger."""
SHRINKAGE = 4.0
"""Shrinkage of c, which keeps W/(W + 4) of itself, W = c'Σ⁻¹c by its own covariance Σ. Errors per step on 266 logs of
made-up and generated tasks with 2, 8, 30 are 1.40, 1.41 and 1.51 floors, without slopes 1.98; with 4 Taxi's better
targets are nearer than with 8."""
MOST_FROM_STATE = 0.3
"""A pair seen n times gives at most 0.3/(n + 0.3) of itself to its prediction, and σ²/τ_u² in place of 0.3 if that is
less: shrinking single pairs by more loses, as a value is a mean in which noise averages out and bias does not."""
FOR_STAYING = 1.0
"""By how much more a pair gives that always led back to its own state: seen once, it would hold the target there for
ever. Per step at γ = 1 ICU-Sepsis is 1 floor nearer in two logs; 3 in place of 1 is 0.5 decades worse on Taxi."""
LEAST_VARIANCE = 1e-3
"""A share of all outcomes' variance, the least for that of pairs and of states: a smaller one is as good as 0, which
divides."""
RIDGE = 1e-9
"""On c, relative to its own precision: covariates may be equal but for rounding."""


@dataclass(frozen=True)
class Variances:
    """The variance components of outcomes."""

    noise: float
    """σ², of single outcomes around the mean of their pair."""
    pair: float
    """τ_u², of pairs around their prediction."""
    state: float
    """τ_m², of states."""

    def precision(self, times: Floats) -> Floats:
        """(pairs,): of the mean outcome of each pair around its prediction, by how often it was seen."""
        precision: Floats = 1 / (self.pair + self.noise / times)
        return precision

    @classmethod
    def of(cls, counts: PairCounts, values: Floats, gamma: float, covariates: Floats) -> Variances:
        """By moments: within pairs, between pairs within states, and between states.

        Args:
            counts: the log.
            values: (states,): V.
            gamma: the discount.
            covariates: (pairs, k): whose within-state slope is taken out first.
        """
        y, apart = counts.outcomes(values, gamma)
        times = counts.distinct_times
        freedom = float(np.maximum(times - 1, 0).sum())
        noise = apart * float(times.sum() / counts.times.sum()) / freedom if freedom > 0 else 0.0
        state, seen = counts.state_of_pair, np.maximum(counts.actions_seen, 1)

        def within(z: Floats) -> Floats:
            return z - (group_sums(state, z, counts.states) / seen)[state]

        inner = np.stack([within(column) for column in covariates.T], axis=1)
        square = inner.T @ inner + RIDGE * counts.pairs * np.eye(inner.shape[1])
        rest = y - covariates @ np.linalg.solve(square, inner.T @ within(y))
        whole = float(np.var(rest))
        if whole <= (ROUNDING * np.abs(y).max()) ** 2:
            return cls(noise, 1.0, 1.0)  # all outcomes are equal: any weights will do
        inverse = group_sums(state, 1 / times, counts.states)
        left, free = counts.actions_seen > 0, float((seen - 1).sum()) - inner.shape[1]
        of_noise = noise * float((inverse * (1 - 1 / seen)).sum())
        pair = (float((within(rest) ** 2).sum()) - of_noise) / free if free > 0 else whole
        pair = max(pair, LEAST_VARIANCE * whole)
        means = (group_sums(state, rest, counts.states) / seen)[left]
        of_states = float(np.var(means) - np.mean(pair / seen[left] + noise * inverse[left] / seen[left] ** 2))
        return cls(noise, pair, max(of_states, LEAST_VARIANCE * whole))


@dataclass(frozen=True, eq=False)
class Weights:
    """How much seen pairs count in the regression: as much as they are like what the target does."""

    pairs: Floats
    """(pairs,): π^t."""
    states: Floats
    """(states,): d^t, d being where the target spends its time."""

    @classmethod
    def of(cls, problem: FiniteProblem, distribution: Floats) -> Weights:
        """With the largest t in {1, 0.9, …, 0} that leaves enough effective pairs."""
        counts, least = problem.counts, min(EFFECTIVE_PAIRS, problem.counts.pairs / 2)
        known = np.maximum(distribution, 0) * (counts.actions_seen > 0)
        pairs, states = _relative(problem.probability), _relative(known)
        for tenths in range(10, -1, -1):
            found = cls(pairs ** (tenths / 10), states ** (tenths / 10))
            if effective_sample_size(found.pairs * found.states[counts.state_of_pair]) >= least:
                break
        return found


def _relative(values: Floats) -> Floats:
    """Values over their largest one; tiny ones where they are 0, so that there always is a regression."""
    relative: Floats = np.maximum(values / (values.max() or 1.0), ROUNDING**1.5)
    return relative


@dataclass(frozen=True, eq=False)
class MixedModel:
    """Predictions of Q, linear in the outcomes y of the seen pairs."""

    problem: FiniteProblem
    seen: Floats
    """(pairs, k): the covariates of the seen pairs, less their weighted mean."""
    every: Floats
    """(states, actions, k): those of all pairs, held within the range of the seen ones."""
    shares: Floats
    """(pairs,): m_s = Σ shares·(y - m₀ - f'c) over the pairs of its state."""
    kept: Floats
    """(pairs,): the share of itself that each pair keeps."""
    intercept: Floats
    """(pairs,): m₀ = intercept·y."""
    both: Floats
    """(k, pairs): c = both·y, with ℓ and log b̂."""
    alone: Floats
    """(k, pairs): the same with log b̂ alone."""
    weight: float = 0.5
    """The weight of the first of these two fits."""
    share: float = 1.0
    """What is left of the slopes of least squares."""
    within: Floats | float = 1.0
    """(states, actions): what is left of them for each pair, whose prediction stays among the outcomes seen."""

    @classmethod
    def of(
        cls, problem: FiniteProblem, behaviour: BehaviourModel, variances: Variances, weights: Weights
    ) -> MixedModel:
        """Given everything that is not linear in the outcomes."""
        counts, state = problem.counts, problem.counts.state_of_pair
        every = covariates(problem, behaviour)
        raw = every[state, counts.action_of_pair]
        precision = variances.precision(counts.distinct_times)
        total = group_sums(state, precision, counts.states)
        shares = variances.state * precision / (1 + variances.state * total)[state]
        weighted = weights.pairs * precision
        total = group_sums(state, weighted, counts.states)
        shrunk = variances.state / (1 + variances.state * total)

        def normal(z: Floats) -> Floats:
            """The weighted inverse covariance of outcomes, of which states have a part in common, times z."""
            common = shrunk * group_sums(state, weighted * z, counts.states)
            return weights.states[state] * weighted * (z - common[state])

        constant = normal(np.ones(counts.pairs))
        intercept = constant / constant.sum()
        middle = intercept @ raw
        centred = raw - middle
        product = np.stack([normal(column) for column in centred.T])
        alone = np.zeros_like(product)
        alone[1:] = _slopes(product[1:], centred[:, 1:])
        least = min(MOST_FROM_STATE, variances.noise / variances.pair) * (1 + FOR_STAYING * counts.staying)
        return cls(
            problem=problem,
            seen=centred,
            every=np.clip(every, raw.min(axis=0), raw.max(axis=0)) - middle,
            shares=shares,
            kept=counts.distinct_times / (counts.distinct_times + least),
            intercept=intercept,
            both=_slopes(product, centred),
            alone=alone,
        )

    @property
    def slopes(self) -> Floats:
        """(k, pairs): c = slopes·y, the weighted mean of both fits, shrunk."""
        slopes: Floats = self.share * (self.weight * self.both + (1 - self.weight) * self.alone)
        return slopes

    @property
    def apart(self) -> Floats:
        """(k, pairs): the deviation of the two fits from their mean."""
        apart: Floats = self.share * (self.weight * (1 - self.weight)) ** 0.5 * (self.both - self.alone)
        return apart

    def of_states(self, columns: Floats) -> Floats:
        """(states, k): Σ shares·columns over the pairs of each state, (pairs, k)."""
        counts = self.problem.counts
        return np.stack([group_sums(counts.state_of_pair, self.shares * z, counts.states) for z in columns.T], axis=1)

    @cached_property
    def contrast(self) -> Floats:
        """(states, actions, k): the covariates by which a prediction differs from the mean of its state and of all."""
        contrast: Floats = self.every - self.of_states(self.seen)[:, None]
        return contrast

    def parts(self, y: Floats) -> tuple[Floats, Floats]:
        """(states, 1): the mean of each state and of all; (states, actions): what slopes would add to it, unheld."""
        mean = self.intercept @ y
        return mean + self.of_states((y - mean)[:, None]), self.contrast @ (self.slopes @ y)

    def predicted(self, y: Floats) -> Floats:
        """(states, actions): Q as predicted from outcomes."""
        base, step = self.parts(y)
        found: Floats = base + self.within * step
        return found

    def held(self, y: Floats) -> MixedModel:
        """The model whose predictions stay among the outcomes y.

        Otherwise the slopes predict more of some unseen pair than anything that was seen, which is then an outcome
        of what leads there: a grid with one reward of 1 had values of 1.2.
        """
        base, step = self.parts(y)
        room, size = np.maximum(np.where(step > 0, y.max() - base, base - y.min()), 0), np.abs(step)
        return replace(self, within=np.divide(room, size, out=np.ones_like(step), where=size > room))

    def damped(self, share: float) -> MixedModel:
        """The model with a share of its slopes."""
        return replace(self, share=share * self.share)

    def shrunk(self, y: Floats) -> MixedModel:
        """The model with fits weighted by their evidence W, and slopes shrunk by theirs: see `SHRINKAGE`."""
        both, alone = (replace(self, weight=weight).evidence(y) for weight in (1.0, 0.0))
        mean = replace(self, weight=both / (both + alone) if both + alone > 0 else 0.5)
        evidence = mean.evidence(y)
        return mean.damped(evidence / (evidence + SHRINKAGE))

    def evidence(self, y: Floats) -> float:
        """W = c'Σ⁻¹c, Σ being the covariance of c by the residuals of the pairs."""
        counts, slope = self.problem.counts, self.slopes @ y
        rest = y - self.predicted(y)[counts.state_of_pair, counts.action_of_pair]
        square = (self.slopes * rest**2) @ self.slopes.T
        return max(float(slope @ np.linalg.pinv(square, hermitian=True) @ slope), 0.0)

    def completed(self, slopes: bool, taken: float = 1.0) -> CompletedModel:
        """The map M: seen pairs keep what they keep, and everything else is worth its prediction.

        Args:
            slopes: whether c is part of it; otherwise it is 0.
            taken: the share of unseen pairs that is taken; the others lead nowhere.
        """
        problem, counts, state = self.problem, self.problem.counts, self.problem.counts.state_of_pair
        lost, missing = problem.probability * (1 - self.kept), taken * problem.own_missing
        predicted = missing.sum(axis=1) + group_sums(state, lost, counts.states)
        from_state = group_sums(state, self.shares, counts.states)
        substitute: Floats = (predicted * (1 - from_state))[:, None]
        rows: Floats = self.intercept[None]
        if slopes:
            gone = np.array(missing)
            gone[state, counts.action_of_pair] += lost
            moved = np.einsum("sa,sak->sk", gone * self.within, self.contrast)
            substitute = np.concatenate([substitute, moved], axis=1)
            rows = np.concatenate([rows, self.slopes])
        return CompletedModel(
            problem=problem,
            probability=problem.probability * self.kept + predicted[state] * self.shares,
            substitute=substitute,
            substitute_reward=rows @ counts.reward,
            substitute_next=rows @ counts.transitions,
            represented_by=rows,
            begins_after=True,
            borrowed=None if problem.borrowed is None else problem.borrowed.policy,
        )


def covariates(problem: FiniteProblem, behaviour: BehaviourModel) -> Floats:
    """(states, actions, 2): ℓ and log b̂, less their means under the target in each state."""
    covariate = np.stack([centred_log_probabilities(problem.target), behaviour.log_probabilities(problem)], axis=2)
    centred: Floats = covariate - np.einsum("sa,sak->sk", problem.target, covariate)[:, None]
    return centred


def _slopes(product: Floats, centred: Floats) -> Floats:
    """(k, pairs): generalised least squares; zeros where the covariates do not vary."""
    square = product @ centred
    size = float(np.trace(square))
    if not size > 0:
        return np.zeros_like(product)
    found: Floats = np.linalg.solve(square + RIDGE * size * np.eye(len(square)), product).astype(np.float64)
    return found
