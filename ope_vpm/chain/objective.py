"""The paper's equations, one pure function each; the second line of a docstring names the equation's label.

Names are the paper's: `tau` is the ratio τ, `nu` its dual ν, `tau_ref` the ratio τ_t of the last power step, `v`
the scalar dual, `lam` the penalty λ, `alpha` the damping α_{t+1}. An argument without suffix holds values at
the rows' x, `_next` at their x' (averaged over successors where a row has several), `_initial` at initial
states. `weight` counts rows, with mean 1. Numpy arrays and torch tensors work alike.
"""

from __future__ import annotations

from typing import Any, cast

from scipy.optimize import brentq

from ope_vpm.arrays import Floats
from ope_vpm.chain.divergence import Divergence, Quadratic, Values

QUADRATIC = Quadratic()


def expectation(values: Values, weight: Values | None = None) -> Values:
    """The sample's E_p[values]; weights have mean 1."""
    mean: Values = (values if weight is None else weight * values).mean(0)
    return mean


# -- The update as an optimisation problem over sampled transitions


def f_divergence(nu_p: Values, nu_q: Values, phi: Divergence) -> Values:
    """E_p[φ*(ν)] - E_q[ν], whose minimum over ν is -D_φ(p‖q), at ∂φ*(ν) = q/p.

    eq:f_divergence
    """
    return expectation(phi.conjugate(nu_p)) - expectation(nu_q)


def general_ratio_power(nu: Values, nu_next: Values, nu_ref: Values, phi: Divergence) -> Values:
    """E_p[φ*(ν)] - E_{𝒯_p}[∂φ*(ν_t(x)) ν(x')].

    eq:general_ratio_power
    """
    return general_ratio_power_inductive(nu, nu_next, phi.ratio(nu_ref), phi)


def general_ratio_power_inductive(
    nu: Values, nu_next: Values, tau_ref: Values, phi: Divergence, weight: Values | None = None
) -> Values:
    """E_p[φ*(ν)] - E_{𝒯_p τ_t}[ν(x')].

    eq:general_ratio_power_inductive
    """
    return expectation(phi.conjugate(nu), weight) - expectation(tau_ref * nu_next, weight)


def variational_ratio_power(tau: Values, tau_next: Values, tau_ref: Values) -> Values:
    """½E_p[τ²] - E_{𝒯_p}[τ_t(x) τ(x')]: the general update with φ* = x²/2.

    eq:variational_ratio_power
    """
    return general_ratio_power_inductive(tau, tau_next, tau_ref, QUADRATIC)


def regularized_ratio(tau: Values, tau_next: Values, tau_ref: Values, lam: float) -> Values:
    """The update with λ(E_p[τ] - 1)² that keeps its mass at 1.

    eq:regularized_ratio
    """
    return variational_ratio_power(tau, tau_next, tau_ref) + lam * (expectation(tau) - 1) ** 2


def saddle_penalty(tau: Values, v: Values, lam: float, weight: Values | None = None) -> Values:
    """λ[2v(E_p[τ] - 1) - v²], whose maximum over v is λ(E_p[τ] - 1)²: one sample suffices.

    eq:saddle_ratio, last term
    """
    return lam * (2 * v * (expectation(tau, weight) - 1) - v**2)


def saddle_ratio(tau: Values, tau_next: Values, tau_ref: Values, v: Values, lam: float) -> Values:
    """The regularised update as min over τ, max over the scalar v.

    eq:saddle_ratio
    """
    return variational_ratio_power(tau, tau_next, tau_ref) + saddle_penalty(tau, v, lam)


def damped_saddle_ratio(tau: Values, tau_next: Values, tau_ref: Values, v: Values, lam: float, alpha: float) -> Values:
    """The saddle with a step of size α from τ_t towards 𝒯_p τ_t / p.

    eq:damped_saddle_ratio
    """
    stay = (1 - alpha) * expectation(tau_ref * tau)
    move = alpha * expectation(tau_ref * tau_next)
    return expectation(tau**2) / 2 - stay - move + saddle_penalty(tau, v, lam)


def tau_v_gradients(tau: Values, tau_ref: Values, v: Values, lam: float, alpha: float) -> tuple[Values, Values, Values]:
    """The damped saddle's gradients in τ(x_i), τ(x'_i) and v; the chain rule takes the first two to θ.

    eq:tau_v_gradients
    """
    n = len(tau)
    at_x = (tau - (1 - alpha) * tau_ref + 2 * lam * v) / n
    at_next = -alpha * tau_ref / n
    return at_x, at_next, 2 * lam * (expectation(tau) - 1 - v)


