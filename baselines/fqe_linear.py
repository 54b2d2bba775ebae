"""FQE in closed form (LSTD-Q): Q linear in features of the state and in centred functions of the action.

Φ(s, a) = [V(s), u(s, a)⊗(1, s)] with E_π[u(s, ·)] = 0, so that the next pair's features are [V(s'), 0] without
drawing an action. One pass over the rows gives A = Φᵀ(Φ - γΦ')/n and b = Φᵀr/n; θ = (A + λΛ)⁻¹b is Q, and the
transposed system gives the weights τ = Φβ under which the value is a weighted mean of the rewards. At γ = 1 the
constant's coefficient is the average reward and the others the differential Q: see `ope_vpm.ope.factored`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ope_vpm.baselines.action_features import centred_features
from ope_vpm.logged.columns import Floats
from ope_vpm.ope.conclude import Found
from ope_vpm.ope.factored import Rows, find_linear
from ope_vpm.ope.features import StateFeatures
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, eq=False)
class CentredRows(Rows):
    """Rows with features of the pair; `ratio` weighs the Bellman regression, 1 for the plain one."""

    centred: Floats
    """u at each of the data's rows, (n, k)."""

    @property
    def size(self) -> int:
        """State features, then each u times the constant and the linear ones."""
        return self.features.size + int(self.centred.shape[1]) * (1 + self.features.linear)

    @property
    def initial(self) -> Floats:
        """[V(s₀), 0]."""
        return self._padded(self.first_states)

    def parts(self) -> Iterator[tuple[slice, Floats, Floats]]:
        """Rows, Φ and Δ, some at a time."""
        for part, here, difference in super().parts():
            state = here[:, : 1 + self.features.linear]
            action = np.einsum("nk,nj->nkj", self.centred[self.kept[part]], state).reshape(len(here), -1)
            yield part, np.hstack([here, action]), np.hstack([difference, action])

    def _padded(self, of_state: Floats) -> Floats:
        return np.hstack([of_state, np.zeros((len(of_state), self.size - of_state.shape[1]))])


def centred_rows(problem: Problem, n_features: int, draws: int, weight: Floats | None = None) -> CentredRows:
    """Draw the features; `weight` of each row in the regression, where it is not 1."""
    counts = np.ones(len(problem.data)) if weight is None else weight
    return CentredRows(problem, StateFeatures.draw(problem, n_features), counts, centred_features(problem, draws))


def find_lstd(problem: Problem, n_features: int, ridge: float | None, draws: int, weight: Floats | None) -> Found:
    """LSTD-Q, the ridge chosen from the data alone unless it is given."""
    return find_linear("linear", centred_rows(problem, n_features, draws, weight), ridge, False, None, {})
