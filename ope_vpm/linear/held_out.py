"""The paper's own objective on rows that were held out: which features and which ridge come nearest to a power step?

All candidates are asked for the same power step, from one reference ratio τ_t. The value of eq:variational_ratio_power
on held-out rows then says which of them is nearest to 𝒯_p τ_t / p in L₂(p).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ope_vpm.arrays import Bools, Floats, Integers
from ope_vpm.linear.moments import accumulate_folds, all_but_each
from ope_vpm.linear.nonnegative import FeatureRows
from ope_vpm.linear.system import gram_penalty, solve_gram


@dataclass(frozen=True)
class PowerStep:
    """One power step that every candidate is asked for, on some rows, in one feature map."""

    rows: FeatureRows
    reference: Floats
    """τ_t of each row."""
    gamma: float
    initial: Floats
    """E₀[φ]."""
    initial_rows: Floats | None
    """φ of each initial state; None at γ = 1, which needs none."""
    initial_weight: Floats

    def held_out_objectives(self, fold: Integers, ridges: Sequence[float]) -> Floats:
        """½E[τ²] - γE[τ_t(x)τ(x')] - (1-γ)E₀[τ] on each fold, τ fitted on the others: shape (folds, ridges)."""
        count = int(fold.max()) + 1
        others = all_but_each(accumulate_folds(self.rows, fold, count))
        pull = (self.rows.weight * self.reference).astype(np.float32)
        pulls = [(pull[fold == k] @ self.rows.there[fold == k]).astype(np.float64) for k in range(count)]
        scores = np.zeros((count, len(ridges)))
        for k, moments in enumerate(others):
            gram = moments.gram / moments.weight
            goal = self.gamma * (sum(pulls) - pulls[k]) / moments.weight + (1 - self.gamma) * self.initial
            for i, ridge in enumerate(ridges):
                beta = solve_gram(gram, gram_penalty(gram, ridge), goal)
                scores[k, i] = self.objective(fold == k, beta)
        return scores

    def objective(self, chosen: Bools, beta: Floats) -> float:
        """The objective of τ = max(βᵀφ, 0) on the chosen rows.

        Where there is no x to hold τ down, τ(x') is kept to the largest τ(x): it could grow without bound.
        """
        rows, single = self.rows, beta.astype(np.float32)
        weight = rows.weight[chosen]
        tau = np.maximum(rows.here[chosen] @ single, 0)
        tau_next = np.clip(rows.there[chosen] @ single, 0, tau.max())
        flow = self.gamma * np.mean(weight * self.reference[chosen] * tau_next)
        if self.initial_rows is not None:
            tau_initial = np.clip(self.initial_rows @ beta, 0, tau.max())
            flow += (1 - self.gamma) * np.average(tau_initial, weights=self.initial_weight)
        return float(np.mean(weight * tau**2) / 2 - flow)
