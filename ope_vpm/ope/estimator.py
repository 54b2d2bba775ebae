"""What an estimator is, and how one is found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.estimate import RawEstimate, policy_value
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.ope.problem import Problem

GROUP = "ope_vpm.estimators"
"""Entry points under which other packages offer estimators."""

BUILT_IN = {
    "vpm": "ope_vpm.ope.vpm.estimator:VPMEstimator",
    "naive": "ope_vpm.baselines.naive:Naive",
    "onestep": "ope_vpm.baselines.onestep:OneStep",
    "wist": "ope_vpm.baselines.importance_sampling:TrajectoryWise",
    "wiss": "ope_vpm.baselines.importance_sampling:StepWise",
    "model": "ope_vpm.baselines.model_based:ModelBased",
    "liu": "ope_vpm.baselines.liu2018:Liu2018",
    "auto": "ope_vpm.ope.auto.estimator:Auto",
    "fqe": "ope_vpm.baselines.fqe:FQE",
    "d3rlpy_fqe": "ope_vpm.baselines.d3rlpy_fqe:D3rlpyFQE",
    "dr": "ope_vpm.baselines.doubly_robust:DoublyRobust",
    "wdr": "ope_vpm.baselines.wdr:WeightedDoublyRobust",
    "magic": "ope_vpm.baselines.wdr:Magic",
    "dualdice": "ope_vpm.baselines.dice:DualDice",
    "gendice": "ope_vpm.baselines.dice:GenDice",
    "gradientdice": "ope_vpm.baselines.dice:GradientDice",
    "bestdice": "ope_vpm.baselines.dice:BestDice",
    "mwl": "ope_vpm.baselines.minimax:MinimaxWeights",
    "mql": "ope_vpm.baselines.minimax:MinimaxQ",
}
"""Our own, as module:class; imported when asked for, since the baselines are built upon this layer."""


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


def estimators() -> dict[str, type[Estimator]]:
    """All estimators by name: ours, then those that installed packages offer as entry points."""
    return {name: estimator_class(name) for name in _locations()}


def estimator_class(name: str) -> type[Estimator]:
    """The estimator of that name; an unknown one is answered with the nearest."""
    known = _locations()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        raise ValueError(f"there is no estimator {name!r}: {hint}")
    module, _, attribute = known[name].partition(":")
    return cast(type[Estimator], getattr(import_module(module), attribute))


def make(name: str, options: dict[str, Any]) -> Estimator:
    """An estimator by name with its settings; a misspelt setting is answered with the nearest."""
    kind = estimator_class(name)
    settings = [field.name for field in fields(kind)] if is_dataclass(kind) else None
    for option in options:
        if settings is not None and option not in settings:
            near = get_close_matches(option, settings, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(settings) or 'none'}"
            raise TypeError(f"the estimator {name!r} has no option {option!r}: {hint}")
    return kind(**options)


@cache
def _locations() -> dict[str, str]:
    """Where each estimator lives; ours cannot be replaced by accident."""
    others = {point.name: point.value for point in entry_points(group=GROUP)}
    return BUILT_IN | {name: value for name, value in others.items() if name not in BUILT_IN}
