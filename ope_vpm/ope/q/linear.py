"""Fitted Q evaluation in closed form (LSTD-Q): Q linear in features of the state and of the centred action.

Its equations are those of the factored form of VPM without the action ratio. Other estimators build upon it: with Q
cross-fitted by episodes, and with networks that learn what it leaves.

Of any Q, V = E_π[Q] and any number ℓ the target's stationary distribution d gives

    v = ℓ + (1-γ)E₀[V] + E_d[r - ℓ + γV(s') - Q(s, a)],

so the Bellman residuals, weighted by the ratio τ = d/p, are both the error of the first two terms and their influence
function.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.ope.adapter.action_functions import FOURIER, action_functions
from ope_vpm.ope.adapter.pair_features import any_pairs
from ope_vpm.ope.inference.uncertainty import EpisodeSums, influence_sums
from ope_vpm.ope.linear.doubts import with_feature_doubt
from ope_vpm.ope.linear.equations import PairEquations
from ope_vpm.ope.linear.estimate import LinearEstimate, linear_estimate
from ope_vpm.ope.memory import remembered
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True)
class QValues:
    """Q and V at the steps of a problem's plan and at its initial states."""

    q: Floats
    """Q(s, a) of each step."""
    after: Floats
    """V(s') of each step; where nothing follows, of the end."""
    first: Floats
    """V of each initial state."""
    level: Floats
    """ℓ for each step: γ = 1, the average reward."""

    def value(self, problem: Problem) -> float:
        """The value of Q itself, ℓ + (1-γ)E₀[V]."""
        share = problem.steps.weight / problem.steps.weight.sum()
        return float(share @ self.level) + (1 - problem.gamma) * float(self.first.mean() if len(self.first) else 0.0)

    def residual(self, problem: Problem) -> Floats:
        """The Bellman residual r - ℓ + γV(s') - Q(s, a) of each step."""
        rewards = problem.data.rewards[problem.steps.rows]
        return rewards - self.level + problem.gamma * self.after - self.q


def influence(problem: Problem, tau: Floats, residual: Floats, first: Floats) -> EpisodeSums:
    """Per-episode sums of τ·residual, and what the initial states add.

    Args:
        problem: the question.
        tau: the ratio at each of the plan's steps.
        residual: of each step.
        first: V of each initial state.
    """
    plan = problem.steps
    share = plan.weight / plan.weight.sum()
    return influence_sums(problem, plan.rows, share, share * tau, residual, first)


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
    found = with_feature_doubt(found)
    if not found.missed.sure or action_functions(problem, rich=True).spread is None:
        return found
    equations = lstd_equations(problem, n_features, draws, rich=True).weighted(weight)
    return with_feature_doubt(linear_estimate(equations, ridge, "linear", {"action_functions": "rich"}))


@dataclass(frozen=True)
class LinearQ:
    """A linear Q for each fold, fitted on the other folds, by its Bellman residuals at every step of the plan."""

    residual: Floats
    """(folds, steps): r - ℓ + γV(s') - Q(s, a)."""
    first: Floats
    """(folds, initial states): V."""
    level: Floats
    """(folds,): ℓ, at γ = 1 the average reward, otherwise 0."""

    def cross_fitted(self, problem: Problem, folds: Integers) -> QValues:
        """Each step by the Q of the other folds.

        Only residuals are known: Q(s, a) - γV(s') takes the place of Q, and 0 that of V.
        """
        rows, start = problem.steps.rows, folds[problem.log.initial_episodes]
        fold = folds[problem.data.episode[rows]]
        level = self.level[fold]
        q = problem.data.rewards[rows] - level - self.residual[fold, np.arange(len(rows))]
        return QValues(q, np.zeros_like(q), self.first[start, np.arange(len(start))], level)


def linear_qs(equations: PairEquations, folds: Integers, ridges: Sequence[float]) -> list[LinearQ]:
    """The Q of every fold at every step, the fold's own steps or not, for each ridge; one pass for all of them.

    Args:
        equations: of LSTD-Q.
        folds: (episodes,): the fold of each episode, from 0.
        ridges: in units of the features' mean squares.
    """
    pairs, systems = equations.rows, equations.without_each(folds)
    theta = np.stack([system.solve(ridge)[0] for ridge in ridges for system in systems], axis=1)
    _, residual = equations.apply(theta, theta)
    level = theta[0] if equations.problem.gamma == 1 else np.zeros(theta.shape[1])
    by_step, first = pairs.by_logged_row(residual)[equations.problem.steps.rows].T, pairs.initial_values(theta).T
    parts = [slice(k * len(systems), (k + 1) * len(systems)) for k in range(len(ridges))]
    return [LinearQ(by_step[part], first[part], level[part]) for part in parts]
