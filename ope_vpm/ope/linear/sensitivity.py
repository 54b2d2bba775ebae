"""How far an estimate that is linear in features depends on which features were drawn.

An influence function knows the sampling error of a linear estimate and nothing of its bias: the features may be too few
or too smooth for the ratio and for Q. That bias is E[(τ - τ*)·δ], δ the Bellman residual: at most about B = sd(τ)·|δ|,
for a ratio that is wrong altogether. D, the spread of the value over fits with some of the features, says how wrong
they are. Neither alone is on the right scale; their geometric mean was, also on tasks that it was not chosen on
(docs/verdicts.md).

All of this takes observations for states: what follows depends on the past through (s, a) alone, so that nothing of
the past foretells the next Bellman residual. Where a speed is not observed, residuals of successive steps go together.
Where observations come a step late they do not, for the errors of one step are over when the next begins, but the
action before, which has not shown yet, foretells them. Neither is mended by any feature of (s, a): see `History`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ope_vpm.arrays import Array, Bools, Floats, Integers
from ope_vpm.linear.moments import apply
from ope_vpm.linear.system import COARSE_RIDGES, gram_penalty, solve_gram
from ope_vpm.ope.adapter.pair_features import PairFeatures
from ope_vpm.ope.inference.logged_mean import logged_mean, relative_error, with_return_doubt
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.inference.value import RawEstimate
from ope_vpm.ope.inference.verdict import ROUNDING
from ope_vpm.ope.linear.estimate import (
    LinearEstimate,
    PairEquations,
    RidgePath,
    charged_residual,
    fewer_features,
    ridge_path,
)
from ope_vpm.ope.log import Log, Memory

HALF, QUARTER = 2, 4
"""Parts of the waves whose values are compared with that of all: every second one and the others, as if drawn anew with
other seeds; the slowest quarter and the fastest, as if drawn with another bandwidth. On 40 logs of five tasks (seed
100) the spread over these is in the median 1.01 times the one over four new draws, half of them with half and twice the
bandwidth, and tells errors as well, in a fifth of the time (docs/verdicts.md)."""
SHARE = 0.3
"""Of √(D·B), as a standard error. Chosen on six tasks with seeds 102 and 103 (docs/verdicts.md), where "reliable"
intervals held the truth in 25 of 25 runs and "caution" ones in 18 of 19; with 0.4 in 21 of 21 and 21 of 21, and fewer
good answers were called reliable."""
USUAL = 0.68
"""The quantile of |δ| that stands for its standard deviation, which a few falls of a robot would decide."""


CORRELATED = 0.1
"""Of |ρ|·B, as a standard error. On a mass whose speed is not observed (four behaviours, three discounts, two seeds)
intervals need up to 0.12 of it; where states are complete |ρ| is mostly below 0.2, and errors grow by less than a
fifth. With sd(δ), which a few falls of a robot decide, in place of B's quantile they grew fivefold on such logs."""
FORETOLD = 0.3
"""Of √share·B, the share being that of the action before: as for what the state before tells of finite states. On
linear systems observed late (seeds 0 and 1) that stay within their log, intervals need 0.01 to 0.11 of it, on Pendulum
observed late from an older policy 0.2 and 0.25."""
SURE = 2.5
"""How many standard errors the action before must gain on held-out episodes to count. Pendulum, Acrobot, CartPole,
Hopper and HopperBullet (seeds 100 and 101, three behaviours, 30 logs) have at most 2.4, most of them less than 0, for
a useless regressor loses on held-out episodes; Pendulum and Acrobot observed a step late 2.8 to 6 where answers were
wrong."""
MOST_COORDINATES, MOST_COLUMNS = 100, 400
"""Of an observation: with more of them, as of an image, nothing is asked about the action before. And of both
regressions: beyond it actions are not multiplied with the state."""
MOST_NUMBERS = 4_000_000
"""Regressors of all steps that are asked, 32 MB: steps of a part of the episodes where there are more. They are 10 000
steps at least, which know a share of 2 % to a tenth of it."""
RIDGE = 1e-6
"""Of each regressor's mean square: keeps repeated ones solvable."""
FARTHEST = 5.0
"""Standard deviations beyond which coordinates are not told apart, as in the features."""


