"""Doubts about an estimate that is linear in features, from its Bellman residuals.

An influence function knows the sampling error of a linear estimate and nothing of its bias: what the value depends on
may be missing in the observations, or the features may not follow how outcomes depend on the action. A bias is
E[(τ - τ*)·δ], δ the Bellman residual: at most about B = sd(τ)·|δ|, for a ratio that is wrong altogether. What the
past or other functions of state and action predict of δ says how much of that is to be feared
(`ope_vpm.ope.linear.residuals`).
"""

from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import ROUNDING, Floats
from ope_vpm.linear.passes import apply
from ope_vpm.ope.inference.doubts import FEW, FITTED, MISSED, PAST, RIDGE, SUPPORT, Doubts, among, joined, remarks_among
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.inference.returns import Estimate
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.linear.estimate import LinearEstimate, charged_residual, leverage, leverage_factor
from ope_vpm.ope.linear.missed import Missed, missed
from ope_vpm.ope.linear.residuals import History, history

USUAL = 0.68
"""The quantile of |δ| that stands for its standard deviation, which a few falls of a robot would decide."""


@dataclass(frozen=True)
class RowDoubt:
    """Evidence against an estimate from the ratio τ and the Bellman residual δ of its rows."""

    bound: float
    """B = sd(τ)·q₆₈|δ|."""
    history: History
    """What the past predicts of δ."""
    missed: Missed
    """What state and action predict of δ where the target goes."""

    @property
    def numbers(self) -> dict[str, float]:
        """For people to read."""
        return {
            "ratio_error_bound": self.bound,
            "residual_correlation": self.history.correlation,
            "predicted_by_action": self.history.predicted,
            "missed": self.missed.value,
            "missed_error": self.missed.error,
        }

    @property
    def doubts(self) -> Doubts:
        """Doubts about what the past predicts and about what the features miss."""
        return (*PAST.of(self.history.share, bias=self.history.bias(self.bound)), *MISSED.suspects(self.missed.bias))


@dataclass(frozen=True, eq=False)
class Rows:
    """The ratio and the Bellman residual of an estimate at each row of the equations of a log in memory."""

    tau: Floats
    """The ratio."""
    residual: Floats
    """The Bellman residual δ."""

    def on_sample(self, equations: PairEquations) -> tuple[Floats, Floats]:
        """Both at the rows of the log's sample."""
        log, pairs = equations.problem.log, equations.rows
        if log.sample is log:
            return self.tau, self.residual
        kept = log.sample_rows[equations.on_sample.rows.rows]
        tau, residual = (pairs.by_logged_row(part)[kept] for part in (self.tau, self.residual))
        return tau, residual


def with_feature_doubt(estimate: LinearEstimate) -> LinearEstimate:
    """Add to an estimate, and to its return, the doubts that its Bellman residuals raise.

    Args:
        estimate: the value, with an influence function.
    """
    if _unknown(estimate.equations, estimate):
        return estimate
    doubt, of_return = row_doubt(estimate.equations, *sample_rows(estimate)), None
    if estimate.per_episode is not None:
        of_return = row_doubt(estimate.equations, *sample_rows(estimate.per_episode))
    return replace(with_doubts(estimate, doubt, of_return), missed=doubt.missed)


