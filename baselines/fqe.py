"""Fitted Q evaluation: learn what each pair is worth under the target, for any policy that can be asked."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.authoring import Problem, RawEstimate
from ope_vpm.ope.estimator import FeatureEstimator, needs_rows
from ope_vpm.ope.finite.estimate import counted_estimate
from ope_vpm.ope.finite.likelihood import likelihood_interval
from ope_vpm.ope.finite.treatments import DEFAULT, treatment
from ope_vpm.ope.inference.uncertainty import Derived, Likelihood
from ope_vpm.ope.q.fitted import Networks, fitted_q
from ope_vpm.ope.q.linear import doubted_lstd
from ope_vpm.ope.vpm.estimator import VPMEstimator


@dataclass(frozen=True, kw_only=True)
class FQE(FeatureEstimator):
    """Solve Q = r + γE_π[Q'] on the log; at γ = 1 the differential form, Q = r - v + E_π[Q']."""

    name: ClassVar[str] = "fqe"
    streams: ClassVar[bool] = True
    counts_parts: ClassVar[bool] = True
    words: ClassVar[dict[str, tuple[str, ...]]] = {
        "solver": ("auto", "tabular", "linear", "neural"),
        "interval": ("bootstrap", "likelihood"),
    }

    solver: str = "auto"
    """"tabular" (finite pairs: the counted equation, solved exactly), "linear" (LSTD-Q in random features),
    "neural" (networks), or "auto": tabular for finite pairs, otherwise neural."""
    unseen: str = DEFAULT
    """What finite pairs that were never seen are replaced by: see `ope_vpm.ope.finite.treatments`."""
    members: int = 2
    """Networks whose answers are averaged."""
    training_steps: int = 2000
    """Gradient steps of each network."""
    weighted: bool = False
    """Weigh the Bellman regression by vpm's ratio, so that Q is best where the target goes; of no effect on finite
    pairs, whose equation is solved exactly."""
    interval: str = "bootstrap"
    """Finite pairs may have "likelihood" instead, as in CoinDICE: see `likelihood`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        treatment(self.unseen)  # refuses what it does not know

    def check(self, problem: Problem) -> None:
        """Refuse a solver that does not fit the data."""
        if problem.streamed and not self._in_parts(problem):
            settings = f"solver={self.solver!r}, weighted={self.weighted}, interval={self.interval!r}"
            raise ValueError(f"fqe with {settings} {needs_rows(problem)}")
        if self.solver == "tabular" and not problem.finite:
            raise ValueError("solver 'tabular' needs finite states and actions: use solver='linear' or 'neural'")

        if self.interval == "likelihood" and (
            not problem.finite or (problem.ends.any() and problem.on_end == "restart")
        ):
            raise ValueError("interval='likelihood' needs finite pairs without restarts: use interval='bootstrap'")

    def _in_parts(self, problem: Problem) -> bool:
        """Whether these settings can do with a log that is read in parts."""
        if problem.finite:
            return self.solver in ("auto", "tabular") and self.interval == "bootstrap"
        return self.solver == "linear" and not self.weighted

    def find(self, problem: Problem) -> RawEstimate:
        """By the solver that fits."""
        solver = self.solver
        if solver == "auto":
            solver = "tabular" if problem.finite else "neural"
        if solver == "tabular":
            found = counted_estimate(problem, self.unseen)  # Q's value is that of the counted model
            if self.interval == "bootstrap" or problem.data.n_episodes < 2:
                return found
            if found.sums is None or found.uncertainty is None:
                return found
            of = Likelihood(episodes=found.sums, ends=likelihood_interval(problem, treatment(self.unseen)))
            return replace(found, uncertainty=Derived(of=of, limits=found.uncertainty.limits))
        weight = vpm_weights(problem, self.n_features) if self.weighted else None
        if solver == "linear":
            return doubted_lstd(problem, self.n_features, self.ridge, self.draws, weight)
        settings = Networks(self.members, self.training_steps, self.n_features, self.ridge, self.draws)
        return fitted_q(problem, settings, weight)


def vpm_weights(problem: Problem, n_features: int | None) -> Floats:
    """The ratio of vpm at each row, cut at 0."""
    options: dict[str, Any] = {"n_features": n_features} if problem.policy.has_log_prob and not problem.finite else {}
    weights = VPMEstimator(**options).find(problem).weights
    return np.ones(len(problem.data)) if weights is None else np.maximum(weights, 0)