@dataclass(frozen=True)
class History:
    """What the past foretells of the Bellman residuals."""

    correlation: float
    """ρ of the residuals of successive steps."""
    foretold: float
    """The share of their variance that the action before foretells, beyond state and action; 0 where noise alone may
    be the reason."""

    def bias(self, bound: float) -> float:
        """What both may do to a value, as large as one standard error would be; `bound` is B."""
        return bound * float(np.hypot(CORRELATED * self.correlation, FORETOLD * np.sqrt(self.foretold)))


@dataclass(frozen=True)
class RowDoubt:
    """What τ and the Bellman residual δ of the rows say against an estimate."""

    bound: float
    """B = sd(τ)·q₆₈|δ|."""
    history: History
    """What the past foretells of δ."""


def with_feature_doubt(equations: PairEquations, estimate: LinearEstimate) -> LinearEstimate:
    """The same estimate, its uncertainty widened by 0.3·√(D·B), and compared with the logged mean's own error.

    What the past foretells of residuals widens it, too (`History`). The return of an episode is doubted by
    the same rule, D being the spread of the return itself.

    Args:
        equations: those that the estimate solves.
        estimate: the value, with an influence function.
    """
    problem = equations.problem
    if estimate.sums is None or problem.data.n_episodes < 2 or not np.isfinite(estimate.value):
        return estimate
    others = fewer_features(on_sample(equations), fewer_waves, COARSE_RIDGES)
    logged = logged_mean(problem)
    value, of_episode = values_on_sample(equations, estimate)
    spread, doubt = feature_spread(value, others), row_doubt(equations, estimate)
    per_episode = estimate.per_episode
    if per_episode is not None:
        of_return = feature_spread(
            per_episode.value if of_episode is None else of_episode,
            [other.per_episode for other in others if other.per_episode],
        )
        per_episode = _doubted(per_episode, of_return, row_doubt(equations, per_episode), logged.per_episode)
    doubted = replace(
        _doubted(estimate, spread, doubt, logged),
        per_episode=per_episode,
        diagnostics={
            **estimate.diagnostics,
            "feature_spread": spread,
            "ratio_error_bound": doubt.bound,
            "residual_correlation": doubt.history.correlation,
            "foretold_by_action": doubt.history.foretold,
        },
    )
    return with_return_doubt(problem, doubted)


def _doubted(estimate: LinearEstimate, spread: float, doubt: RowDoubt, logged: RawEstimate | None) -> LinearEstimate:
    """The estimate with D, B and ρ in its uncertainty, and compared with what the log says of its own policy."""
    if estimate.sums is None:
        return estimate
    of_features, of_history = SHARE * float(np.sqrt(spread * doubt.bound)), doubt.history.bias(doubt.bound)
    bias = float(np.linalg.norm([estimate.suspected_bias, of_features, of_history]))
    relative = relative_error(logged, estimate.sums.standard_error, bias)
    evidence = replace(
        estimate.evidence,
        relative_error=relative,
        residual_correlation=abs(doubt.history.correlation),
        past_action=doubt.history.foretold,
    )
    if relative is not None:  # what a larger ridge changes is part of this error, and not judged twice
        evidence = replace(evidence, disagreement=None)
    return replace(estimate, uncertainty=Bootstrap(episodes=estimate.sums, suspected_bias=bias), evidence=evidence)


def on_sample(equations: PairEquations) -> PairEquations:
    """The equations of the log's sample, in the same features: what features change is asked there.

    On a long log the sample, 10⁵ rows, is enough: what counts is how far features matter, not the values.
    """
    if equations.problem.log.sample is equations.problem.log:
        return equations
    return PairEquations.of(equations.problem.on_sample, equations.pairs.on_sample())


