"""The regularised Lagrangian of policy evaluation (Yang, Nachum, Dai, Li, Schuurmans 2020), quadratic, in closed form.

With ζ = Φz the ratio, ν = Φy the value function and λ the multiplier of E[ζ] = 1,

    L = (1-γ)E₀[ν] + λ(1 - E[ζ]) + E[ζ(α_R·r + γν' - ν)] + α_ν/2·E[ν²] - α_ζ/2·E[ζ²],

least in ν and λ, largest in ζ. Its stationary point is one linear system.

A ratio that must not be negative is ζ = max(Φz, 0). Where it is positive the equations are those above, over these rows
only; so they are solved in turn with finding where that is. Cutting the unconstrained solution at 0 instead would take
mass out of every tail (value off by -0.065 on the linear-Gaussian MDP, against 0.004).
"""

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import ROUNDING, Bools, Floats
from ope_vpm.linear.moments import accumulate
from ope_vpm.ope.linear.equations import PairEquations

MOST_ROUNDS = 20
"""Rounds of finding where a ratio that must not be negative is 0: a bound, for rows that change sides for ever."""
LEAST_SCALE = 1e-4
"""The least weight of a feature's mean square in the penalty: the constant, whose scale is 0, needs a little one, for
the Lagrangian may not depend on the constant of ν."""


@dataclass(frozen=True)
class Regularisation:
    """Which terms of the Lagrangian are there."""

    primal: float
    """α_ν."""
    dual: float
    """α_ζ."""
    reward: bool
    """Whether α_R is 1 or 0."""
    normalised: bool
    """Whether E[ζ] = 1 is asked for."""
    positive: bool
    """Whether ζ is kept from going below 0."""


@dataclass(frozen=True)
class LagrangianMeans:
    """Means over the log, in features φ of pairs; those of ζ over the rows where ζ is not 0."""

    flow: Floats
    """E[φ(φ - γφ')ᵀ], (D, D), over rows where ζ is not 0."""
    gram: Floats
    """E[φφᵀ] over the same rows."""
    whole_gram: Floats
    """E[φφᵀ] over all rows."""
    mean: Floats
    """E[φ], the time after ends included."""
    reward: Floats
    """E[φr], r standardised, so that neither its scale nor its zero matters."""
    initial: Floats
    """(1-γ)E₀[φ]."""
    penalty: Floats
    """A small diagonal, added to both quadratic forms so that features that say nothing have coefficient 0."""


def saddle_point(means: LagrangianMeans, terms: Regularisation) -> tuple[Floats, Floats, float]:
    """The coefficients z of ζ and y of ν, and the multiplier λ, at the stationary point.

    ∂y: (1-γ)E₀φ - flowᵀz + α_ν·gram·y = 0; ∂z: α_R·E[φr] - flow·y - λE[φ] - α_ζ·gram·z = 0; ∂λ: 1 = E[φ]ᵀz.
    """
    size = len(means.mean)
    extra = np.diag(means.penalty)
    system = np.zeros((2 * size + 1, 2 * size + 1))
    right = np.zeros(2 * size + 1)
    z, y = slice(0, size), slice(size, 2 * size)
    system[y, z], system[y, y] = means.flow.T, -(terms.primal * means.whole_gram + extra)
    system[z, z], system[z, y] = terms.dual * means.gram + extra, means.flow
    right[y], right[z] = means.initial, terms.reward * means.reward
    if terms.normalised:
        system[z, -1], system[-1, z], right[-1] = means.mean, means.mean, 1.0
    else:
        system[-1, -1] = 1.0
    answer = np.linalg.solve(system, right).astype(np.float64, copy=False)
    return answer[z], answer[y], float(answer[-1])


def linear_ratio(equations: PairEquations, ridge: float, terms: Regularisation) -> tuple[Floats, float]:
    """The ratio ζ of each row at the saddle point, and the share of rows whose side of 0 is not settled."""
    zeta: Floats = np.ones(len(equations.pairs))
    for _ in range(MOST_ROUNDS):
        active = zeta > 0
        z, _, _ = saddle_point(lagrangian_means(equations, ridge, active), terms)
        ratio, _ = equations.apply(z, z)
        if not terms.positive:
            return ratio, 0.0
        zeta = np.maximum(ratio, 0)
        unsettled = float(np.mean((zeta > 0) != active))
        if unsettled == 0:
            break
    return zeta, unsettled


def lagrangian_means(equations: PairEquations, ridge: float, active: Bools) -> LagrangianMeans:
    """The Lagrangian's means, those of ζ over its `active` rows; one pass over the rows unless all are active."""
    problem, pairs, system = equations.problem, equations.rows, equations.system
    gamma, restart = problem.gamma, problem.on_end == "restart"
    means = equations.means
    if not active.all():
        means = accumulate(pairs.weighted(pairs.by_logged_row(active.astype(np.float64)))).means()
    mean, flow = means.gram[:, 0], means.flow(gamma, restart)
    if not restart:
        mean = mean + gamma / (1 - gamma) * means.ended
    shift, scale = pairs.rewards.mean(), float(pairs.rewards.std())
    if scale <= ROUNDING * problem.data.reward_facts.size:  # equal rewards deviate by rounding errors alone
        scale = 1.0
    return LagrangianMeans(
        flow=flow,
        gram=means.gram,
        whole_gram=equations.means.gram,
        mean=mean,
        reward=(means.reward - shift * means.gram[:, 0]) / scale,
        initial=np.zeros(len(flow)) if gamma == 1 else system.source,
        penalty=ridge * np.maximum(system.scale, LEAST_SCALE),
    )
