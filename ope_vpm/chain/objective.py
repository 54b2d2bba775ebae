"""The paper's equations, one pure function each; the second line of a docstring names the equation's label.

Names are the paper's: `tau` is the ratio τ, `nu` its dual ν, `tau_ref` the ratio τ_t of the last power step, `v`
the scalar dual variable, `lam` the penalty's coefficient λ, `alpha` the damping α_{t+1}, `phi` the function φ of an
f-divergence. An argument without suffix holds a function's values at the rows' x, one ending in `_next` at their x'
(averaged over successors where a row has several), one ending in `_initial` at initial states. Numpy arrays and
torch tensors work alike.
"""

from typing import Any

from ope_vpm.arrays import Floats
from ope_vpm.chain.divergence import Divergence, Quadratic, Values

QUADRATIC = Quadratic()
"""φ(τ) = τ²/2, the paper's choice wherever an equation does not name a divergence."""


def expectation(values: Values) -> Values:
    """Return the sample mean of values, one per row: an estimate of their expectation E_p[values]."""
    return values.mean(0)


# -- The update as an optimisation problem over sampled transitions


def f_divergence(nu_p: Values, nu_q: Values, phi: Divergence) -> Values:
    """Return E_p[φ*(ν)] - E_q[ν], whose minimum over ν is -D_φ(p‖q), at ∂φ*(ν) = q/p.

    eq:f_divergence
    """
    return expectation(phi.conjugate(nu_p)) - expectation(nu_q)


def general_ratio_power(nu: Values, nu_next: Values, nu_ref: Values, phi: Divergence) -> Values:
    """Return the update's objective in terms of duals, E_p[φ*(ν)] - E_{𝒯_p}[∂φ*(ν_t(x)) ν(x')].

    eq:general_ratio_power
    """
    return general_ratio_power_inductive(nu, nu_next, phi.ratio(nu_ref), phi)


def general_ratio_power_inductive(nu: Values, nu_next: Values, tau_ref: Values, phi: Divergence) -> Values:
    """Return the update's objective with the last ratio τ_t given, E_p[φ*(ν)] - E_{𝒯_p τ_t}[ν(x')].

    eq:general_ratio_power_inductive
    """
    return expectation(phi.conjugate(nu)) - expectation(tau_ref * nu_next)


def variational_ratio_power(tau: Values, tau_next: Values, tau_ref: Values) -> Values:
    """Return the objective of the quadratic divergence, ½E_p[τ²] - E_{𝒯_p}[τ_t(x) τ(x')], where φ*(ν) = ν²/2.

    eq:variational_ratio_power
    """
    return general_ratio_power_inductive(tau, tau_next, tau_ref, QUADRATIC)


def regularized_ratio(tau: Values, tau_next: Values, tau_ref: Values, lam: float) -> Values:
    """Return the quadratic objective plus the penalty λ(E_p[τ] - 1)², which keeps E_p[τ] at 1.

    eq:regularized_ratio
    """
    return variational_ratio_power(tau, tau_next, tau_ref) + lam * (expectation(tau) - 1) ** 2


def saddle_penalty(tau: Values, v: Values, lam: float) -> Values:
    """Return λ[2v(E_p[τ] - 1) - v²], whose maximum over v is the penalty λ(E_p[τ] - 1)².

    eq:saddle_ratio, last term. It is linear in E_p[τ], so that one sample gives an unbiased gradient; the squared
    expectation would need two.
    """
    return lam * (2 * v * (expectation(tau) - 1) - v**2)


def saddle_ratio(tau: Values, tau_next: Values, tau_ref: Values, v: Values, lam: float) -> Values:
    """Return the regularised objective as a saddle-point problem: minimised over τ, maximised over the scalar v.

    eq:saddle_ratio
    """
    return variational_ratio_power(tau, tau_next, tau_ref) + saddle_penalty(tau, v, lam)


def damped_saddle_ratio(tau: Values, tau_next: Values, tau_ref: Values, v: Values, lam: float, alpha: float) -> Values:
    """Return the saddle-point objective of a damped power step: of size α from τ_t towards 𝒯_p τ_t / p.

    eq:damped_saddle_ratio
    """
    stay = (1 - alpha) * expectation(tau_ref * tau)
    move = alpha * expectation(tau_ref * tau_next)
    return expectation(tau**2) / 2 - stay - move + saddle_penalty(tau, v, lam)


def tau_v_gradients(tau: Values, tau_ref: Values, v: Values, lam: float, alpha: float) -> tuple[Values, Values, Values]:
    """Return the gradients of the damped saddle-point objective with respect to τ(x_i), τ(x'_i) and v.

    The chain rule turns the first two into gradients with respect to the parameters θ of τ.

    eq:tau_v_gradients
    """
    n = len(tau)
    at_x = (tau - (1 - alpha) * tau_ref + 2 * lam * v) / n
    at_next = -alpha * tau_ref / n
    return at_x, at_next, 2 * lam * (expectation(tau) - 1 - v)