def values_on_sample(equations: PairEquations, estimate: LinearEstimate) -> tuple[float, float | None]:
    """The value and the return by the same features on the log's sample, for comparison with others there."""
    own = on_sample(equations)
    if own is equations:
        return estimate.value, None if estimate.per_episode is None else estimate.per_episode.value
    path = ridge_path(own, None, values_only=True)
    of_return = path.per_episode
    value = float(path.values[path.chosen])
    return value, None if of_return is None else float(of_return.values[of_return.chosen])


def fewer_waves(pairs: PairFeatures) -> list[Integers]:
    """The columns of a pair's features that are left with some of the waves: see `HALF`."""
    order = np.argsort(np.linalg.norm(pairs.states.features.fourier.frequencies, axis=0), kind="stable")
    quarter = -(-len(order) // QUARTER)
    chosen = [np.arange(first, len(order), HALF) for first in range(HALF)]
    return [pairs.with_waves(waves) for waves in (*chosen, order[:quarter], order[-quarter:])]


def feature_spread(value: float, others: Sequence[RidgePath]) -> float:
    """D: the root mean square distance of the value from those with fewer features, each at its own ridge.

    Where none of these find a value at all, it is as large as the value.
    """
    if not others:
        return abs(value)
    values = np.array([path.values[path.chosen] for path in others])
    return float(np.sqrt(np.mean((values - value) ** 2)))


def row_doubt(equations: PairEquations, estimate: LinearEstimate) -> RowDoubt:
    """B, and what the past foretells, over the sample's rows."""
    tau, residual = _sample_rows(equations, estimate)
    return RowDoubt(ratio_error_bound(tau, residual), _history(equations, residual))


def _history(equations: PairEquations, residual: Floats) -> History:
    """What the past foretells of the residuals of the sample's rows."""
    sample, pairs = equations.problem.log.sample, equations.pairs.on_sample()
    rows, size = pairs.rows, sample.data.reward_facts.size
    together = (np.diff(rows) == 1) & (np.diff(sample.data.episode[rows]) == 0)
    correlation = residual_correlation(together, residual, size)
    past = pairs.remembered(_past_steps)(sample, pairs, together)
    return History(correlation, 0.0 if past is None else past.foretold(residual, size))


def _past_steps(sample: Log, pairs: PairFeatures, together: Bools) -> PastSteps | None:
    """The steps that have one before them; None where there are none, or states are numbers or too large."""
    data, rows, encoder = sample.data, pairs.rows, pairs.states.features.encoder
    vectors = encoder.shape is None and encoder.observation_scale.mean.size <= MOST_COORDINATES
    if not vectors or not together.any():
        return None
    actions = pairs.centred.shape[1] // (1 if data.discrete_actions else 2)  # the second half are squares
    one = encoder.states(data.observations[:1]), pairs.centred[:1], pairs.centred[:1, :actions]
    every = -(-len(rows) * sum(part.shape[1] for part in regressors(*one)) // MOST_NUMBERS)
    asked = sample.content // 2 % every == 0  # folds are odd and even numbers
    later = np.flatnonzero(together & asked[data.episode[rows[1:]]]) + 1
    now, last = pairs.centred[rows[later]], pairs.centred[rows[later - 1], :actions]
    states, episode = encoder.states(data.observations[rows[later]]), data.episode[rows[later]]
    return PastSteps(later, states, now, last, episode, sample.folds(2)[episode])


def ratio_error_bound(tau: Floats, residual: Floats) -> float:
    """B = sd(τ)·q₆₈|δ - median δ|, τ scaled to mean 1."""
    mean = float(tau.mean())
    size = float(np.quantile(np.abs(residual - np.median(residual)), USUAL))
    return float(tau.std() / abs(mean) * size) if mean else 0.0


def residual_correlation(together: Bools, residual: Floats, size: float) -> float:
    """ρ = E[δ(t)·δ(t+1)] / E[δ²], δ less its mean, over successive steps of the same episode.

    Args:
        together: (n - 1,): whether each row but the first is the step after the row before it.
        residual: δ.
        size: that of the rewards; residuals that are nothing but rounding errors beside it count as uncorrelated.
    """
    left = residual - residual.mean()
    square = float(np.mean(left**2))
    if not together.any() or np.sqrt(square) <= ROUNDING * size:
        return 0.0
    return float(np.clip(np.mean((left[:-1] * left[1:])[together]) / square, -1, 1))


@dataclass(frozen=True, eq=False)
class PastSteps:
    """Steps that have one before them, and two regressions of whatever is left of them, one without that one.

    Each half of the episodes is predicted by what the other half says, so that a useless regressor makes it worse.
    """

    place: Integers
    """Of each step among the rows."""
    states: Floats
    """Standardised, (n, d)."""
    now: Array
    """Functions of the action, (n, k)."""
    last: Array
    """Functions of the action before, (n, m)."""
    episode: Integers
    fold: Integers
    """0 or 1 for each step, the same within an episode."""
    _memory: Memory = field(default_factory=Memory, repr=False)

    def foretold(self, residual: Floats, size: float) -> float:
        """The share of the squared residuals by which the action before improves their prediction.

        Args:
            residual: δ of all rows.
            size: as in `residual_correlation`.
        """
        values, present, before = residual[self.place], *regressors(self.states, self.now, self.last)
        x = np.hstack([present, before])
        few = min(np.bincount(self.fold, minlength=2)) <= 2 * x.shape[1]
        if few or np.sqrt(np.mean(values**2)) <= ROUNDING * size:
            return 0.0
        left = np.empty((2, len(values)))
        for number, gram in enumerate(self._grams(x)):
            mine, others = self.fold == number, self.fold != number
            moment = x[others].T @ values[others]
            for more, count in enumerate((present.shape[1], x.shape[1])):
                known = gram[:count, :count]
                fitted = solve_gram(known, gram_penalty(known, RIDGE), moment[:count])
                left[more, mine] = values[mine] - x[mine, :count] @ fitted
        plain, better = left**2
        by_episode = np.bincount(self.episode, plain - better)
        gained, noise = float(by_episode.sum()), float(np.sqrt(np.sum(by_episode**2)))
        return gained / float(plain.sum()) if gained > SURE * noise else 0.0

    def _grams(self, x: Floats) -> list[Floats]:
        """Σ xxᵀ of the half that predicts each half: the same whatever is predicted, and so for all discounts."""
        grams: list[Floats] = self._memory.recall(_grams_of_others)(x, self.fold)
        return grams


def _grams_of_others(x: Floats, fold: Integers) -> list[Floats]:
    return [x[fold != number].T @ x[fold != number] for number in range(2)]


def regressors(z: Floats, now: Floats, last: Floats) -> tuple[Floats, Floats]:
    """Functions of the present, and of the action before: [1, z, z², u⊗(1, z)] and a'⊗(1, z).

    What a missing action changes depends on the state: at the top of a swing it helps, on the way down it does not.

    Args:
        z: (n, d): standardised observations.
        now: (n, k): functions u of the action.
        last: (n, m): those of the action before.
    """
    near = np.clip(z, -FARTHEST, FARTHEST)
    base = np.hstack([np.ones((len(z), 1)), near])
    if (now.shape[1] + last.shape[1]) * base.shape[1] > MOST_COLUMNS:
        return np.hstack([base, near**2, now]), last
    acting, before = ((u[:, :, None] * base[:, None, :]).reshape(len(u), -1) for u in (now, last))
    return np.hstack([base, near**2, acting]), before


def _sample_rows(equations: PairEquations, estimate: LinearEstimate) -> tuple[Floats, Floats]:
    """τ and the Bellman residual of the solution at each row of the log's sample."""
    if equations.problem.log.sample is equations.problem.log and estimate.weights is not None:
        assert estimate.residual is not None
        return estimate.weights[equations.rows.rows], estimate.residual
    pairs = equations.pairs.on_sample()
    tau, residual = apply(pairs, estimate.beta, estimate.theta, equations.problem.gamma, equations.after_end)
    if estimate.steps is not None:
        residual = charged_residual(pairs, residual, estimate.steps, estimate.value)
    return tau, residual
