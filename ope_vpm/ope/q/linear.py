"""Fitted Q evaluation in closed form (LSTD-Q): Q linear in features of the state and of the centred action.

Its equations are those of the factored form of VPM without the action ratio. Other estimators build upon it: with Q
cross-fitted by episodes, and with networks that learn what it leaves.
"""

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.folds import apply_folds
from ope_vpm.linear.system import RIDGES
from ope_vpm.ope.adapter.pair_features import FOURIER, action_functions
from ope_vpm.ope.adapter.pair_stream import any_pairs
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.linear.estimate import LinearEstimate, linear_estimate
from ope_vpm.ope.linear.sensitivity import with_feature_doubt
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.q.values import QValues, influence


@remembered
def lstd_equations(
    problem: Problem, n_features: int | None, draws: int, fourier: int = FOURIER, rich: bool = False
) -> PairEquations:
    """The equations of LSTD-Q, shared by all estimators that use them.

    Args:
        problem: the question, on continuous states.
        n_features: random Fourier features of the state; None: `features_for` the rows of the log.
        draws: target actions drawn for each state where the policy's mean action is not known otherwise.
        fourier: as in `any_pairs`.
        rich: as in `any_pairs`.
    """
    return PairEquations(problem, any_pairs(problem, n_features, draws, fourier, rich))


@remembered
def find_lstd(
    problem: Problem, n_features: int | None, ridge: float | None, draws: int, fourier: int = FOURIER
) -> LinearEstimate:
    """The value by LSTD-Q, the ridge chosen from the data unless it is given; other arguments as `lstd_equations`."""
    return linear_estimate(lstd_equations(problem, n_features, draws, fourier), ridge, "linear")


def doubted_lstd(
    problem: Problem, n_features: int | None, ridge: float | None, draws: int, weight: Floats | None = None
) -> LinearEstimate:
    """LSTD-Q that speaks for its features itself, by `with_feature_doubt`; arguments as in `find_lstd`.

    Where lines and parabolas of the action are known to miss something, it is solved again with richer functions of it.
    They cost certainty where they are not needed: on a linear system intervals would be 1.4 to 2.7 times as wide.

    Args:
        problem: the question.
        n_features: as in `lstd_equations`, as is `draws`.
        ridge: as in `find_lstd`.
        draws: see there.
        weight: of each logged row in the equations, where it is not 1.
    """
    equations = lstd_equations(problem, n_features, draws).weighted(weight)
    plain = weight is None
    found = find_lstd(problem, n_features, ridge, draws) if plain else linear_estimate(equations, ridge, "linear")
    found = with_feature_doubt(equations, found)
    if not found.missed.sure or action_functions(problem, rich=True).spread is None:
        return found
    equations = lstd_equations(problem, n_features, draws, rich=True).weighted(weight)
    return with_feature_doubt(equations, linear_estimate(equations, ridge, "linear", {"action_functions": "rich"}))


@dataclass(frozen=True)
class Base:
    """A linear Q for each fold, fitted on the other folds, by its Bellman residuals at every step of the plan."""

    residual: Floats
    """(folds, steps): r - ℓ + γV(s') - Q(s, a)."""
    first: Floats
    """(folds, initial states): V."""
    level: Floats
    """(folds,): ℓ, at γ = 1 the average reward, otherwise 0."""


def linear_base(equations: PairEquations, folds: Integers, ridge: float) -> Base:
    """The Q of every fold at every step, the fold's own steps or not.

    Args:
        equations: of LSTD-Q.
        folds: (episodes,): the fold of each episode, from 0.
        ridge: in units of the features' mean squares.
    """
    pairs = equations.rows
    theta = np.stack([system.solve(ridge)[0] for system in equations.without_each(folds)], axis=1)
    _, residual = equations.apply(theta, theta)
    level = theta[0] if equations.problem.gamma == 1 else np.zeros(theta.shape[1])
    return Base(pairs.by_logged_row(residual)[equations.problem.steps.rows].T, pairs.initial_values(theta).T, level)


@dataclass(frozen=True)
class CrossFittedQ:
    """Cross-fitted Q, by its Bellman residuals: each step by the Q of the other folds, one column per ridge."""

    ridges: tuple[float, ...]
    residual: Floats
    """(steps, ridges): r - ℓ + γV(s') - Q(s, a)."""
    first: Floats
    """(initial states, ridges): V."""
    level: Floats
    """(steps, ridges): ℓ, at γ = 1 the average reward, otherwise 0."""

    def least(self, problem: Problem, tau: Floats) -> int:
        """The index of the ridge whose residuals, weighted by the ratio τ, have the least standard error."""
        columns = zip(self.residual.T, self.first.T, strict=True)
        errors = np.array([influence(problem, tau, *column).standard_error for column in columns])
        return int(np.argmin(np.where(np.isfinite(errors), errors, np.inf)))

    def q(self, problem: Problem, index: int) -> QValues:
        """The Q of one ridge. Only its residuals are known: Q(s, a) - γV(s') takes the place of Q, and 0 that of V."""
        level = self.level[:, index]
        q = problem.data.rewards[problem.steps.rows] - level - self.residual[:, index]
        return QValues(q, np.zeros_like(q), self.first[:, index], level)


def cross_fitted_q(equations: PairEquations, folds: Integers, ridge: float | None) -> CrossFittedQ:
    """LSTD-Q of the other folds at each step, for one ridge or for all of the grid.

    Args:
        equations: of LSTD-Q.
        folds: (episodes,): the fold of each episode, from 0.
        ridge: None for every ridge of the grid.
    """
    problem, pairs = equations.problem, equations.rows
    ridges = RIDGES if ridge is None else (ridge,)
    fold, first_fold = folds[problem.data.episode[pairs.rows]], folds[problem.log.initial_episodes]
    systems = equations.without_each(folds)
    theta = np.array([np.stack([system.solve(each)[0] for each in ridges], axis=1) for system in systems])
    residual = apply_folds(pairs, fold, theta, problem.gamma, equations.after_end)
    level = theta[fold, 0] if problem.gamma == 1 else np.zeros((len(fold), len(ridges)))
    values = np.stack([pairs.initial_values(of_fold) for of_fold in theta])
    first = values[first_fold, np.arange(len(first_fold))]
    by_step, by_level = (pairs.by_logged_row(each)[problem.steps.rows] for each in (residual, level))
    return CrossFittedQ(ridges, by_step, first, by_level)