def with_linear_doubt(
    linear: LinearEstimate, found: RawEstimate, rows: Rows, of_return: Rows | None = None
) -> RawEstimate:
    """An estimate by other means, doubted as the solution of linear equations is.

    Networks, saddle points and minimax solutions begin from the features of LSTD-Q or lie in their span, and an
    influence function knows as little of their bias. So they have the doubts of LSTD-Q, and B, what the past predicts
    and what is missed are those of the estimate's own ratio and Bellman residuals. These are fitted to the same rows
    with as many features, so that errors are stretched as those of LSTD-Q are (`leverage_factor`).

    Args:
        linear: LSTD-Q, on a log in memory.
        found: the estimate, with an influence function.
        rows: its ratio τ and its Bellman residual δ at each row of the equations.
        of_return: the same of the return of an episode; None where the estimate has none.
    """
    equations = linear.equations
    if _unknown(equations, found) or not np.isfinite(linear.value):
        return found
    doubt, doubt_of_return = row_doubt(equations, *rows.on_sample(equations)), None
    per_episode = found.per_episode
    if per_episode is not None and linear.per_episode is not None and of_return is not None:
        doubt_of_return = row_doubt(equations, *of_return.on_sample(equations))
        per_episode = replace(per_episode, doubts=_of_linear(per_episode.doubts, linear.per_episode.doubts))
        per_episode = _stretched(per_episode, leverage_factor(leverage(equations, linear.per_episode.ridge)))
    found = _stretched(found, leverage_factor(leverage(equations, linear.ridge)))
    found = replace(found, doubts=_of_linear(found.doubts, linear.doubts), per_episode=per_episode)
    return with_doubts(found, doubt, doubt_of_return)


def _unknown(equations: PairEquations, found: RawEstimate) -> bool:
    """Whether there is no error that doubts could be added to."""
    return found.sums is None or equations.problem.data.n_episodes < 2 or not np.isfinite(found.value)


def _stretched(found: RawEstimate, factor: float) -> RawEstimate:
    """The estimate with a sampling error that is larger by a factor."""
    if found.sums is None:
        return found
    return replace(found, uncertainty=Bootstrap(episodes=found.sums.stretched(factor)))


def with_doubts(found: Estimate, doubt: RowDoubt, of_return: RowDoubt | None) -> Estimate:
    """The estimate, and its return, with what their rows say; None where that of the return is not known."""
    per_episode = found.per_episode
    if per_episode is not None and of_return is not None:
        per_episode = per_episode.doubted(of_return.doubts)
    diagnostics = {**found.diagnostics, **doubt.numbers}
    return replace(found.doubted(doubt.doubts), per_episode=per_episode, diagnostics=diagnostics)


def _of_linear(own: Doubts, linear: Doubts) -> Doubts:
    """The doubts about an estimate with those about the linear solution that it rests on.

    An estimate without weights of its own (`fqe`, `mql`) has an interval by LSTD-Q's ratio, which is worth as many
    episodes as that one.
    """
    return joined(own, among(linear, FEW, SUPPORT, FITTED, RIDGE), remarks_among(linear))


def row_doubt(equations: PairEquations, tau: Floats, residual: Floats) -> RowDoubt:
    """B, what the past predicts, and what the features miss, from τ and δ of the sample's rows."""
    sampled = equations.on_sample
    if np.abs(residual).max(initial=0.0) <= ROUNDING * sampled.problem.data.reward_facts.size:
        residual = np.zeros_like(residual)  # equal rewards leave rounding errors, of which features miss nothing
    return RowDoubt(ratio_error_bound(tau, residual), history(sampled, residual), missed(sampled, tau, residual))


def ratio_error_bound(tau: Floats, residual: Floats) -> float:
    """B = sd(τ)·q₆₈|δ - median δ|, τ scaled to mean 1."""
    mean = float(tau.mean())
    size = float(np.quantile(np.abs(residual - np.median(residual)), USUAL))
    return float(tau.std() / abs(mean) * size) if mean else 0.0


def sample_rows(estimate: LinearEstimate) -> tuple[Floats, Floats]:
    """τ and the Bellman residual of the solution at each row of the log's sample."""
    equations, log = estimate.equations, estimate.equations.problem.log
    if log.sample is log and estimate.weights is not None:
        assert estimate.residual is not None
        return estimate.weights[equations.rows.rows], estimate.residual
    pairs = equations.on_sample.rows
    tau, residual = apply(pairs, estimate.beta, estimate.theta, equations.problem.gamma, equations.after_end)
    if estimate.steps is not None:
        residual = charged_residual(pairs, residual, estimate.steps, estimate.value)
    return tau, residual