def discounted_variational_ratio_power(
    tau: Values, tau_next: Values, tau_initial: Values, tau_ref: Values, gamma: float, lam: float
) -> Values:
    """Return the regularised objective for γ < 1, where the chain restarts from μ₀π with probability 1-γ.

    eq:discounted_variational_ratio_power. Where the paper writes E_{μ₀p}, μ₀π is meant: compare eq:discounted_power.
    """
    penalty = lam * (expectation(tau) - 1) ** 2
    flow = gamma * expectation(tau_ref * tau_next) + (1 - gamma) * expectation(tau_initial)
    return expectation(tau**2) / 2 - flow + penalty


def damped_discounted_loss(
    nu: Values, nu_next: Values, nu_initial: Values | None, tau_ref: Values, phi: Divergence, alpha: float, gamma: float
) -> Values:
    """Return the objective for any φ, damping and γ; the neural solver minimises it together with `saddle_penalty`.

    eq:general_ratio_power_inductive, with the mixtures of eq:damped_saddle_ratio and eq:discounted_power
    """
    flow = gamma * expectation(tau_ref * nu_next)
    if nu_initial is not None:
        flow = flow + (1 - gamma) * expectation(nu_initial)
    stay = (1 - alpha) * expectation(tau_ref * nu)
    return expectation(phi.conjugate(nu)) - stay - alpha * flow


# -- The update over finite states, where it has a closed form: the steps that `solvers.tabular` takes. `kernel` is
# whatever `mu @ kernel` is one step of the chain for: a matrix with kernel[i, j] = 𝒯(j|i), dense or sparse, or a
# `FiniteChain`.


def power_iteration(mu: Floats, kernel: Any) -> Floats:
    """Return one step of the power iteration, μ_{t+1} = 𝒯 μ_t.

    eq:power_iteration
    """
    return mu @ kernel


def power_ratio(tau: Floats, p: Floats, kernel: Any) -> Floats:
    """Return one power step on the ratio, τ_{t+1} = 𝒯_p τ_t / p.

    eq:power_ratio
    """
    return power_iteration(p * tau, kernel) / p


def discounted_power(tau: Floats, p: Floats, kernel: Any, initial: Floats, gamma: float) -> Floats:
    """Return one discounted power step on the ratio, τ_{t+1} = [(1-γ) μ₀π + γ 𝒯_p τ_t] / p.

    eq:discounted_power
    """
    return (1 - gamma) * initial / p + gamma * power_ratio(tau, p, kernel)


def damped_power_ratio(tau: Floats, update: Floats, alpha: float) -> Floats:
    """Return a damped power step, τ_{t+1} = (1-α) τ_t + α·update, where the undamped update is 𝒯_p τ_t / p.

    eq:damped_power_ratio. The update may also be that of eq:discounted_power, or either of them corrected by
    `regularized_minimiser`.
    """
    return (1 - alpha) * tau + alpha * update


def regularized_minimiser(target: Floats, p: Floats, lam: float, phi: Divergence = QUADRATIC) -> Floats:
    """Return the τ that minimises the regularised objective exactly, where `target` is the power step 𝒯_p τ_t / p.

    eq:regularized_ratio in closed form, for any φ; λ = ∞ gives eq:constrained_ratio. The gradient vanishes where
    τ + c·∂²φ*(φ'(τ)) = target with c = 2λ(E_p[τ] - 1), and c is the root of that definition. Where E_p[target] = 1,
    c = 0 and the minimiser is `target` itself, for any λ (thm:consistency).

    Args:
        target: the power step's ratio at each state.
        p: the probability of each state in the data.
        lam: λ, the penalty's coefficient.
        phi: the f-divergence.
    """
    gap = float(p @ target) - 1
    if abs(gap) < 1e-15 or lam == 0:  # rounding errors of a sum that is 1
        return target
    if phi.name == "quadratic":
        return phi.penalised(target, gap / (1 + 1 / (2 * lam)))

    def excess(slope: float) -> float:
        return float(p @ phi.penalised(target, slope)) - 1 - slope / (2 * lam)

    # the root has the sign of the gap; KL's penalised ratio target / (1 + c) has a pole at c = -1
    low, high = (-1 + 1e-12, 0.0) if gap < 0 else (0.0, 1.0)
    while excess(high) > 0:
        high *= 2
    while excess(low) < 0:
        low *= 2
    from scipy.optimize import brentq  # imported here: it takes long, and few need it

    return phi.penalised(target, float(brentq(excess, low, high, xtol=1e-15)))
