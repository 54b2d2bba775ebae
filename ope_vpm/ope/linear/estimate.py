"""Values and ratios that are linear in features of pairs: what vpm, LSTD-Q and the other linear methods share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.linear.passes import WeightSums
from ope_vpm.linear.system import suspected_bias
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.adapter.pair_features import PairFeatures
from ope_vpm.ope.inference.doubts import FITTED, RIDGE, remarks
from ope_vpm.ope.inference.estimate import RawEstimate, doubts_of_actions, doubts_of_sums, rows_worth, weight_sums
from ope_vpm.ope.inference.returns import with_rate_doubt
from ope_vpm.ope.inference.uncertainty import Bootstrap
from ope_vpm.ope.linear.equations import PairEquations, RidgePath, ridge_path
from ope_vpm.ope.problem import Problem

LARGEST_LEVERAGE = 0.5
"""Beyond it the correction of fitted residuals would more than double the interval, on an estimate of the leverage that
is itself rough."""
MISSED_SURE = 2.0
"""Standard errors beyond which noise is no explanation of what is missed. Reliable answers of vpm on
Pendulum, Acrobot and CartPole (seeds 100 and 101) have at most 1.2. On tasks A of note 015 36 values with lines
and parabolas alone are off by more than their intervals without this part: 34 of them have 2.3 to 260, two less."""
FEW_ENDS = 10
"""Ended episodes below which how soon the target ends the task is hardly known: 9 events are uncertain by a third."""


@dataclass(frozen=True)
class Missed:
    """How far the value would move if the features could follow other functions of state and action."""

    value: float = 0.0
    """E[δ] over the target's steps, by a regression of δ on state and action."""
    error: float = 0.0
    """Its standard error."""

    @property
    def bias(self) -> float:
        """Its size less what noise alone gives on average; 0 where noise may be the reason."""
        return float(np.sqrt(self.value**2 - self.error**2)) if self.sure else 0.0

    @property
    def sure(self) -> bool:
        """Whether noise alone is no explanation."""
        return abs(self.value) > MISSED_SURE * self.error


@dataclass(frozen=True, kw_only=True)
class LinearEstimate(RawEstimate):
    """A value with the numbers that other estimators build upon."""

    equations: PairEquations = field(repr=False)
    """The equations that it solves."""
    ridge: float
    """The ridge that was given or chosen; NaN where the log and the target have nothing in common."""
    theta: Floats
    """The coefficients of Q in the features of pairs."""
    beta: Floats
    """The coefficients of τ."""
    residual: Floats | None
    """The Bellman residual of each row of the equations; None where rows are not kept."""
    steps: float | None = None
    """For returns, the mean length of an episode."""
    per_episode: LinearEstimate | None = None
    """The estimate of the return of an episode."""
    missed: Missed = field(default_factory=Missed)
    """What the features were found to miss, where that was asked."""

    @property
    def ratio(self) -> Floats:
        """(n,): the ratio τ at each logged row, of a log that is in memory."""
        if self.weights is None:
            raise TypeError("the weights of a log that is read in parts are not kept")
        return self.weights


def _few_ends(problem: Problem) -> tuple[str, ...]:
    """A remark where ends decide the discounted value and few were logged."""
    ended = int(problem.ends.sum())
    if problem.gamma == 1 or problem.on_end == "restart" or not 0 < ended < FEW_ENDS:
        return ()
    return (f"only {ended} of {problem.data.n_episodes} episodes ended: how soon the target's end is hardly known",)


def linear_estimate(
    equations: PairEquations, ridge: float | None, solver: str, diagnostics: dict[str, Any] | None = None
) -> LinearEstimate:
    """Solve the equations; the value with its influence function, its weights and what speaks against it.

    Args:
        equations: of the problem.
        ridge: in units of the features' mean squares; None: chosen from the data.
        solver: its name, for the record.
        diagnostics: further entries for the record.
    """
    path = ridge_path(equations, ridge)
    found = _estimate(equations, path)
    per_episode = None
    if path.per_episode is not None:
        per_episode = with_rate_doubt(_estimate(equations, path.per_episode), path.per_episode.rate_error)
    problem = equations.problem
    notes = {"solver": solver, "ridge": found.ridge, **(diagnostics or {}), "clock": problem.limit}
    if per_episode is not None:
        notes["return_ridge"] = per_episode.ridge
    notes |= {"dropped": len(problem.data) - len(equations.pairs), "ended": int(problem.ends.sum())}
    return replace(found, per_episode=per_episode, diagnostics=notes)


