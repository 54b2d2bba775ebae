"""The one solve of finite problems, and the interface of what it needs: a treatment of unseen pairs.

Where every pair (s, a) that the target takes was seen, the counts are a complete model and their exact solution is the
answer. Elsewhere something must take the place of the unseen pairs, and that decides what error is left. A treatment
says what; `solve` does the rest, for every estimator alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ope_vpm.arrays import Floats
from ope_vpm.ope.finite.mixture import Mixture
from ope_vpm.ope.finite.problem import FiniteProblem


@dataclass(frozen=True)
class HalfLog:
    """What half of the log says, the mean of both halves: see `halves`."""

    value: float
    unseen_mass: float


@dataclass(frozen=True, eq=False, kw_only=True)
class FiniteSolution:
    """The exact solution of a completed model."""

    value: float
    """What the target is worth, on the scale of one reward."""
    distribution: Floats
    """(states,): where the target spends its time; below γ = 1 the time after an absorbing end is left out."""
    mass: Floats
    """(pairs,): how much of that time each seen pair counts for, unseen pairs that it represents included."""
    values: Floats
    """(states,): V; at γ = 1 the differential value, up to a constant."""
    q: Floats
    """(pairs,): Q of the seen pairs, with the average reward taken off at γ = 1."""
    unseen_mass: float
    """The share of the target's time on pairs that were never seen."""
    error: float = 0.0
    """How far the value may be off because of what was put in the place of unseen pairs, as one standard error."""
    unseen_range: tuple[float, float] = (0.0, 0.0)
    """How far below and above the value lies what the extremes seen so far would make of it, were all unseen pairs like
    them; zeros where predictions of unseen pairs could be checked."""
    alternative: float | None = None
    """The value by another treatment, where the error is the distance to it."""
    mixture: Mixture | None = None
    """How several closed classes are mixed at γ = 1; None where there is one."""
    half: HalfLog | None = None
    """What half of the log says; None where it was not asked, or all is seen."""
    doubts: tuple[str, ...] = ()
    """What makes the solution itself doubtful, in sentences."""

    @property
    def treatment(self) -> str:
        """The name of the treatment; nothing where several have such solutions."""
        return ""

    @property
    def details(self) -> dict[str, Any]:
        """More about the treatment, for people to read."""
        return {}

    @property
    def spread(self) -> float:
        """The standard deviation of Q over the pairs that the target takes."""
        total = self.mass.sum()
        if total == 0:  # it takes nothing that was seen
            return 0.0
        mean = self.mass @ self.q / total
        return float(np.sqrt(self.mass @ (self.q - mean) ** 2 / total))


class Completion(ABC):
    """A finite model with something in the place of its unseen pairs."""

    @abstractmethod
    def solve(self) -> FiniteSolution:
        """The exact solution."""

    def rollout(self, horizon: int, seed: int) -> float:
        """The mean reward along one simulated trajectory, weighted by γ^t.

        Args:
            horizon: how many steps the trajectory has, unless it ends before.
            seed: of the random numbers.
        """
        raise ValueError(
            "this treatment of unseen pairs says what they are worth, not where they lead: simulate another"
        )


class Treatment(ABC):
    """What to put in the place of pairs that the target takes and the log does not hold."""

    name: ClassVar[str]

    @abstractmethod
    def complete(self, problem: FiniteProblem) -> Completion:
        """The model with something in the place of the unseen pairs."""

    def solved(self, problem: FiniteProblem) -> FiniteSolution:
        """The exact solution, with the error that the treatment brings."""
        return self.judged(problem, self.complete(problem).solve())

    def fitting(self, problem: FiniteProblem) -> Treatment:
        """The treatment that is used on a problem: itself, unless it chooses among others."""
        return self

    def judged(self, problem: FiniteProblem, solution: FiniteSolution) -> FiniteSolution:
        """The solution with the error that the treatment brings.

        By default an unseen pair may be as far from what was put in its place as seen pairs are from their mean.
        """
        return replace(solution, error=solution.unseen_mass * solution.spread if solution.unseen_mass > 0 else 0.0)


def solve(problem: FiniteProblem, treatment: Treatment) -> FiniteSolution:
    """What the target is worth, with the unseen pairs treated in one way."""
    return treatment.solved(problem)
