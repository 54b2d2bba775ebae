"""Good–Turing regression: the value of pairs never seen, predicted from pairs seen rarely.

An unseen pair has the value that a regression predicts: of the values y = r̂ + γP̂V of rarely seen pairs (`rare_pairs`
says how much each counts) on the action, on ℓ = log π(a|s) centred in its state, and on the mean y of the other seen
actions there. A state that was never left takes the mean V of the states left once. Given the last coefficient, β, all
this is linear in y and reproduces constants. So there still is a distribution over the seen pairs that one step under
the target leaves as it is, and the value is Σ τ r / Σ τ under it, with a ratio that may be negative on some of the
pairs that represent others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.arrays import ROUNDING, Bools, Floats, Integers, effective_sample_size, group_sums
from ope_vpm.chain.finite.solve import gmres
from ope_vpm.ope.finite.problem import FiniteProblem
from ope_vpm.ope.finite.rare_pairs import RARE, centred_log_probabilities, rare_pair_weights
from ope_vpm.ope.finite.solve import Completion, FiniteSolution, Treatment

FEWEST_RARE_PAIRS = 30
"""With fewer rarely seen pairs there is nothing to regress on: there is a coefficient for each action and two more."""
RIDGE = 10.0
"""On the coefficients of actions and ℓ, as if so many more rare pairs had shown 0; 1 was no better on
Taxi (docs/taxi.md)."""
SWEEPS = 60
"""Value sweeps in which the coefficient of the other actions' mean settles."""
COMMON = 0.05
"""ρ, the share of a rare pair's residual by which all unseen pairs may be off to one side: what a worse policy does and
the log does not is worse than what rare pairs predict. With 0, 0.03, 0.05 and 0.07 intervals on Taxi (18 pairs of
policies of two trainings, four sizes) hold 95, 96, 97 and 98 % of the truths, and are 1, 1.05, 1.13 and 1.24 times as
wide; without `halves` they hold 79, 84, 87 and 92 %."""
NOT_LEFT_OUT = 0.1
"""The least share of a rare pair's prediction that rests on the others; keeps leave-one-out residuals finite."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictedSolution(FiniteSolution):
    """A solution with the values of unseen pairs predicted."""

    coefficient: float
    """β, of the mean of the other seen actions."""
    explained: float
    """How much better each rare pair is predicted by the others than by the log's mean: 1 perfectly, 0 not at all."""
    rare_pairs: int
    """How many rarely seen pairs it learned from."""
    effective_rare_pairs: float
    """Kish's effective number of them, with the weights that they have."""

    @property
    def treatment(self) -> str:
        """Its name."""
        return "regression"

    @property
    def details(self) -> dict[str, Any]:
        """How good the predictions are, and what they rest on."""
        return {
            "explained": self.explained,
            "rare_pairs": self.rare_pairs,
            "effective_rare_pairs": self.effective_rare_pairs,
        }


class Regression(Treatment):
    """Unseen pairs are worth what rarely seen ones predict."""

    name = "regression"

    def complete(self, problem: FiniteProblem) -> PredictedPairs:
        """Choose and weigh the rare pairs; refuse where there are too few."""
        completion = predicted_pairs(problem)
        if completion is None:
            raise ValueError(
                "unseen='regression' needs rarely seen pairs to learn from, and there are too few: use unseen='smooth'"
            )
        return completion

    def judged(self, problem: FiniteProblem, solution: FiniteSolution) -> FiniteSolution:
        """The error of the predictions is already known."""
        return solution