def discounted_variational_ratio_power(
    tau: Values, tau_next: Values, tau_initial: Values, tau_ref: Values, gamma: float, lam: float
) -> Values:
    """The regularised update for γ < 1: the chain restarts from μ₀π with probability 1-γ.

    eq:discounted_variational_ratio_power (where the paper writes E_{μ₀p}, μ₀π is meant: compare
    eq:discounted_power)
    """
    penalty = lam * (expectation(tau) - 1) ** 2
    flow = gamma * expectation(tau_ref * tau_next) + (1 - gamma) * expectation(tau_initial)
    return expectation(tau**2) / 2 - flow + penalty


def damped_discounted_loss(
    nu: Values,
    nu_next: Values,
    nu_initial: Values | None,
    tau_ref: Values,
    phi: Divergence,
    alpha: float,
    gamma: float,
    weight: Values | None = None,
) -> Values:
    """Any φ, any damping, any γ: what the neural solver minimises beside `saddle_penalty`.

    eq:general_ratio_power_inductive with the mixtures of eq:damped_saddle_ratio and eq:discounted_power
    """
    flow = gamma * expectation(tau_ref * nu_next, weight)
    if nu_initial is not None:
        flow = flow + (1 - gamma) * expectation(nu_initial)
    stay = (1 - alpha) * expectation(tau_ref * nu, weight)
    return expectation(phi.conjugate(nu), weight) - stay - alpha * flow


# -- The update over finite states, where it has a closed form: the steps that `solvers.tabular` takes. `kernel` is
# whatever `mu @ kernel` is one step of the chain for: a matrix with kernel[i, j] = 𝒯(j|i), dense or sparse, or a
# `FiniteChain`.


def power_iteration(mu: Floats, kernel: Any) -> Floats:
    """μ_{t+1} = 𝒯 μ_t.

    eq:power_iteration
    """
    return cast(Floats, mu @ kernel)


def power_ratio(tau: Floats, p: Floats, kernel: Any) -> Floats:
    """τ_{t+1} = 𝒯_p τ_t / p.

    eq:power_ratio
    """
    return power_iteration(p * tau, kernel) / p


def discounted_power(tau: Floats, p: Floats, kernel: Any, initial: Floats, gamma: float) -> Floats:
    """τ_{t+1} = [(1-γ) μ₀π + γ 𝒯_p τ_t] / p.

    eq:discounted_power
    """
    return (1 - gamma) * initial / p + gamma * power_ratio(tau, p, kernel)


def damped_power_ratio(tau: Floats, update: Floats, alpha: float) -> Floats:
    """τ_{t+1} = (1-α) τ_t + α·update, where the undamped update is 𝒯_p τ_t / p.

    eq:damped_power_ratio. The update may also be that of eq:discounted_power, or either of them corrected by
    `regularized_minimiser`.
    """
    return (1 - alpha) * tau + alpha * update


def regularized_minimiser(target: Floats, p: Floats, lam: float, phi: Divergence = QUADRATIC) -> Floats:
    """The τ that minimises the regularised update exactly, `target` being 𝒯_p τ_t / p.

    eq:regularized_ratio, closed form (any φ); λ = ∞ gives eq:constrained_ratio. With c = 2λ(E_p[τ] - 1),
    stationarity reads τ + c·∂²φ*(φ'(τ)) = target, and c is found from its own definition. Where no mass is
    lost c = 0 and the answer is `target` itself, for any λ (thm:consistency).
    """
    gap = float(p @ target) - 1
    if abs(gap) < 1e-15 or lam == 0:
        return target
    if phi.name == "quadratic":
        return phi.penalised(target, gap / (1 + 1 / (2 * lam)))

    def excess(slope: float) -> float:
        return float(p @ phi.penalised(target, slope)) - 1 - slope / (2 * lam)

    low, high = (-1 + 1e-12, 0.0) if gap < 0 else (0.0, 1.0)
    while excess(high) > 0:
        high *= 2
    while excess(low) < 0:
        low *= 2
    return phi.penalised(target, float(brentq(excess, low, high, xtol=1e-15)))
