"""Pooling that also learns from the target: policies prefer actions that are good.

Beyond its state's mean an unseen pair is worth c·(ℓ(s, a) - ℓ̄(s)), ℓ being the target's log-probability of the action
centred in the state and ℓ̄ its mean over the logged actions. The coefficient c is that of a regression of the outcomes
of seen pairs on ℓ within states, and is the same everywhere, so that thousands of pairs seen once say together what
none of them says alone. Where they say little, c is shrunk towards 0 by its own standard error: c³/(c² + k·se²). So an
unseen pair is worth what the log knows of it, then what its state is, then what the log is. Given the shrinkage, all of
it is linear in the outcomes: V = Πy + e·(h'y) with y = r̂ + γP̂V, so that there still is a distribution over the seen
pairs that one step leaves as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats, group_sums
from ope_vpm.chain.finite.chain import FiniteChain
from ope_vpm.chain.finite.solve import gmres
from ope_vpm.ope.finite.counts import PairCounts
from ope_vpm.ope.finite.model import CompletedModel
from ope_vpm.ope.finite.pooling import (
    Components,
    behaviour_shares,
    components,
    from_state_mean,
    given_up,
    pooled_model,
    share_of_state,
    unseen_range,
)
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.rare_pairs import centred_log_probabilities
from ope_vpm.ope.finite.solve import Completion, FiniteSolution, Treatment

RIDGE = 10.0
"""On c, as if so many more pairs had shown 0; 0 did as well, 100 was worse."""
COUNT_POWER = 0.5
"""A pair seen n times counts n^½ in the regression: between its precision and its likeness to pairs never seen."""
SHRINKAGE = 4.0
"""k: a coefficient of two standard errors is halved. At k = 0, 2, 4, 8 errors over six made-up tasks are 1.70, 1.64,
1.62, 1.62 floors; on the three wards, whose logs hold most pairs once, 1.72, 1.57, 1.53, 1.52 (docs/finite.md)."""
MOST_FEEDBACK = 0.3
"""Of the coefficient on itself, by way of the values that follow from it. Far from the behaviour it can exceed 1, which
no c satisfies; 0 ignores it and lost on far behaviours, 0.5 blew up on one of 60 tuning logs of Taxi."""
NEVER = 0.5
"""Added to counts, so that an action that was never taken has a logarithm: the usual half."""


def shrunk_share(coefficient: float, error: float) -> float:
    """The share c²/(c² + k·se²) of a coefficient that is left of it; all of it where it has no error."""
    return coefficient**2 / (coefficient**2 + SHRINKAGE * error**2) if error > 0 else 1.0


def slope_within_states(counts: PairCounts, x: Floats) -> Floats:
    """(pairs,): h, so that h'y is the coefficient of a regression of y on x within states; it sums to 0 in each."""
    state, weight = counts.state_of_pair, counts.times**COUNT_POWER
    total = np.maximum(group_sums(state, weight, counts.states), np.finfo(float).tiny)
    raw = weight * (x - (group_sums(state, weight * x, counts.states) / total)[state])
    square = float(raw @ x) * (1 + RIDGE / counts.pairs)
    slope: Floats = raw / square if square > 0 else np.zeros_like(raw)
    return slope


def avoided(problem: FiniteProblem, distribution: Floats, apart: Floats) -> float:
    """How far a value may be off because unseen pairs are what the behaviour avoids; added to it, it would correct it.

    Behaviours avoid what is bad, or what is good. Where the outcomes of seen pairs rise with log(n + ½), n being how
    often an action was taken, those of actions that were never taken, n = 0, lie on the same line: below the mean of
    their state, which stands in their place. The slope is shrunk by its own standard error, as that of preferences is.

    Args:
        problem: the counts and the target.
        distribution: over states, under the target.
        apart: (pairs,): how far the outcome of each seen pair lies from what would be put in its place.
    """
    counts, state = problem.counts, problem.counts.state_of_pair
    taken = np.log(counts.times + NEVER)
    usual = group_sums(state, behaviour_shares(counts) * taken, counts.states)
    often = taken - usual[state]
    h = slope_within_states(counts, often)
    slope = float(h @ apart)
    error = float(np.sqrt(((h * (apart - slope * often)) ** 2).sum()))
    rarer = np.where(counts.actions_seen > 0, np.log(NEVER) - usual, 0.0)
    return slope * shrunk_share(slope, error) * float(distribution @ (problem.own_missing.sum(axis=1) * rarer))


@dataclass(frozen=True, eq=False, kw_only=True)
class PreferredSolution(FiniteSolution):
    """A solution with the values of unseen pairs predicted from the target's preferences."""

    coefficient: float
    """c."""
    components: Components | None
    """Of the outcomes, given the predictions; None where nothing is unseen, so that nothing is predicted."""

    @property
    def treatment(self) -> str:
        """Its name."""
        return "preference"

    @property
    def details(self) -> dict[str, Any]:
        """What the predictions rest on."""
        if self.components is None:
            return {}
        within, between = self.components.within, self.components.between
        return {"preference": self.coefficient, "within_pairs": within, "between_pairs": between}


