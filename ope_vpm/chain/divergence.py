"""The f-divergences φ that the variational update can be built on (eq:f_divergence).

Every φ gives the same exact power step, τ' = ∂φ*(ν') = 𝒯_p τ / p. They differ in what they do when the step
is not exact: how a network's error is weighed, and where probability mass goes that left the data's support.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
import torch

from ope_vpm.arrays import Floats

Values = TypeVar("Values", Floats, torch.Tensor)


class Divergence(Protocol):
    """A convex φ with its conjugate φ*; numpy arrays and torch tensors alike."""

    name: str

    def phi(self, tau: Values) -> Values:
        """φ(τ)."""

    def conjugate(self, nu: Values) -> Values:
        """φ*(ν) = sup_y νy - φ(y)."""

    def ratio(self, nu: Values) -> Values:
        """∂φ*(ν): the ratio that a dual value stands for."""

    def dual(self, tau: Values) -> Values:
        """φ'(τ): the dual value that stands for a ratio; undoes `ratio`."""

    def penalised(self, target: Floats, slope: float) -> Floats:
        """The τ with τ + slope·∂²φ*(φ'(τ)) = target: the power step under a pull on its mass."""


class Quadratic:
    """φ(τ) = τ²/2, the paper's choice: its own conjugate, and closed forms everywhere."""

    name = "quadratic"

    def phi(self, tau: Values) -> Values:
        """φ(τ) = τ²/2; φ(1) = 1/2, where the paper asks for 0: a constant, so nothing changes."""
        return tau**2 / 2

    def conjugate(self, nu: Values) -> Values:
        """φ*(ν) = ν²/2."""
        return nu**2 / 2

    def ratio(self, nu: Values) -> Values:
        """∂φ*(ν) = ν."""
        return nu

    def dual(self, tau: Values) -> Values:
        """φ'(τ) = τ."""
        return tau

    def penalised(self, target: Floats, slope: float) -> Floats:
        """Lost mass comes back as a constant: it restarts from the data."""
        return target - slope


class KullbackLeibler:
    """φ(τ) = τ log τ - τ + 1: relative errors count, so that large ratios do not rule the fit."""

    name = "kl"

    def phi(self, tau: Values) -> Values:
        """φ(τ) = τ log τ - τ + 1."""
        return tau * _log(tau) - tau + 1

    def conjugate(self, nu: Values) -> Values:
        """φ*(ν) = e^ν - 1."""
        return _exp(nu) - 1

    def ratio(self, nu: Values) -> Values:
        """∂φ*(ν) = e^ν."""
        return _exp(nu)

    def dual(self, tau: Values) -> Values:
        """φ'(τ) = log τ."""
        return _log(tau)

    def penalised(self, target: Floats, slope: float) -> Floats:
        """Lost mass comes back in proportion to τ: it is dropped, and the rest scaled up."""
        return target / (1 + slope)


class PowerThreeHalves:
    """φ(τ) = (4τ^{3/2} - 6τ + 2) / 3: between the other two."""

    name = "power"

    def phi(self, tau: Values) -> Values:
        """φ(τ) = (4τ^{3/2} - 6τ + 2) / 3."""
        return (4 * tau**1.5 - 6 * tau + 2) / 3

    def conjugate(self, nu: Values) -> Values:
        """φ*(ν) = 2((1 + ν/2)³ - 1)/3 for ν ≥ -2."""
        return 2 * ((1 + nu / 2) ** 3 - 1) / 3

    def ratio(self, nu: Values) -> Values:
        """∂φ*(ν) = (1 + ν/2)²."""
        return (1 + nu / 2) ** 2

    def dual(self, tau: Values) -> Values:
        """φ'(τ) = 2√τ - 2."""
        return 2 * tau**0.5 - 2

    def penalised(self, target: Floats, slope: float) -> Floats:
        """Lost mass comes back in proportion to √τ."""
        root = (np.sqrt(slope**2 + 4 * target) - slope) / 2
        squared: Floats = root**2
        return squared


DIVERGENCES: dict[str, Divergence] = {d.name: d for d in (Quadratic(), KullbackLeibler(), PowerThreeHalves())}


def divergence(name: str | Divergence) -> Divergence:
    """Look a divergence up by name; one that is none of ours passes through."""
    if not isinstance(name, str):
        return name
    if name not in DIVERGENCES:
        raise ValueError(f"unknown divergence {name!r}: known are {', '.join(sorted(DIVERGENCES))}")
    return DIVERGENCES[name]


def _log(values: Values) -> Values:
    return values.log() if isinstance(values, torch.Tensor) else np.log(values)


def _exp(values: Values) -> Values:
    return values.exp() if isinstance(values, torch.Tensor) else np.exp(values)