@dataclass(frozen=True, eq=False)
class PredictedPairs(Completion):
    """Predicts the y of unseen pairs: β·(mean y in the state) + features·coefficients(y - β·mean of the others)."""

    problem: FiniteProblem
    rare: Integers
    """The rarely seen pairs, by number."""
    weight: Floats
    """What each of them counts in the regression, summing to 1."""
    centred: Floats
    """(rare pairs, features): features less their weighted means."""
    regress: Floats
    """(features + 1, rare pairs): the matrix from their y to the coefficients, the weighted mean last."""
    unseen: Floats
    """(states, features + 1): the features of a state's unseen pairs, summed with the target's probabilities."""
    actions_seen: Floats
    """How many different actions were seen in each state."""
    never_left: Bools
    """The states from which there is no step."""
    left_once: Floats
    """The uniform distribution over the states left once, which represent those never left."""

    def values(self, y: Floats, beta: float) -> Floats:
        """V over all states from the y of seen pairs: 𝔼_π of seen and predicted ones."""
        counts = self.problem.counts
        mean = group_sums(counts.state_of_pair, y, counts.states) / np.maximum(self.actions_seen, 1)
        coefficients = self.regress @ (y[self.rare] - beta * self.mean_of_others(y))
        direct = group_sums(counts.state_of_pair, self.problem.probability * y, counts.states)
        known = direct + beta * self.unseen[:, -1] * mean + self.unseen @ coefficients
        whole: Floats = known + self.never_left * (self.left_once @ known)
        return whole

    def represented(self, distribution: Floats) -> Floats:
        """A distribution over states with the states never left replaced by those that represent them."""
        known: Floats = ~self.never_left * distribution + self.left_once * distribution[self.never_left].sum()
        return known

    def mass_by_coefficients(self, distribution: Floats) -> Floats:
        """How much the y of each rare pair counts by way of the coefficients; the transpose in `values`."""
        through: Floats = (self.represented(distribution) @ self.unseen) @ self.regress
        return through

    def mass(self, distribution: Floats, beta: float) -> Floats:
        """How much each seen pair counts under a distribution over states: the transpose of `values`."""
        state, known = self.problem.counts.state_of_pair, self.represented(distribution)
        share = beta * self.unseen[:, -1] * known / np.maximum(self.actions_seen, 1)
        direct = self.problem.probability * known[state] + share[state]
        through = np.zeros_like(direct)
        through[self.rare] = self.mass_by_coefficients(distribution)
        from_others = np.zeros_like(direct)
        from_others[self.rare] = through[self.rare] / self.others
        whole = group_sums(state, from_others, self.problem.counts.states)[state]
        return direct + through - beta * (whole - from_others)

    @property
    def others(self) -> Floats:
        """How many other actions were seen in the state of each rare pair."""
        return self.actions_seen[self.problem.counts.state_of_pair[self.rare]] - 1

    def mean_of_others(self, y: Floats) -> Floats:
        """The mean y of the other seen actions in the state of each rare pair."""
        counts = self.problem.counts
        total = group_sums(counts.state_of_pair, y, counts.states)
        return (total[counts.state_of_pair[self.rare]] - y[self.rare]) / self.others

    def coefficient(self, y: Floats) -> float:
        """β, the coefficient of the mean of the others given the features; within [0, 1]."""
        own, others = self._unexplained(y[self.rare]), self._unexplained(self.mean_of_others(y))
        below = float(self.weight @ others**2)
        return min(max(float(self.weight @ (own * others)) / below, 0.0), 1.0) if below > 0 else 0.0

    def residuals(self, y: Floats, beta: float) -> Floats:
        """How far the y of each rare pair lies from its prediction."""
        return self._unexplained(y[self.rare] - beta * self.mean_of_others(y))

    def _unexplained(self, y: Floats) -> Floats:
        answer = self.regress @ y
        left: Floats = y - self.centred @ answer[:-1] - answer[-1]
        return left

    def solve(self) -> PredictedSolution:
        """The fixed point; refused where there is none."""
        solution = self.solution()
        if solution is None:
            raise ValueError("unseen='regression' finds no value within the range of the rewards: use unseen='smooth'")
        return solution

    def solution(self) -> PredictedSolution | None:
        """The fixed point; None where there is none within the range of the rewards."""
        counts, gamma, beta = self.problem.counts, self.problem.gamma, self._settled_coefficient()
        pay, transitions, back = self.values(counts.reward, beta), counts.transitions, counts.transitions.T.tocsr()
        # At γ = 1 a rank-one term takes the place of what I - 𝒯 lacks; what it adds is the average reward.
        share = counts.logged_states if gamma == 1 else np.zeros(counts.states)
        start = counts.logged_states if gamma == 1 else (1 - gamma) * counts.initial
        values = gmres(lambda v: v - gamma * self.values(transitions @ v, beta) + share @ v, pay, np.zeros_like(pay))
        found = gmres(lambda d: d - gamma * (back @ self.mass(d, beta)) + share * d.sum(), start, start)
        if values is None or found is None:
            return None
        value = float(share @ values if gamma == 1 else (1 - gamma) * counts.initial @ values)
        if not self._within_rewards(value):
            return None
        q = self.problem.q(values, float(share @ values))
        return PredictedSolution(
            value=value,
            distribution=found,
            mass=self.mass(found, beta),
            values=values,
            q=q,
            unseen_mass=float(found @ self.problem.unseen / found.sum()),
            error=self.error_of(found, q, beta),
            coefficient=beta,
            explained=self._explained(q, beta),
            rare_pairs=len(self.rare),
            effective_rare_pairs=effective_sample_size(self.weight),
        )

    def _within_rewards(self, value: float) -> bool:
        """Whether a value lies between the rewards, to which an ended episode adds 0."""
        reward = self.problem.counts.reward
        ends = [0.0] if self.problem.gamma < 1 else []
        low, high = min([reward.min(), *ends]), max([reward.max(), *ends])
        slack = ROUNDING * max(abs(low), abs(high))
        return bool(low - slack <= value <= high + slack)

    def _settled_coefficient(self) -> float:
        """β after a number of value sweeps, each with the coefficient that the last one's y ask for."""
        counts, gamma, beta = self.problem.counts, self.problem.gamma, 0.5
        y = counts.reward
        for _ in range(SWEEPS):
            y = counts.reward + gamma * (counts.transitions @ self.values(y, beta))
            y = y - y.mean() if gamma == 1 else y
            beta = self.coefficient(y)
        return beta

    def error_of(self, distribution: Floats, y: Floats, beta: float) -> float:
        """√(Σ (c·e)² + σ²·(Σ m² + ρ²·(Σ m)²)): c what a rare pair counts, e its residual, m an unseen one's mass.

        The first sum is the error of the coefficients, the second that of each single prediction, and the last what
        all of them may err to the same side.
        """
        residual, states, missing = self.residuals(y, beta), self.represented(distribution), self.problem.missing
        single, together = float(states**2 @ (missing**2).sum(axis=1)), COMMON * float(states @ missing.sum(axis=1))
        unseen = float(self.weight @ residual**2) * (single + together**2)
        return float(np.sqrt(np.sum((self.mass_by_coefficients(distribution) * residual) ** 2) + unseen))

    def _explained(self, y: Floats, beta: float) -> float:
        """1 - Σ w·(left-out residual)² / Σ w·(y - the log's mean)² over the rare pairs."""
        leverage = np.sum(self.centred * self.regress[:-1].T, axis=1) + self.weight
        left_out = self.residuals(y, beta) / np.maximum(1 - leverage, NOT_LEFT_OUT)
        times = self.problem.counts.times
        around = float(self.weight @ (y[self.rare] - times @ y / times.sum()) ** 2)
        return 1 - float(self.weight @ left_out**2) / around if around > 0 else 0.0


