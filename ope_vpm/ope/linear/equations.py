"""Linear systems in features of pairs, their solutions for every ridge, and the choice of one.

One pass over the rows gives the linear system of `ope_vpm.linear.system`. A second one sums τ·δ over episodes, τ the
ratio and δ the Bellman residual of a row, for all ridges at once: the influence function, whose standard errors choose
the ridge. A third one gives τ and δ of every row for that ridge alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ope_vpm.arrays import Floats, Integers
from ope_vpm.linear.moments import Means, accumulate_folds, accumulate_initial, all_but_each
from ope_vpm.linear.passes import Coefficients, WeightSums, apply, apply_all
from ope_vpm.linear.system import DECADE, RIDGES, LinearSystem, choose_ridge
from ope_vpm.ope.adapter.pair_features import PairFeatures, PairSums, on_sample
from ope_vpm.ope.adapter.pair_stream import Pairs
from ope_vpm.ope.inference.returns import reaches_ends
from ope_vpm.ope.inference.uncertainty import EpisodeSums, influence_sums, initial_sums
from ope_vpm.ope.memory import Memory, remembered
from ope_vpm.ope.problem import Discount, Problem
from ope_vpm.threads import cached_property


@dataclass(frozen=True, eq=False)
class PairEquations:
    """The linear system of a problem in features of pairs, and the rows that it is made of."""

    problem: Problem
    pairs: Pairs

    @cached_property
    def means(self) -> Means:
        """Means of the moments, from one pass over the rows that all discounts share."""
        return self.pairs.moments.means()

    @cached_property
    def system(self) -> LinearSystem:
        """The linear system at the problem's discount."""
        return LinearSystem.of(self.means, self.problem.gamma, restart=self.problem.on_end == "restart")

    @property
    def memory(self) -> Memory:
        """That of the rows, for what is computed for all discounts together."""
        return self.pairs.memory

    @property
    def on_sample(self) -> PairEquations:
        """These equations on the rows of the log's sample."""
        return PairEquations(self.problem.on_sample, on_sample(self.problem, self.pairs))

    def weighted(self, weight: Floats | None) -> PairEquations:
        """The equations with a weight for each logged row, of a log in memory; these ones where there is none."""
        return self if weight is None else PairEquations(self.problem, self.rows.weighted(weight))

    @property
    def rows(self) -> PairFeatures:
        """The rows, of a log that is in memory."""
        if not isinstance(self.pairs, PairFeatures):
            raise TypeError("the rows of a log that is read in parts are not all there")
        return self.pairs

    @property
    def after_end(self) -> Floats | None:
        """The features that follow an end: E₀[Φ] where ends restart, None where nothing follows."""
        return self.means.initial if self.problem.on_end == "restart" else None

    def apply(self, beta: Floats, theta: Floats) -> tuple[Floats, Floats]:
        """The ratio τ = w·Φβ and the Bellman residual r - Δθ of each row, in a second pass."""
        return apply(self.rows, beta, theta, self.problem.gamma, self.after_end)

    def at(self, discount: Discount) -> PairEquations:
        """The equations of the same rows at a discount that is asked about together with this one."""
        return self if discount == self.problem.discount else PairEquations(self.problem.at(discount), self.pairs)

    def solved(self, ridges: tuple[float, ...], choices: int) -> SolvedRidges:
        """The solutions for some ridges, made in one pass with those of all discounts that are asked about.

        Args:
            ridges: the ridges.
            choices: how many of them, the first ones, may be chosen; of the others the value alone is asked for.
        """
        return _solved_together(self, ridges, choices, self.problem.all_discounts)[self.problem.discount]

    def at_rows(self, path: RidgePath) -> tuple[Floats, Floats]:
        """The ratio τ and the Bellman residual of each row for the ridge that was chosen; one pass as in `solved`."""
        problem = self.problem
        return _rows_together(self, path.ridges, problem.all_discounts)[problem.discount]

    def influence(self, tau: Floats, residual: Floats, theta: Floats) -> EpisodeSums:
        """How each episode moves the value, from the τ and the residual of each row."""
        n, first = len(self.pairs), self.rows.initial_values(theta)
        return influence_sums(self.problem, self.rows.rows, np.full(n, 1 / n), tau / n, residual, first)

    def without_each(self, folds: Integers) -> list[LinearSystem]:
        """For each fold the system of the other folds' rows; of all rows where there is one fold only.

        Initial states are those of all episodes: where the task begins is not what is cross-fitted.

        Args:
            folds: (episodes,): the fold of each episode, from 0.
        """
        fold, restart = folds[self.problem.data.episode[self.rows.rows]], self.problem.on_end == "restart"
        initial = accumulate_initial(self.rows)
        others = all_but_each(accumulate_folds(self.rows, fold, int(folds.max()) + 1))
        return [LinearSystem.of(part.merge(initial).means(), self.problem.gamma, restart=restart) for part in others]


