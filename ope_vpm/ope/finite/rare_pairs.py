"""Which rarely seen pairs stand for those never seen, and for how many of them.

Good and Turing: what was seen once is most like what was not seen. A pair seen j times of the N that its state was
left stands for unseen ones by the odds of having been missed, P₀/(P₁ + P₂ + P₃), under a model of the behaviour that is
fitted to the same counts: p(a|s) ∝ exp(θ_a + β·ℓ(s, a)), ℓ the target's log-probability centred in each state, with
Dirichlet-multinomial counts around it.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, gammaln

from ope_vpm.arrays import Floats

LEAST_PROBABILITY = 1e-6
"""Below it the target's probabilities count as this."""
RARE = 3
"""A pair seen at most so often is rare."""
NEWTON_STEPS = 50
HOLD = 1e-6
"""A pull towards 0 on the behaviour's coefficients: actions that were never taken would run away."""


def centred_log(target: Floats) -> Floats:
    """ℓ(s, a) = log π(a|s) less its mean over the actions."""
    log = np.log(np.maximum(target, LEAST_PROBABILITY))
    return cast(Floats, log - log.mean(axis=1, keepdims=True))


def behaviour(counts: Floats, liking: Floats) -> Floats:
    """(states, actions): the logit p(a|s) ∝ exp(θ_a + β·liking) of greatest likelihood, by Newton's method.

    Args:
        counts: how often each action was taken in each state.
        liking: ℓ.
    """
    actions, total = counts.shape[1], counts.sum(axis=1, keepdims=True)
    theta, beta = np.zeros(actions), 0.0
    chance = _softmax(theta + beta * liking)
    for _ in range(NEWTON_STEPS):
        rest, mass = counts - total * chance, total * chance
        centred = liking - (chance * liking).sum(axis=1, keepdims=True)
        slope = np.append(rest.sum(axis=0), (rest * liking).sum())
        curvature = np.empty((actions + 1, actions + 1))
        curvature[:actions, :actions] = np.diag(mass.sum(axis=0)) - mass.T @ chance
        curvature[:actions, -1] = curvature[-1, :actions] = (mass * centred).sum(axis=0)
        curvature[-1, -1] = (mass * centred**2).sum()
        hold = HOLD * max(float(total.sum()), 1.0)
        step = np.linalg.solve(curvature + hold * np.eye(actions + 1), slope - hold * np.append(theta, beta))
        theta, beta = theta + step[:-1], beta + float(step[-1])
        chance = _softmax(theta + beta * liking)
        if np.abs(step).max() < 1e-9:
            break
    return chance


def concentration(counts: Floats, chance: Floats) -> float:
    """κ of the Dirichlet law around `chance` under which the counts are likeliest; between e⁻³ and e¹²."""
    total = counts.sum(axis=1)
    taken = counts > 0
    times, expected = counts[taken], chance[taken]

    def surprise(log_kappa: float) -> float:
        kappa = np.exp(log_kappa)
        of_states = gammaln(kappa) - gammaln(total + kappa)
        return -float(of_states.sum() + (gammaln(times + kappa * expected) - gammaln(kappa * expected)).sum())

    return float(np.exp(minimize_scalar(surprise, bounds=(-3, 12), method="bounded", options={"xatol": 0.01}).x))


def missed_odds(total: Floats, chance: Floats, kappa: float) -> Floats:
    """P₀/(P₁ + … + P_RARE): beta-binomial chances of having been seen so many times out of `total`."""
    yes, no = kappa * chance, kappa * (1 - chance)

    def seen(times: int) -> Floats:
        left = np.maximum(total - times, 0)
        ways = gammaln(total + 1) - gammaln(times + 1) - gammaln(left + 1)
        return np.where(total >= times, np.exp(ways + betaln(times + yes, left + no) - betaln(yes, no)), 0.0)

    rarely = sum((seen(times) for times in range(1, RARE + 1)), np.zeros_like(total))
    return seen(0) / rarely


def _softmax(scores: Floats) -> Floats:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return cast(Floats, powers / powers.sum(axis=1, keepdims=True))