def predicted_pairs(problem: FiniteProblem, use_target: bool = True) -> PredictedPairs | None:
    """Choose and weigh the rare pairs; None where there are too few of them.

    Args:
        problem: the counts and the target.
        use_target: whether ℓ is among the features.
    """
    counts = problem.counts
    state, action, seen = counts.state_of_pair, counts.action_of_pair, counts.actions_seen
    times = np.rint(counts.times).astype(np.int64)
    unit = int(np.gcd.reduce(times))  # a log given twice over is no more than the log
    rare = np.flatnonzero((times <= RARE * unit) & (seen[state] > 1))
    if len(rare) < FEWEST_RARE_PAIRS:
        return None
    preference = centred_log_probabilities(problem.target)
    weight = rare_pair_weights(problem, rare, preference, unit)
    features = np.repeat(np.eye(problem.target.shape[1])[:, None], counts.states, axis=1)
    features = np.concatenate([features, preference.T[..., None]], axis=2) if use_target else features
    middle = weight @ features[action[rare], state[rare]]
    centred = features[action[rare], state[rare]] - middle
    square = centred.T @ (weight[:, None] * centred) + RIDGE * float(weight @ weight) * np.eye(len(middle))
    never_left = seen == 0
    missing = np.where(never_left[:, None], 0.0, problem.missing)
    once = np.rint(counts.visits) == unit
    once = once if once.any() else ~never_left
    return PredictedPairs(
        problem=problem,
        rare=rare,
        weight=weight,
        centred=centred,
        regress=np.vstack([np.linalg.solve(square, centred.T * weight), weight]),
        unseen=np.column_stack([np.einsum("sa,ask->sk", missing, features - middle), missing.sum(axis=1)]),
        actions_seen=seen.astype(np.float64),
        never_left=never_left,
        left_once=once / once.sum(),
    )
