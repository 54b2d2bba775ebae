"""Values and ratios that are linear in features of pairs: what vpm, LSTD-Q and the other linear methods share.

One pass over the rows gives the linear system of `ope_vpm.linear.system`. A second one sums τ·δ over episodes, τ the
ratio and δ the Bellman residual of a row, for all ridges at once: the influence function, whose standard errors choose
the ridge. A third one gives τ and δ of every row for that ridge alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Means, accumulate_folds, accumulate_initial, all_but_each, apply, apply_to_groups
from ope_vpm.linear.system import RIDGES, LinearSystem, choose_ridge, suspected_bias
from ope_vpm.ope.adapter.ends import clock_remarks
from ope_vpm.ope.adapter.pair_features import PairFeatures
from ope_vpm.ope.behaviour.action_ratio import known_overlap
from ope_vpm.ope.inference.uncertainty import Bootstrap, EpisodeSums, influence_sums, initial_sums
from ope_vpm.ope.inference.value import RawEstimate, disagreement, evidence_of_weights
from ope_vpm.ope.log import Memory
from ope_vpm.ope.problem import Problem

LARGEST_LEVERAGE = 0.5
"""Beyond it the correction of fitted residuals would more than double the interval, on an estimate of the leverage that
is itself rough."""


@dataclass(frozen=True, kw_only=True)
class LinearEstimate(RawEstimate):
    """A value with the numbers that other estimators build upon."""

    weights: Floats
    """(n,): the ratio τ at each logged row."""
    ridge: float
    """The ridge that was given or chosen; NaN where the log and the target have nothing in common."""
    theta: Floats
    """The coefficients of Q in the features of pairs."""
    clock: int | None
    """The length of episodes that a time limit ends, where the features know the time."""


@dataclass(frozen=True, eq=False)
class PairEquations:
    """The linear system of a problem in features of pairs, and the rows that it is made of."""

    problem: Problem
    pairs: PairFeatures
    means: Means
    system: LinearSystem
    _memory: Memory = field(default_factory=Memory, repr=False)

    @classmethod
    def of(cls, problem: Problem, pairs: PairFeatures) -> PairEquations:
        """Make them in one pass over the rows, which all discounts share."""
        means = pairs.moments.means()
        return cls(problem, pairs, means, LinearSystem.of(means, problem.gamma, restart=problem.on_end == "restart"))

    @property
    def after_end(self) -> Floats | None:
        """The features that follow an end: E₀[Φ] where ends restart, None where nothing follows."""
        return self.means.initial if self.problem.on_end == "restart" else None

    def apply(self, beta: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """The ratio τ = w·Φβ and the Bellman residual r - Δθ of each row, in a second pass."""
        return apply(self.pairs, beta, theta, self.problem.gamma, self.after_end)

    def at_rows(self, ridge: float) -> tuple[Floats, Floats]:
        """The ratio τ and the Bellman residual of each row for one ridge, found once."""
        return self._memory.recall(_at_rows, ridge)(self)

    def influence(self, tau: Floats, residual: Floats, theta: Floats) -> EpisodeSums:
        """How each episode moves the value, from the τ and the residual of each row."""
        n, first = len(self.pairs), self.pairs.initial_values(theta)
        return influence_sums(self.problem, self.pairs.rows, np.full(n, 1 / n), tau / n, residual, first)

    def influences(self, beta: Floats, theta: Floats) -> list[EpisodeSums]:
        """How each episode moves the value, for each column of β and θ, in a second pass that keeps no row."""
        problem, n = self.problem, len(self.pairs)
        episode, count = problem.data.episode[self.pairs.rows], problem.data.n_episodes
        sums = apply_to_groups(self.pairs, episode, count, beta, theta, problem.gamma, self.after_end)
        share, first = np.bincount(episode, minlength=count)[:, None] / n, self.pairs.initial_values(theta)
        found = []
        for k, ended in enumerate(sums.ended / n):
            rate = 1 - problem.gamma + (problem.gamma * float(ended) if problem.on_end == "restart" else 0.0)
            whole = EpisodeSums(sums.influence[:, [k]] / n, share)
            found.append(whole.beside(initial_sums(problem, rate, first[:, k])))
        return found

    def without_each(self, folds: Integers) -> list[LinearSystem]:
        """For each fold the system of the other folds' rows; of all rows where there is one fold only.

        Initial states are those of all episodes: where the task begins is not what is cross-fitted.

        Args:
            folds: (episodes,): the fold of each episode, from 0.
        """
        fold, restart = folds[self.problem.data.episode[self.pairs.rows]], self.problem.on_end == "restart"
        initial = accumulate_initial(self.pairs)
        others = all_but_each(accumulate_folds(self.pairs, fold, int(folds.max()) + 1))
        return [LinearSystem.of(part.merge(initial).means(), self.problem.gamma, restart=restart) for part in others]


def _at_rows(equations: PairEquations, ridge: float) -> tuple[Floats, Floats]:
    theta, beta = equations.system.solve(ridge)
    return equations.apply(beta, theta)


@dataclass(frozen=True)
class RidgePath:
    """The solution for every ridge of a grid, and which one was chosen."""

    ridges: tuple[float, ...]
    chosen: int
    """The index of the ridge."""
    theta: Floats
    """(features, ridges)."""
    values: Floats
    """(ridges,)."""
    sums: list[EpisodeSums]
    """How each episode moves the value, for each ridge."""


def ridge_path(equations: PairEquations, ridge: float | None, grid: tuple[float, ...] = RIDGES) -> RidgePath:
    """Solve for every ridge of the grid and choose one; for a given ridge solve also up to one ten times larger."""
    ridges = grid if ridge is None else (ridge, ridge * 10**0.5, ridge * 10)
    solved = [equations.system.solve(each) for each in ridges]
    theta, beta = (np.stack(columns, axis=1) for columns in zip(*solved, strict=True))
    sums = equations.influences(beta, theta)
    chosen = choose_ridge(np.array([each.standard_error for each in sums])) if ridge is None else 0
    return RidgePath(ridges, chosen, theta, equations.system.source @ theta, sums)


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
    problem, pairs = equations.problem, equations.pairs
    path = ridge_path(equations, ridge)
    chosen, sums = path.ridges[path.chosen], path.sums[path.chosen]
    bias = suspected_bias(path.values, path.chosen)
    # Fitted residuals are too small; 1/(1 - leverage) undoes that and a little more (MacKinnon and White's HC3).
    leverage = min(equations.system.degrees_of_freedom(chosen) / len(pairs), LARGEST_LEVERAGE)
    weights = pairs.by_logged_row(equations.at_rows(chosen)[0])
    return LinearEstimate(
        value=float(path.values[path.chosen]),
        uncertainty=Bootstrap(episodes=sums.scaled(1 / (1 - leverage)), suspected_bias=bias),
        weights=weights,
        evidence=evidence_of_weights(
            problem.data,
            weights,
            overlap=known_overlap(problem),
            disagreement=disagreement(problem.data, bias, sums.standard_error),
            remarks=clock_remarks(problem.data, problem.time_limit, known=True),
        ),
        ridge=chosen,
        theta=path.theta[:, path.chosen],
        clock=pairs.clock,
        diagnostics={
            "solver": solver,
            "ridge": chosen,
            **(diagnostics or {}),
            "clock": pairs.clock,
            "dropped": pairs.steps.dropped,
            "ended": pairs.steps.ended,
        },
    )
