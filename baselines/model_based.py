"""Model-based evaluation: learn the transitions and rewards, then ask the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ope_vpm.baselines.model_neural import find_neural
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.finite.model import find_tabular
from ope_vpm.ope.inference.estimate import RawEstimate
from ope_vpm.ope.problem import Problem


@dataclass(frozen=True, kw_only=True)
class ModelBased(ProblemEstimator):
    """Finite pairs: counts, solved exactly. Points: an ensemble of networks, rolled out."""

    name: ClassVar[str] = "model"

    method: str = "auto"
    """"auto"; "simulate" on finite pairs for the paper's rollout of the counted model instead of the solve."""
    members: int = 5
    """Networks, each trained on its own draw of the episodes."""
    training_steps: int = 1000
    """Of each network. Paper: 2000, at a constant learning rate of 5e-4; ours is 2e-3, falling to 0."""
    rollouts: int = 500
    """Of each network. On finite pairs, with "simulate": 1, as in the paper."""
    horizon: int | None = None
    """Steps of a rollout; None: as γ and the logged lengths ask. Paper's simulation: 200."""

    def __post_init__(self) -> None:
        if self.method not in ("auto", "simulate"):
            raise ValueError(f"method must be 'auto' or 'simulate': got {self.method!r}")
        for name in ("members", "training_steps", "rollouts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1: got {getattr(self, name)}")
        if self.members < 2:
            raise ValueError("members must be at least 2: their spread is the standard error")
        if self.horizon is not None and self.horizon < 1:
            raise ValueError(f"horizon must be at least 1: got {self.horizon}")

    def check(self, problem: Problem) -> None:
        """Simulation of counts needs finite pairs."""
        if self.method == "simulate" and not problem.finite:
            raise ValueError("method='simulate' rolls out counts of finite pairs: use method='auto' for points")

    def find(self, problem: Problem) -> RawEstimate:
        """By the kind of data."""
        if problem.finite:
            return find_tabular(problem, self.horizon or 200 if self.method == "simulate" else None)
        return find_neural(
            problem,
            members=self.members,
            training_steps=self.training_steps,
            rollouts=self.rollouts,
            horizon=self.horizon,
        )