@dataclass(frozen=True)
class SolvedRidges:
    """The solutions of the equations for some ridges, and sums over the rows of each episode."""

    theta: Floats
    """(features, ridges)."""
    of_ends: Floats
    """(features, ridges), for the reward 1[the task ends here]; without columns where nothing ends."""
    beta: Floats
    """(features, ridges to choose from)."""
    asked: Coefficients
    """What a pass over the rows is to sum up."""
    sums: PairSums | None = None
    """For the ridges to choose from: columns for θ, then those for ends; with sums of the weights τ where rows are not
    there for a third pass. None before the pass."""


@dataclass(frozen=True, eq=False)
class Influences:
    """How each episode moves the value, for each ridge to choose from.

    They are put together when they are asked for: for eleven ridges they would be 350 bytes an episode.
    """

    problem: Problem
    sums: PairSums
    columns: range
    """Those of the sums, one a ridge."""

    def __getitem__(self, ridge: int) -> EpisodeSums:
        problem, n, k = self.problem, int(self.sums.rows.sum()), self.columns[ridge]
        ended = float(self.sums.groups.ended[k] / n)
        rate = 1 - problem.gamma + (problem.gamma * ended if problem.on_end == "restart" else 0.0)
        whole = EpisodeSums(self.sums.groups.influence[:, [k]] / n, self.sums.rows[:, None] / n)
        return whole.beside(initial_sums(problem, rate, self.sums.first[problem.log.initial_episodes, k]))

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[EpisodeSums]:
        return (self[ridge] for ridge in range(len(self)))


@remembered
def _solved_together(
    equations: PairEquations, ridges: tuple[float, ...], choices: int, discounts: tuple[Discount, ...]
) -> dict[Discount, SolvedRidges]:
    """Solve for every ridge at every discount, and go through the rows once for all of them."""
    solved = [_solved(equations.at(discount), ridges, choices) for discount in discounts]
    in_parts = not isinstance(equations.pairs, PairFeatures)  # no third pass then brings the weights
    sums = equations.pairs.sums([each.asked for each in solved], weights=in_parts)
    return {discounts[k]: replace(solved[k], sums=sums[k]) for k in range(len(discounts))}


def _solved(equations: PairEquations, ridges: tuple[float, ...], choices: int) -> SolvedRidges:
    """The coefficients for every ridge, before a pass over the rows."""
    # Beside the reward, 1[the task ends here] is one more right-hand side of the same equations.
    problem, system = equations.problem, equations.system
    paid = [system.reward, equations.means.ended] if problem.episodic else [system.reward]
    system = replace(system, reward=np.stack(paid, axis=1))
    theta, beta = (np.stack(parts, axis=-1) for parts in zip(*map(system.solve, ridges), strict=True))
    beta, some = beta[:, :choices], theta[:, :, :choices]
    both = np.hstack([beta] * len(paid)), some.reshape(len(theta), -1)
    asked = Coefficients(*both, problem.gamma, equations.after_end, choices * (len(paid) - 1))
    return SolvedRidges(theta[:, 0], theta[:, 1:].reshape(len(theta), -1), beta, asked)


