"""Where importance sampling takes the behaviour's probabilities from: the option `behaviour=` of its estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.adapter.encoding import check_match, target_of
from ope_vpm.ope.behaviour.clone import Clone, clone
from ope_vpm.ope.problem import Problem
from ope_vpm.policy import TargetPolicy

Behaviour = Any
"""What a user gives: "cloned", "logged", or a policy as `as_policy` takes it."""
ROUNDING = 1e-5
"""How far above 0 the logarithm of a probability may lie, as one that was computed in single precision does."""


class Source(ABC):
    """Where the log-probabilities of logged actions under the behaviour come from."""

    @abstractmethod
    def log_prob(self, problem: Problem) -> Clone:
        """Log b of each logged action."""


@dataclass(frozen=True)
class Cloned(Source):
    """Fitted to the log."""

    def log_prob(self, problem: Problem) -> Clone:
        """A clone that all targets with the same bounds share: where the target clips, the log was clipped too."""
        return problem.log.shared(clone, problem.policy.clipping, problem.seed)


@dataclass(frozen=True, eq=False)
class Logged(Source):
    """Logged beside the actions."""

    logged: Floats

    def log_prob(self, problem: Problem) -> Clone:
        """As they were logged."""
        return Clone(self.logged, float("nan"))


@dataclass(frozen=True)
class Known(Source):
    """A policy that is known to have acted."""

    policy: TargetPolicy

    def log_prob(self, problem: Problem) -> Clone:
        """The policy's own; a logged action that it never takes says that another one acted."""
        found = self.policy.log_likelihood(problem.data.observations, problem.data.actions)
        if not np.isfinite(found).all():
            row = int(np.argmin(np.isfinite(found)))
            raise ValueError(
                f"a behaviour policy must be able to take every logged action: that of row {row} has probability 0 "
                "(is it the policy that logged the data?)"
            )
        return Clone(found, float("nan"))


def source_of(behaviour: Behaviour, problem: Problem) -> Source:
    """What the option means; what the data or a policy cannot give is refused."""
    data = problem.data
    if not isinstance(behaviour, str):
        policy = check_match(data, problem.policy.alike(target_of(data, behaviour)))
        if not policy.has_log_prob:
            raise ValueError("a behaviour policy needs densities, and this one has none: use behaviour='cloned'")
        return Known(policy)
    if behaviour == "logged":
        if data.behaviour_log_prob is None:
            raise ValueError("behaviour='logged' needs behaviour_log_prob in the data: use behaviour='cloned'")
        if data.discrete_actions and float(np.max(data.behaviour_log_prob)) > ROUNDING:
            row = int(np.argmax(data.behaviour_log_prob))
            raise ValueError(
                "behaviour_log_prob of discrete actions must be logarithms of probabilities, 0 or less: "
                f"row {row} is {data.behaviour_log_prob[row]:.6g} (probabilities: give their np.log)"
            )
        return Logged(data.behaviour_log_prob)
    if behaviour != "cloned":
        raise ValueError(f"behaviour must be 'cloned', 'logged' or a policy: got {behaviour!r}")
    return Cloned()


def check_behaviour(name: str, problem: Problem, behaviour: Behaviour) -> None:
    """Refuse, before any work, a target without densities or a behaviour that cannot be had.

    Args:
        name: the estimator's, for the error.
        problem: the question.
        behaviour: the estimator's option.
    """
    if not problem.policy.has_log_prob:
        raise ValueError(f"{name} needs a target policy with densities: use vpm or model, which do not")
    source_of(behaviour, problem)


def behaviour_log_prob(problem: Problem, behaviour: Behaviour) -> Clone:
    """Log b of each logged action, from where the option says."""
    return source_of(behaviour, problem).log_prob(problem)
