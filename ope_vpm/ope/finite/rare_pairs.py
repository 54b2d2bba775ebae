"""How many unseen pairs each rarely seen one speaks for.

Good and Turing: what was seen once is most like what was not seen. A pair seen j times of the N that its state was
left speaks for unseen ones by the odds of having been missed, P₀/(P₁ + P₂ + P₃), under a model of the behaviour that is
fitted to the same counts: p(a|s) ∝ exp(θ_a + β·ℓ(s, a)), ℓ the target's log-probability centred in each state, with
Dirichlet-multinomial counts around it.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.special import betaln, gammaln, softmax

from ope_vpm.arrays import Floats, Integers, effective_sample_size
from ope_vpm.ope.finite.problem import FiniteProblem

LEAST_PROBABILITY = 1e-6
"""Smaller probabilities of the target count as this much, so that their logarithms stay within 14 of each other."""
RARE = 3
"""A pair seen at most so often is rare; with pairs seen once alone the error on Taxi is larger (docs/taxi.md)."""
EFFECTIVE_RARE_PAIRS = 300
"""The target's own mass weighs the rare pairs as far as this many, in Kish's sense, are left. Without that
weighing log10 MSE on Taxi is higher by 0.06 to 0.67 (docs/taxi.md)."""
POWER_STEPS = 100
"""Power steps to the distribution that weighs the rare pairs."""
LEAST_SEEN = 0.5
"""For that distribution the target's probabilities are scaled up at most by the inverse; what is lost restarts from the
log. Without this a state with one seen action that leads nowhere else would swallow everything;
limits from 1 to 5 did equally well on Taxi."""
NEWTON_STEPS = 50
"""The most steps of Newton's method. The likelihood is concave, so that few are needed."""
SETTLED = 1e-9
"""Newton's method ends with a step in which no coefficient moves by more."""
HOLD = 1e-6
"""A pull towards 0 on the behaviour's coefficients, per observation: actions that were never taken would run away."""
LOG_CONCENTRATIONS = (-3.0, 12.0)
"""The bounds of log κ: below, each state has one action of its own; above, all states have the same probabilities."""


def centred_log_probabilities(target: Floats) -> Floats:
    """(states, actions): ℓ(s, a) = log π(a|s) less its mean over the actions."""
    log = np.log(np.maximum(target, LEAST_PROBABILITY))
    return cast(Floats, log - log.mean(axis=1, keepdims=True))


def behaviour_probabilities(counts: Floats, preference: Floats) -> Floats:
    """(states, actions): the logit p(a|s) ∝ exp(θ_a + β·ℓ) of greatest likelihood, by Newton's method.

    Args:
        counts: how often each action was taken in each state.
        preference: ℓ(s, a).
    """
    actions, total = counts.shape[1], counts.sum(axis=1, keepdims=True)
    theta, beta = np.zeros(actions), 0.0
    probability = softmax(theta + beta * preference, axis=1)
    for _ in range(NEWTON_STEPS):
        rest, mass = counts - total * probability, total * probability
        centred = preference - (probability * preference).sum(axis=1, keepdims=True)
        slope = np.append(rest.sum(axis=0), (rest * preference).sum())
        curvature = np.empty((actions + 1, actions + 1))
        curvature[:actions, :actions] = np.diag(mass.sum(axis=0)) - mass.T @ probability
        curvature[:actions, -1] = curvature[-1, :actions] = (mass * centred).sum(axis=0)
        curvature[-1, -1] = (mass * centred**2).sum()
        hold = HOLD * max(float(total.sum()), 1.0)
        step = np.linalg.solve(curvature + hold * np.eye(actions + 1), slope - hold * np.append(theta, beta))
        theta, beta = theta + step[:-1], beta + float(step[-1])
        probability = softmax(theta + beta * preference, axis=1)
        if np.abs(step).max() < SETTLED:
            break
    return cast(Floats, probability)


