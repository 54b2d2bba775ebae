"""What an estimator is."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import scipy.linalg  # noqa: F401  # its BLAS must be loaded before it can be limited
import torch  # noqa: F401  # the same for OpenMP
from threadpoolctl import ThreadpoolController

from ope_vpm import others
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.returns import with_return
from ope_vpm.ope.inference.value import PolicyValue, RawEstimate, policy_value
from ope_vpm.ope.problem import Problem
from ope_vpm.providers import PROVIDERS
from ope_vpm.suggestions import suggestion


@runtime_checkable
class Estimator(Protocol):
    """Anything with a name that turns a log and a policy into a value."""

    name: ClassVar[str]

    def estimate(
        self, data: LoggedDataset, policy: Any, *, gamma: float = 1.0, seed: int = 0, **choices: Any
    ) -> PolicyValue:
        """Say what the policy is worth; `choices` are on_end, time_limit and ignore, see `Problem.pose`."""


_IN_PARTS = "needs all rows at once, and these are read in parts: use {}, or read them into memory with load_dataset"
NEEDS_ROWS = _IN_PARTS.format("vpm, auto, fqe with solver='linear', naive or onestep")
NEEDS_FINITE_ROWS = _IN_PARTS.format("vpm, auto, model, fqe or naive, which count finite states in parts")


class ProblemEstimator(ABC):
    """Our own estimators: they work on a `Problem`, so that several of them share its parts.

    Subclasses are frozen dataclasses with keyword-only settings.
    """

    name: ClassVar[str]
    streams: ClassVar[bool] = False
    """Whether it can do with a log of continuous states that is read in parts."""
    counts_parts: ClassVar[bool] = False
    """The same for finite states and actions, whose steps are counted part by part."""

    def estimate(
        self, data: LoggedDataset, policy: Any, *, gamma: float = 1.0, seed: int = 0, **choices: Any
    ) -> PolicyValue:
        """Say what the policy is worth; `choices` are on_end, time_limit and ignore, see `Problem.pose`."""
        return self.answer(Problem.pose(data, policy, gamma=gamma, seed=seed, **choices))

    def answer(self, problem: Problem) -> PolicyValue:
        """The same for a question that was already checked."""
        self.check_rows(problem)
        self.check(problem)
        with threads_for(len(problem.data)):
            found = self.find(problem)
            found = with_return(problem, found, self.find) if problem.episodic else found
            return policy_value(problem, self.name, found)

    def check_rows(self, problem: Problem) -> None:
        """Refuse a log that is read in parts where all rows are needed at once."""
        if problem.streamed and not (self.counts_parts if problem.finite else self.streams):
            raise ValueError(f"{self.name} {needs_rows(problem)}")

    def check(self, problem: Problem) -> None:  # noqa: B027  # most estimators take whatever comes
        """Refuse, before any work, what this estimator cannot do, and name one that can."""

    @abstractmethod
    def find(self, problem: Problem) -> RawEstimate:
        """Do the work.

        At γ = 1 on tasks that end, the return of an episode is found by asking again about other rewards, unless the
        estimate has it already (`per_episode`).
        """


def needs_rows(problem: Problem) -> str:
    """What to say of an estimator that cannot do with a log that is read in parts."""
    return NEEDS_FINITE_ROWS if problem.finite else NEEDS_ROWS


FEW_ROWS = 50_000
"""Rows below which a second thread waits more than it works. Measured for vpm with 17-dimensional states on two busy
cores: with 2000 rows the CPU time of two threads is 17 times that of one."""


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread for work on few rows; leave them as they are for more."""
    if rows >= FEW_ROWS:
        yield
        return
    with _controller(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """The libraries with threads of their own; looking for them takes milliseconds, so it is done after imports only.

    Args:
        modules: how many have been imported: one that came later may have brought a library along.
    """
    return ThreadpoolController()


def check_positive(settings: object, *names: str) -> None:
    """Refuse settings below 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ValueError(f"{name} must be at least 1: got {getattr(settings, name)}")


def check_ridge(ridge: float | None) -> None:
    """Refuse a ridge that is not a positive number, in units of the features' mean squares."""
    if ridge is not None and not 0 < ridge < float("inf"):
        raise ValueError(f"ridge must be positive, such as 1e-3, or None for the data to choose: got {ridge}")


GROUP = "ope_vpm.estimators"
"""Entry points under which other packages offer estimators."""

Classes = dict[str, type[Estimator]]


def estimators() -> Classes:
    """All estimators by name: ours, then those of other packages; one that cannot be loaded is left out, and told."""
    found = dict(built_in())
    for name, point in _others().items():
        try:
            found[name] = _load(point)
        except ImportError as error:
            warnings.warn(str(error), stacklevel=2)
    return found


def estimator_class(name: str) -> type[Estimator]:
    """The estimator of that name; an unknown one is answered with the nearest."""
    known, others = built_in(), _others()
    if name in known:
        return known[name]
    if name not in others:
        raise ValueError(f"there is no estimator {name!r}: {suggestion(name, [*known, *others])}")
    return _load(others[name])


def make(name: str, options: dict[str, Any]) -> Estimator:
    """An estimator by name with its settings; a misspelt setting is answered with the nearest."""
    kind = estimator_class(name)
    if is_dataclass(kind):
        settings = [field.name for field in fields(kind)]
        for option in options:
            if option not in settings:
                raise TypeError(f"the estimator {name!r} has no option {option!r}: {suggestion(option, settings)}")
    made = kind(**options)
    if not isinstance(made, Estimator):
        raise TypeError(f"the estimator {name!r} must have a name and estimate(data, policy, ...): got {made!r:.80}")
    return made


@cache
def built_in() -> Classes:
    """The estimators of this package by name."""
    return {name: kind for classes in PROVIDERS for name, kind in classes().items()}


@cache
def _others() -> dict[str, EntryPoint]:
    """Estimators of other packages; ours cannot be replaced by accident."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in built_in()}


def _load(point: EntryPoint) -> type[Estimator]:
    return cast(type[Estimator], others.loaded(point))
