"""What an estimator is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, runtime_checkable

from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.estimate import RawEstimate, policy_value
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.problem import Problem


@runtime_checkable
class Estimator(Protocol):
    """Anything with a name that turns a log and a policy into a value."""

    name: ClassVar[str]

    def estimate(
        self, data: LoggedDataset, policy: Any, *, gamma: float = 1.0, seed: int = 0, **choices: Any
    ) -> PolicyValue:
        """Say what the policy is worth; `choices` are on_end, time_limit and ignore, see `Problem.pose`."""


class ProblemEstimator(ABC):
    """Our own estimators: they work on a `Problem`, so that several of them share its parts.

    Subclasses are frozen dataclasses with keyword-only settings.
    """

    name: ClassVar[str]

    def estimate(
        self, data: LoggedDataset, policy: Any, *, gamma: float = 1.0, seed: int = 0, **choices: Any
    ) -> PolicyValue:
        """Say what the policy is worth; `choices` are on_end, time_limit and ignore, see `Problem.pose`."""
        return self.answer(Problem.pose(data, policy, gamma=gamma, seed=seed, **choices))

    def answer(self, problem: Problem) -> PolicyValue:
        """The same for a question that was already checked."""
        self.check(problem)
        return policy_value(problem, self.name, self.find(problem))

    def check(self, problem: Problem) -> None:  # noqa: B027  # most estimators take whatever comes
        """Refuse, before any work, what this estimator cannot do, and name one that can."""

    @abstractmethod
    def find(self, problem: Problem) -> RawEstimate:
        """Do the work."""


def check_positive(settings: object, *names: str) -> None:
    """Refuse settings below 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1: got {getattr(settings, name)}")


def check_ridge(ridge: float | None) -> None:
    """Refuse a ridge that is not a positive number, in units of the features' mean squares."""
    if ridge is not None and not 0 < ridge < float("inf"):
        raise ValueError(f"ridge must be positive, such as 1e-3, or None for the data to choose: got {ridge}")