def concentration(counts: Floats, probability: Floats) -> float:
    """The κ of a Dirichlet distribution around `probability` under which the counts are most likely."""
    total = counts.sum(axis=1)
    taken = counts > 0
    times, expected = counts[taken], probability[taken]

    def surprise(log_kappa: float) -> float:
        kappa = np.exp(log_kappa)
        of_states = gammaln(kappa) - gammaln(total + kappa)
        return -float(of_states.sum() + (gammaln(times + kappa * expected) - gammaln(kappa * expected)).sum())

    from scipy.optimize import minimize_scalar  # imported here: it takes long, and few need it

    found = minimize_scalar(surprise, bounds=LOG_CONCENTRATIONS, method="bounded", options={"xatol": 0.01})
    return float(np.exp(found.x))


def missed_odds(total: Floats, probability: Floats, kappa: float) -> Floats:
    """P₀/(P₁ + P₂ + P₃) with P_j the beta-binomial probability of having been seen j times out of `total`.

    Args:
        total: how often the state was left.
        probability: of the action in it.
        kappa: the concentration around that probability.
    """
    yes, no = kappa * probability, kappa * (1 - probability)

    def seen(times: int) -> Floats:
        left = np.maximum(total - times, 0)
        ways = gammaln(total + 1) - gammaln(times + 1) - gammaln(left + 1)
        with np.errstate(invalid="ignore"):  # by a behaviour without doubt, see below
            return np.where(total >= times, np.exp(ways + betaln(times + yes, left + no) - betaln(yes, no)), 0.0)

    rarely = sum((seen(times) for times in range(1, RARE + 1)), np.zeros_like(total))
    # By a behaviour without doubt (probability 0 or 1) a pair is seen never or always, and speaks for no unseen one.
    known = np.isfinite(rarely) & (rarely > 0)
    return np.divide(seen(0), rarely, out=np.zeros_like(rarely), where=known)


def rare_pair_weights(problem: FiniteProblem, rare: Integers, preference: Floats, unit: int) -> Floats:
    """The odds of having been missed, times the target's mass to the highest power that leaves enough rare pairs.

    Args:
        problem: the counts and the target.
        rare: the rare pairs, by number.
        preference: ℓ(s, a).
        unit: how often a pair that was seen once is counted.

    Returns:
        One weight per rare pair, summing to 1.
    """
    counts = problem.counts
    state, action, left = counts.state_of_pair, counts.action_of_pair, counts.actions_seen > 0
    taken = np.zeros_like(problem.target)
    taken[state, action] = counts.times / unit
    probability = np.zeros_like(taken)
    probability[left] = behaviour_probabilities(taken[left], preference[left])
    kappa = concentration(taken[left], probability[left])
    odds = missed_odds(counts.visits[state[rare]] / unit, probability[state[rare], action[rare]], kappa)
    mass = _about_the_targets_distribution(problem)[state[rare]] * problem.probability[rare]
    relative = mass / mass.max() if mass.max() > 0 else np.ones_like(mass)
    for tenths in range(10, -1, -1):
        weight: Floats = odds * relative ** (tenths / 10)
        if effective_sample_size(weight) >= EFFECTIVE_RARE_PAIRS:
            break
    total = float(weight.sum())
    return weight / total if total > 0 else np.full(len(rare), 1 / len(rare))


def _about_the_targets_distribution(problem: FiniteProblem) -> Floats:
    """About where the target spends its time: power steps with its probabilities scaled up over seen actions."""
    counts, gamma = problem.counts, problem.gamma
    probability = problem.probability / np.maximum(problem.seen, LEAST_SEEN)[counts.state_of_pair]
    distribution, back = counts.logged_states, counts.transitions.T.tocsr()
    for _ in range(POWER_STEPS):
        moved = back @ (distribution[counts.state_of_pair] * probability)
        lost = max(0.0, 1 - float(moved.sum()))  # which rounding makes negative where nothing is
        distribution = moved + lost * counts.logged_states
        if gamma < 1:
            distribution = gamma * distribution + (1 - gamma) * counts.initial
    return distribution