@remembered
def _rows_together(
    equations: PairEquations, ridges: tuple[float, ...], discounts: tuple[Discount, ...]
) -> dict[Discount, tuple[Floats, Floats]]:
    """τ and the Bellman residual of each row at every discount, each at its own ridge."""
    grid, asked = ridges[:-DECADE], []
    for each in (equations.at(discount) for discount in discounts):
        path = ridge_path(each, grid[0] if len(grid) == 1 else None, grid)
        coefficients = path.beta[:, path.chosen], path.theta[:, path.chosen]
        asked.append(Coefficients(*coefficients, each.problem.gamma, each.after_end))
    return dict(zip(discounts, apply_all(equations.rows, asked), strict=True))


@dataclass(frozen=True)
class RidgePath:
    """The solution for every ridge of a grid, and which one was chosen."""

    ridges: tuple[float, ...]
    chosen: int
    """The index of the ridge."""
    theta: Floats
    """(features, ridges)."""
    beta: Floats
    """(features, ridges to choose from)."""
    values: Floats
    """(ridges,)."""
    sums: Influences | list[EpisodeSums]
    """How each episode moves the value, for each ridge to choose from."""
    steps: float | None = None
    """For returns, the mean length of an episode at the chosen ridge."""
    rate_error: float = 0.0
    """For returns, the relative standard error of the rate of ends at the chosen ridge."""
    weights: WeightSums | None = None
    """Sums of the ratio for each ridge to choose from, where its rows are not kept."""
    per_episode: RidgePath | None = None
    """The path of the return of an episode, which has a ridge of its own; None where nothing ends."""


def ridge_path(equations: PairEquations, ridge: float | None, grid: tuple[float, ...] = RIDGES) -> RidgePath:
    """Solve for every ridge of the grid and choose one, or for the one that is given; both also for larger ones.

    The larger ones, up to ten times the last, are there to see how far the value would move, not to be chosen.

    Args:
        equations: of the problem.
        ridge: where it is given.
        grid: the ridges to choose from.
    """
    grid = grid if ridge is None else (ridge,)
    ridges, choices = (*grid, grid[-1] * 10**0.5, grid[-1] * 10), len(grid)
    solved = equations.solved(ridges, choices)
    assert solved.sums is not None
    values, weights = equations.system.source @ solved.theta, solved.sums.groups.weights
    own = Influences(equations.problem, solved.sums, range(choices))
    path = RidgePath(ridges, _choice(ridge, own), solved.theta, solved.beta, values, own, weights=weights)
    if not equations.problem.episodic:
        return path
    rates = Influences(equations.problem, solved.sums, range(choices, 2 * choices))
    of_return = _return_path(equations, path, ridge, solved.of_ends, rates)
    return replace(path, per_episode=of_return)


def _return_path(
    equations: PairEquations, path: RidgePath, ridge: float | None, theta: Floats, rates: Influences | list[EpisodeSums]
) -> RidgePath | None:
    """The return R = v/e for every ridge, e the rate of ends; None where no ridge to choose has a positive one.

    Its Q is that of the rewards (r - R·1[end])/e: see `ope_vpm.ope.inference.returns`.

    Args:
        equations: of the problem.
        path: of the value.
        ridge: where it is given.
        theta: (features, ridges): the coefficients of Q for the reward 1[end].
        rates: how each episode moves the rate of ends, for each ridge to choose from.
    """
    rate = equations.system.source @ theta
    known = np.array([reaches_ends(equations.problem, each) for each in rate])
    if not known[: len(rates)].any():
        return None
    rate = np.where(known, rate, np.nan)
    values, sums = path.values / rate, []
    for k, of_rate in enumerate(rates):
        influence = (path.sums[k].influence - values[k] * of_rate.influence) / rate[k]
        sums.append(EpisodeSums.of_influence(values[k], influence))
    chosen = _choice(ridge, sums)
    of_return, steps = (path.theta - values * theta) / rate, float(1 / rate[chosen])
    error = steps * rates[chosen].standard_error
    return RidgePath(path.ridges, chosen, of_return, path.beta, values, sums, steps, error, path.weights)


def _choice(ridge: float | None, sums: Influences | list[EpisodeSums]) -> int:
    """The index of the ridge: where it is given, the first; otherwise chosen by the standard errors."""
    return choose_ridge(np.array([each.standard_error for each in sums])) if ridge is None else 0
