"""The regularised Lagrangian of policy evaluation (Yang, Nachum, Dai, Li, Schuurmans 2020), quadratic, in closed form.

With ζ = Φz the ratio, ν = Φy the value function and λ the multiplier of E[ζ] = 1,

    L = (1-γ)E₀[ν] + λ(1 - E[ζ]) + E[ζ(α_R·r + γν' - ν)] + α_ν/2·E[ν²] - α_ζ/2·E[ζ²],

least in ν and λ, largest in ζ. Its stationary point is one linear system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Floats


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


SETTINGS = {
    "dualdice": Regularisation(primal=0, dual=1, reward=False, normalised=False, positive=False),
    "gendice": Regularisation(primal=1, dual=0, reward=False, normalised=True, positive=True),
    "gradientdice": Regularisation(primal=1, dual=0, reward=False, normalised=True, positive=False),
    "bestdice": Regularisation(primal=0, dual=1, reward=True, normalised=True, positive=True),
}
"""As the authors list them: DualDICE (Nachum et al. 2019), GenDICE (Zhang, Dai et al. 2020), GradientDICE (Zhang,
Liu, Whiteson 2020: GenDICE without the sign), and the combination that they found best."""


@dataclass(frozen=True)
class Moments:
    """Means over the log, in features φ of pairs; those of ζ over the rows where ζ is not 0."""

    flow: Floats
    """E[φ(φ - γφ')ᵀ], (D, D), over rows where ζ is not 0."""
    gram: Floats
    """E[φφᵀ] over the same rows."""
    whole_gram: Floats
    """E[φφᵀ] over all rows."""
    mean: Floats
    """E[φ], ended episodes' time in the end included."""
    reward: Floats
    """E[φr], r in units that make its scale and zero not matter."""
    initial: Floats
    """(1-γ)E₀[φ]."""
    penalty: Floats
    """A small diagonal, added to both quadratic forms so that features that say nothing have coefficient 0."""


def saddle_point(moments: Moments, terms: Regularisation) -> tuple[Floats, Floats, float]:
    """z, y and λ at the stationary point.

    ∂y: (1-γ)E₀φ - flowᵀz + α_ν·gram·y = 0; ∂z: α_R·E[φr] - flow·y - λE[φ] - α_ζ·gram·z = 0; ∂λ: 1 = E[φ]ᵀz.
    """
    size = len(moments.mean)
    extra = np.diag(moments.penalty)
    system = np.zeros((2 * size + 1, 2 * size + 1))
    right = np.zeros(2 * size + 1)
    z, y = slice(0, size), slice(size, 2 * size)
    system[y, z], system[y, y] = moments.flow.T, -(terms.primal * moments.whole_gram + extra)
    system[z, z], system[z, y] = terms.dual * moments.gram + extra, moments.flow
    right[y], right[z] = moments.initial, terms.reward * moments.reward
    if terms.normalised:
        system[z, -1], system[-1, z], right[-1] = moments.mean, moments.mean, 1.0
    else:
        system[-1, -1] = 1.0
    answer = np.linalg.solve(system, right).astype(np.float64, copy=False)
    return answer[z], answer[y], float(answer[-1])