def _estimate(equations: PairEquations, path: RidgePath) -> LinearEstimate:
    """The estimate at the chosen ridge."""
    problem = equations.problem
    chosen, sums = path.ridges[path.chosen], path.sums[path.chosen]
    value, bias = float(path.values[path.chosen]), suspected_bias(path.values, path.chosen)
    if not np.isfinite(bias):  # with a larger ridge no end is reached: nothing is known about the return
        bias = abs(value)
    weights, residual, of_weights = _weights(equations, path)
    fitted = leverage(equations, chosen)
    return LinearEstimate(
        value=value,
        uncertainty=Bootstrap(episodes=sums.stretched(leverage_factor(fitted))),
        weights=weights,
        rows_worth=rows_worth(of_weights),
        doubts=(
            *doubts_of_sums(problem.data, of_weights),
            *doubts_of_actions(problem, path.steps or 1),
            *FITTED.of(fitted, bias=float(np.sqrt(fitted)) * spread_over_halves(equations, path)),
            *RIDGE.suspects(bias),
            *remarks((*clock_remarks(problem.data, problem.time_limit, known=True), *_few_ends(problem))),
        ),
        equations=equations,
        ridge=chosen,
        theta=path.theta[:, path.chosen],
        beta=path.beta[:, path.chosen],
        residual=residual,
        steps=path.steps,
    )


def spread_over_halves(equations: PairEquations, path: RidgePath) -> float:
    """The root mean square distance of the value from those with half of the features, at the chosen ridge.

    Where there are nearly as many features as rows residuals are small, and the standard error with them, whatever the
    value; the values of halves differ nevertheless. Times the root of the leverage it falls with the number of rows, as
    a standard error does: with many rows for each feature it is about what half of them miss.
    """
    system = replace(equations.system, reward=np.stack([equations.system.reward, equations.means.ended], axis=1))
    each = np.array([half.source @ half.solve(path.ridges[path.chosen])[0] for half in system.halves()])
    values = each[:, 0] if path.steps is None else each[:, 0] / each[:, 1]
    return float(np.sqrt(np.mean((values - path.values[path.chosen]) ** 2)))


def leverage(equations: PairEquations, ridge: float) -> float:
    """The mean leverage of a row: the degrees of freedom of the solution, as a share of the rows.

    Their trace may be negative on a few dozen rows, where the system is not positive; then its size counts.
    """
    return abs(float(equations.system.degrees_of_freedom(ridge) / len(equations.pairs)))


def leverage_factor(fitted: float) -> float:
    """By how much errors from fitted residuals, which are too small by a leverage, are to be stretched.

    1/(1 - leverage) undoes that and a little more (MacKinnon and White's HC3).
    """
    return 1 / (1 - min(fitted, LARGEST_LEVERAGE))


def _weights(equations: PairEquations, path: RidgePath) -> tuple[Floats | None, Floats | None, WeightSums]:
    """The ratio of each logged row and the Bellman residual of each row of the equations, where they are kept.

    Sums of the ratio come with them, which verdicts look at.
    """
    pairs = equations.pairs
    if not isinstance(pairs, PairFeatures):
        assert path.weights is not None  # a second pass over parts brings them
        return None, None, path.weights.column(path.chosen)
    tau, residual = rows_at(equations, path)
    weights = pairs.by_logged_row(tau)
    return weights, residual, weight_sums(equations.problem.data, weights)


def rows_at(equations: PairEquations, path: RidgePath) -> tuple[Floats, Floats]:
    """The ratio and the Bellman residual of each row at the chosen ridge; of a return, for (r - R·1[end])/e."""
    if path.steps is None:
        return equations.at_rows(path)
    tau, residual = equations.apply(path.beta[:, path.chosen], path.theta[:, path.chosen])
    return tau, charged_residual(equations.rows, residual, path.steps, float(path.values[path.chosen]))


def charged_residual(pairs: PairFeatures, residual: Floats, steps: float, value: float) -> Floats:
    """The Bellman residual for the rewards (r - R·1[end])/e of a return, from that for the rewards themselves.

    Args:
        pairs: the rows.
        residual: with the rewards r.
        steps: 1/e.
        value: R.
    """
    rewards = pairs.rewards
    return residual - rewards + steps * (rewards - value * pairs.states.ended)