class Preference(Treatment):
    """Unseen pairs are worth their state's mean and what the target's preference for them predicts."""

    name = "preference"

    def complete(self, problem: FiniteProblem) -> PreferencePairs:
        """Shrink the coefficient by its own standard error."""
        plain = PreferencePairs(problem, pooled_model(problem))
        if problem.all_seen:  # nothing is predicted
            return plain
        return PreferencePairs(problem, plain.model, shrunk_share(plain.coefficient, plain.coefficient_error))

    def judged(self, problem: FiniteProblem, solution: FiniteSolution) -> FiniteSolution:
        """The error of the predictions is already known."""
        return solution


@dataclass(frozen=True, eq=False)
class PreferencePairs(Completion):
    """A pooled model and a regression of outcomes on the target's preferences."""

    problem: FiniteProblem
    model: CompletedModel
    """The pooled model without preferences: Π and where it leads."""
    kept: float = 1.0
    """The share of the coefficient that is left of it."""

    @property
    def chain(self) -> FiniteChain:
        """The chain of states of the pooled model."""
        return self.model.chain

    @cached_property
    def preference(self) -> Floats:
        """(states, actions): ℓ less its mean over the logged actions of the state."""
        counts, ell = self.problem.counts, centred_log_probabilities(self.problem.target)
        logged = behaviour_shares(counts) * ell[counts.state_of_pair, counts.action_of_pair]
        centred: Floats = ell - group_sums(counts.state_of_pair, logged, counts.states)[:, None]
        return centred

    @property
    def of_pairs(self) -> Floats:
        """(pairs,): the same of the seen pairs."""
        counts = self.problem.counts
        return self.preference[counts.state_of_pair, counts.action_of_pair]

    def at_least_as_seen(self, preference: Floats) -> Floats:
        """Preferences held from below at the least that was seen, in states with several seen actions.

        A softmax target gives what it hardly takes any ℓ down to -14, where no line holds that was fitted between -3
        and 0: on ice with pits (logs of the target, its temperature doubled) values were 10 % too low. Errors over nine
        made-up tasks and thirteen pairs of policies are 1.00 floors without this, 0.98 with it, and 0.98, 1.00 and 0.99
        at the lowest hundredth, fiftieth, and at both ends (docs/finite.md).
        """
        counts = self.problem.counts
        compared = counts.actions_seen[counts.state_of_pair] > 1
        held: Floats = np.maximum(preference, self.of_pairs[compared].min()) if compared.any() else preference
        return held

    @cached_property
    def surplus(self) -> Floats:
        """(states,): e, how much more the target prefers what it takes than what pooling puts in its place."""
        counts, missing = self.problem.counts, self.problem.own_missing
        share = share_of_state(counts)
        ell = centred_log_probabilities(self.problem.target)
        logged = counts.times @ ell[counts.state_of_pair, counts.action_of_pair] / counts.times.sum()
        own, of_log = self.at_least_as_seen(self.preference), self.at_least_as_seen(ell - logged)
        local, whole = (missing * own).sum(axis=1), (missing * of_log).sum(axis=1)
        lost = group_sums(counts.state_of_pair, given_up(self.problem) * self.of_pairs, counts.states)
        total: Floats = share * local + (1 - share) * whole + lost
        if self.problem.borrowed is not None:
            taken = ((self.problem.missing - missing) * own).sum(axis=1)
            total += taken - self.problem.borrowed.policy @ self.of_pairs
        return total

    @cached_property
    def regress(self) -> Floats:
        """(pairs,): h before its feedback is limited; it sums to 0 in each state."""
        return self.kept * slope_within_states(self.problem.counts, self.of_pairs)

    @cached_property
    def _bases(self) -> tuple[Floats, Floats]:
        """V without preferences, and what c = 1 would add to it."""
        chain, gamma = self.chain, self.problem.gamma
        return chain.value_function(self._pay, gamma), chain.value_function(self.surplus, gamma)

    @property
    def _pay(self) -> Floats:
        model = self.model
        pay: Floats = model.policy @ self.problem.counts.reward + model.substitute * model.substitute_reward
        return pay

    @cached_property
    def regression(self) -> Floats:
        """(pairs,): h, so that c = h'y at the fixed point, scaled where its feedback is above the limit."""
        feedback = float(self.regress @ (self.problem.gamma * (self.problem.counts.transitions @ self._bases[1])))
        return self.regress / (1 + max(feedback - MOST_FEEDBACK, 0.0))

    @cached_property
    def coefficient(self) -> float:
        """C at the fixed point: c = h'(r̂ + γP̂(V₀ + cV₁))."""
        counts, gamma, (plain, added) = self.problem.counts, self.problem.gamma, self._bases
        here = float(self.regression @ (counts.reward + gamma * (counts.transitions @ plain)))
        return here / (1 - float(self.regression @ (gamma * (counts.transitions @ added))))

    @cached_property
    def values(self) -> Floats:
        """V."""
        plain, added = self._bases
        total: Floats = plain + self.coefficient * added
        return total

    @cached_property
    def components(self) -> Components:
        """The variances of outcomes, those of pairs around their predictions."""
        return components(self.problem, self.values, self.coefficient * self.of_pairs)

    def mass(self, distribution: Floats) -> Floats:
        """(pairs,): how much each seen pair counts under a distribution over states: the transpose of V in y."""
        through: Floats = float(self.surplus @ distribution) * self.regression
        return self.model.mass(distribution) + through

    def solve(self) -> FiniteSolution:
        """The fixed point; without preferences where there are several closed classes, which they would mix."""
        solution = self.solution()
        return self.model.solve() if solution is None else solution

    def solution(self) -> PreferredSolution | None:
        """The fixed point; None where there is none, or more than one."""
        problem, counts, gamma, chain = self.problem, self.problem.counts, self.problem.gamma, self.chain
        if gamma == 1 and len(chain.closed_classes) > 1:
            return None
        plain = chain.distribution(self.model.start if gamma == 1 else counts.initial, gamma)
        if problem.all_seen:
            return self._of_seen(plain)
        found = self._distribution(plain)
        if found is None:
            return None
        value = float(plain @ (self._pay + self.coefficient * self.surplus))
        return PreferredSolution(
            value=value,
            distribution=plain,
            mass=self.mass(found),
            values=self.values,
            q=problem.q(self.values, value if gamma == 1 else 0.0),
            unseen_mass=float(plain @ problem.unseen / plain.sum()),
            error=self._error(plain),
            unseen_range=unseen_range(problem, plain, self.residuals),
            coefficient=self.coefficient,
            components=self.components,
        )

    def _of_seen(self, distribution: Floats) -> PreferredSolution:
        """The solution where nothing is unseen: that of the counted model, with no coefficient to look for."""
        value, values = float(distribution @ self._pay), self.chain.value_function(self._pay, self.problem.gamma)
        return PreferredSolution(
            value=value,
            distribution=distribution,
            mass=self.model.mass(distribution),
            values=values,
            q=self.problem.q(values, value if self.problem.gamma == 1 else 0.0),
            unseen_mass=float(distribution @ self.problem.unseen / distribution.sum()),
            coefficient=0.0,
            components=None,
        )

    def rollout(self, horizon: int, seed: int) -> float:
        """By the pooled model: preferences say what a pair is worth, not where it leads."""
        return self.model.rollout(horizon, seed)

    def _distribution(self, plain: Floats) -> Floats | None:
        """The d with V's transpose as its step: d = plain + (e'd)·μ, where μ(I - γ𝒯) = γh'P̂; None where GMRES fails."""
        counts, gamma, chain = self.problem.counts, self.problem.gamma, self.chain
        right = gamma * (counts.transitions.T @ self.regression)
        mu: Floats | None
        if gamma < 1:
            mu = chain.distribution(right / (1 - gamma), gamma)
        else:
            share = counts.logged_states
            mu = gmres(lambda m: m - m @ chain + share * m.sum(), right, np.zeros_like(right))
        if mu is None:
            return None
        whole: Floats = plain + float(self.surplus @ plain) / (1 - float(self.surplus @ mu)) * mu
        return whole

    @property
    def residuals(self) -> Floats:
        """(pairs,): how far each seen pair's mean outcome lies from what would be put in its place."""
        y = self.problem.q(self.values, 0.0) - self.coefficient * self.of_pairs
        return from_state_mean(self.problem.counts, y)

    @property
    def coefficient_error(self) -> float:
        """The standard error of c before it is shrunk, from the residuals of the pairs: √Σ(h·residual)²."""
        error = float(np.sqrt(((self.regression * self.residuals) ** 2).sum()))
        return error / self.kept if self.kept > 0 else 0.0

    def _error(self, distribution: Floats) -> float:
        """The root of τ₁²·u² + (e'd)²·se(c)² + a²: unseen pairs, the coefficient, and what the behaviour avoids.

        The mass u is that of unseen pairs, which may all err to the same side: they are what the behaviour avoided.
        Taking them as independent covered 87 % instead of 97 % of tuning runs. τ₁² is the variance of pairs that counts
        each once; a is what how often actions were taken says of those that were not: see `avoided`.
        """
        unseen, through = float(distribution @ self.problem.unseen), float(self.surplus @ distribution)
        known = self.components.of_any_pair**0.5 * unseen, through * self.coefficient_error
        return float(np.linalg.norm([*known, avoided(self.problem, distribution, self.residuals)]))
