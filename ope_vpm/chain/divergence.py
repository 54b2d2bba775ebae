"""The f-divergences φ that the variational update can be built on (eq:f_divergence).

Every φ gives the same exact power step, τ' = ∂φ*(ν') = 𝒯_p τ / p. They differ where the step is not exact: in how a
network's errors are weighted, and in how the probability of next states outside the data's support is redistributed.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.optional import torch

Values = TypeVar("Values", Floats, "torch.Tensor")


class Divergence(Protocol):
    """An f-divergence: a convex function φ with its conjugate φ*, for numpy arrays and torch tensors."""

    name: str

    def phi(self, tau: Values) -> Values:
        """Return φ(τ)."""

    def conjugate(self, nu: Values) -> Values:
        """Return the convex conjugate φ*(ν) = sup_y νy - φ(y)."""

    def ratio(self, nu: Values) -> Values:
        """Return the ratio τ = ∂φ*(ν) that belongs to a dual value ν."""

    def dual(self, tau: Values) -> Values:
        """Return the dual value ν = φ'(τ) that belongs to a ratio τ: the inverse of `ratio`."""

    def penalised(self, target: Floats, slope: float) -> Floats:
        """Return the τ with τ + slope·∂²φ*(φ'(τ)) = target: the power step under the penalty on E_p[τ] - 1."""


class Quadratic:
    """φ(τ) = τ²/2, the paper's choice: it is its own conjugate, and everything has a closed form."""

    name = "quadratic"

    def phi(self, tau: Values) -> Values:
        """Return φ(τ) = τ²/2. The paper asks for φ(1) = 0; here it is 1/2, a constant that changes nothing."""
        return tau**2 / 2

    def conjugate(self, nu: Values) -> Values:
        """Return φ*(ν) = ν²/2."""
        return nu**2 / 2

    def ratio(self, nu: Values) -> Values:
        """Return ∂φ*(ν) = ν."""
        return nu

    def dual(self, tau: Values) -> Values:
        """Return φ'(τ) = τ."""
        return tau

    def penalised(self, target: Floats, slope: float) -> Floats:
        """Return target - slope: lost probability is added back to τ as a constant, so it restarts from the data."""
        return target - slope


class KullbackLeibler:
    """φ(τ) = τ log τ - τ + 1: relative errors count, so that large ratios do not dominate the fit."""

    name = "kl"

    def phi(self, tau: Values) -> Values:
        """Return φ(τ) = τ log τ - τ + 1."""
        return tau * _log(tau) - tau + 1

    def conjugate(self, nu: Values) -> Values:
        """Return φ*(ν) = e^ν - 1."""
        return _exp(nu) - 1

    def ratio(self, nu: Values) -> Values:
        """Return ∂φ*(ν) = e^ν."""
        return _exp(nu)

    def dual(self, tau: Values) -> Values:
        """Return φ'(τ) = log τ."""
        return _log(tau)

    def penalised(self, target: Floats, slope: float) -> Floats:
        """Return target / (1 + slope): lost probability is dropped, and the rest scaled up."""
        return target / (1 + slope)


class PowerThreeHalves:
    """φ(τ) = (4τ^{3/2} - 6τ + 2) / 3: large ratios count more than with "kl" and less than with "quadratic"."""

    name = "power"

    def phi(self, tau: Values) -> Values:
        """Return φ(τ) = (4τ^{3/2} - 6τ + 2) / 3."""
        return (4 * tau**1.5 - 6 * tau + 2) / 3

    def conjugate(self, nu: Values) -> Values:
        """Return φ*(ν) = 2((1 + ν/2)³ - 1)/3, valid for ν ≥ -2."""
        return 2 * ((1 + nu / 2) ** 3 - 1) / 3

    def ratio(self, nu: Values) -> Values:
        """Return ∂φ*(ν) = (1 + ν/2)²."""
        return (1 + nu / 2) ** 2

    def dual(self, tau: Values) -> Values:
        """Return φ'(τ) = 2√τ - 2."""
        return 2 * tau**0.5 - 2

    def penalised(self, target: Floats, slope: float) -> Floats:
        """Return the root of τ + slope·√τ = target: lost probability is added back in proportion to √τ."""
        root = (np.sqrt(slope**2 + 4 * target) - slope) / 2
        return root**2


DIVERGENCES: dict[str, Divergence] = {d.name: d for d in (Quadratic(), KullbackLeibler(), PowerThreeHalves())}
"""The built-in divergences by name; note 003 compares them."""


def divergence(name: str | Divergence) -> Divergence:
    """Return the divergence of that name; a divergence object is returned as it is."""
    if not isinstance(name, str):
        return name
    if name not in DIVERGENCES:
        raise ValueError(f"unknown divergence {name!r}: known are {', '.join(sorted(DIVERGENCES))}")
    return DIVERGENCES[name]


def _log(values: Values) -> Values:
    return np.log(values) if isinstance(values, np.ndarray) else values.log()


def _exp(values: Values) -> Values:
    return np.exp(values) if isinstance(values, np.ndarray) else values.exp()
