"""Estimators, and how an estimate becomes a policy value: an interval, a verdict, weights of mean 1."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.metadata import EntryPoint
from numbers import Integral
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np
import scipy.linalg  # noqa: F401  # its BLAS must be loaded before it can be limited

from ope_vpm import others
from ope_vpm.arrays import Floats, effective_sample_size, read_only
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.given import Choices, Settings
from ope_vpm.ope.inference.doubts import advise, judge
from ope_vpm.ope.inference.estimate import (
    RawEstimate,
    RewardRange,
    all_doubts,
    interval_of,
    noise_of,
    outside,
    reward_range,
)
from ope_vpm.ope.inference.placebo import with_placebo
from ope_vpm.ope.inference.returns import ONE_EPISODE, episode_return, with_return
from ope_vpm.ope.inference.value import NOT_TOLD, PolicyValue
from ope_vpm.ope.problem import Problem
from ope_vpm.others import ESTIMATORS, PLACES
from ope_vpm.suggestions import suggestion
from ope_vpm.threads import threads_for


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
    follows_states: ClassVar[bool] = True
    """Whether what follows a state is learnt, so that the step number belongs to the state where it matters."""
    counts_parts: ClassVar[bool] = False
    """Whether it can do with a log of finite states and actions whose steps are counted part by part."""
    words: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The allowed values of settings that are words."""

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing: unknown words, counts below 1, a ridge or a cap that is not positive."""
        for name, value in vars(self).items():
            if name in self.words and not callable(value) and value not in self.words[name]:
                raise ValueError(f"unknown {name} {value!r}: known are {', '.join(self.words[name])}")
            if isinstance(value, Integral) and not isinstance(value, bool) and value < 1:
                raise ValueError(f"{name} must be at least 1: got {value}")
            if name == "cap" and not value > 0:
                raise ValueError(f"cap must be positive: got {value}")
            if name == "ridge":
                check_ridge(value)

    def estimate(
        self, data: LoggedDataset, policy: Any, *, gamma: float = 1.0, seed: int = 0, **choices: Any
    ) -> PolicyValue:
        """Say what the policy is worth; `choices` are on_end, time_limit and ignore, see `Problem.pose`."""
        return self.answer(Problem.pose(data, policy, gamma=gamma, seed=seed, **choices))

    def answer(self, problem: Problem) -> PolicyValue:
        """Answer a question that was already checked."""
        return self.answered(problem)[0]

    def answered(self, problem: Problem) -> tuple[PolicyValue, RawEstimate]:
        """The value, and the estimate that it was made of: for questions that compare several."""
        self.check_rows(problem)
        self.check(problem)
        with threads_for(len(problem.data)):
            asked = problem.with_step_number if self.follows_states else problem
            found = self.find(asked)
            found = with_return(asked, found, self.find) if problem.episodic else found
            found = with_placebo(asked, found) if self.follows_states else found
            if asked is not problem:
                found = replace(found, diagnostics={**found.diagnostics, "step_number": "a coordinate of the state"})
            return policy_value(problem, self.name, found), found

    def check_rows(self, problem: Problem) -> None:
        """Refuse a log that is read in parts where all rows are needed at once."""
        if problem.streamed and not (self.counts_parts if problem.finite else self.streams):
            raise ValueError(f"{self.name} {needs_rows(problem)}")

    def check(self, problem: Problem) -> None:  # noqa: B027  # most estimators take whatever comes
        """Refuse, before any work, what this estimator cannot do, and name one that can."""

    @abstractmethod
    def find(self, problem: Problem) -> RawEstimate:
        """Estimate the value, before it has an interval and a verdict.

        At γ = 1 on tasks that end, the return of an episode is found by asking again about other rewards, unless the
        estimate has it already (`per_episode`).
        """


@dataclass(frozen=True, kw_only=True)
class FeatureEstimator(ProblemEstimator):
    """Estimators that solve linear equations in features of continuous states: the settings that all of them have."""

    n_features: int | None = None
    """Random Fourier features of the state; None: 4·√rows, between 40 and 600."""
    ridge: float | None = None
    """In units of the features' mean squares; None: the smallest with at most 1.5 times the least standard error."""
    draws: int = 8
    """Target actions drawn for each state where the policy's mean action is not known otherwise."""


def needs_rows(problem: Problem) -> str:
    """The part of an error about an estimator that cannot do with a log that is read in parts."""
    return NEEDS_FINITE_ROWS if problem.finite else NEEDS_ROWS


def check_ridge(ridge: float | None) -> None:
    """Refuse a ridge that is not a positive number, in units of the features' mean squares."""
    if ridge is not None and not 0 < ridge < float("inf"):
        raise ValueError(f"ridge must be positive, such as 1e-3, or None for the data to choose: got {ridge}")


def estimators() -> dict[str, type[Estimator]]:
    """All estimators by name: ours, then those of other packages; one that cannot be loaded is left out, and told."""
    found: dict[str, type[Estimator]] = {}
    for name in others.names(ESTIMATORS, PLACES):
        try:
            found[name] = estimator_class(name)
        except ImportError as error:
            warnings.warn(str(error), stacklevel=2)
    return found


def estimator_class(name: str) -> type[Estimator]:
    """The estimator of that name, ours before those of other packages; an unknown one is answered with the nearest."""
    kind = EntryPoint(name, PLACES[name], ESTIMATORS).load() if name in PLACES else others.named(ESTIMATORS, name)
    if kind is None:
        known = others.names(ESTIMATORS, PLACES)
        raise ValueError(f"there is no estimator {name!r}: {suggestion(name, known)}")
    return cast(type[Estimator], kind)


def make(name: str, options: dict[str, Any]) -> Estimator:
    """An estimator by name with its settings; a misspelt setting is answered with the nearest."""
    kind = estimator_class(name)
    if is_dataclass(kind):
        settings = [field.name for field in fields(kind)]
        for option in options:
            if option not in settings:
                known = [*settings, *set(Choices.__annotations__) - set(Settings.__annotations__), "gamma"]
                raise TypeError(f"the estimator {name!r} has no option {option!r}: {suggestion(option, sorted(known))}")
    made = kind(**options)
    if not isinstance(made, Estimator):
        raise TypeError(f"the estimator {name!r} must have a name and estimate(data, policy, ...): got {made!r:.80}")
    return made


def made_of(estimator: str | Estimator, options: Mapping[str, Any]) -> Estimator:
    """The estimator of a name with its settings, or an instance as it is, which has its own."""
    if isinstance(estimator, str):
        return make(estimator, dict(options))
    if not isinstance(estimator, Estimator):
        raise TypeError(f"estimator must be one name or instance: got {estimator!r:.80}")
    if options:
        raise TypeError(f"options ({', '.join(options)}) go with an estimator's name, not with an instance")
    return estimator


SAYS_NOTHING = "every logged step pays the same, so the log says nothing about the value per step"
NO_VALUE = "no value: every weight is zero, the log holds nothing the target does"
RETURN_SAYS = "every logged step pays the same, so the value per step is known: the verdict is that of the return"
NOTHING_ENDS = (
    "at gamma = 1 the return is that of an episode, and no logged episode ends: use gamma < 1, or time_limit='restart' "
    "if a time limit is part of the task"
)
NEVER_REACHED = (
    "at gamma = 1 the return is that of an episode, and by these data the target reaches no end: use gamma < 1, or "
    "time_limit='restart' if a time limit is part of the task"
)


def policy_value(problem: Problem, estimator: str, raw: RawEstimate) -> PolicyValue:
    """Put intervals around what was found, and judge it."""
    allowed, episodes = reward_range(problem), problem.data.n_episodes
    error, interval = interval_of(problem, raw)
    weights, rows = None if raw.weights is None else _mean_one(problem.log.of_given_rows(raw.weights)), raw.rows_worth
    doubts = all_doubts(problem, raw)
    noise = noise_of(problem, raw, error)
    level, reasons = judge(doubts, noise)
    of_return = None if raw.per_episode is None else episode_return(problem, raw.per_episode)
    objections = _objections(raw.value, allowed)
    if objections:
        level, reasons = "unreliable", (*objections, *reasons)
    elif allowed.single:
        level, reasons = "unreliable", (SAYS_NOTHING, *reasons)
        if of_return is not None:
            level, reasons = of_return.verdict, (RETURN_SAYS, *of_return.reasons)
    elif interval is None:
        reasons = (ONE_EPISODE, *reasons)
    anything = reward_range(problem, unlogged_ends=True)
    possible = anything.low, anything.high
    if interval is not None:  # equal rewards have no error, and say nothing of others
        interval = possible if allowed.single and level == "unreliable" else allowed.cut(interval)
    return PolicyValue(
        estimator=estimator,
        value=allowed.nearest(raw.value),
        gamma=problem.gamma,
        standard_error=error,
        interval=interval,
        possible=possible,
        effective_sample_size=effective_sample_size(weights) if rows is None and weights is not None else rows,
        verdict=level,
        reasons=reasons,
        diagnostics={"episodes": episodes, "rows": len(problem.data), **_numbers(raw), **raw.diagnostics},
        weights=None if weights is None else read_only(weights),
        advice=advise(doubts, noise),
        doubts=doubts,
        question=problem.question,
        episode_return=of_return,
        no_return=_no_return(problem, estimator, raw),
    )


def _no_return(problem: Problem, estimator: str, raw: RawEstimate) -> str:
    """Why there is no return of an episode; nothing where there is one."""
    if problem.gamma < 1:
        return ""
    if not problem.episodic:
        return NOTHING_ENDS
    if not np.isfinite(raw.value):
        return NO_VALUE
    if raw.per_episode is None:
        return NOT_TOLD.format(estimator)
    return "" if np.isfinite(raw.per_episode.value) else NEVER_REACHED


def _objections(value: float, allowed: RewardRange) -> tuple[str, ...]:
    """Why a value means nothing, whatever speaks for it: it is none, or it is impossible."""
    if not np.isfinite(value):
        return (NO_VALUE,)
    beyond = max(allowed.low - value, value - allowed.high)
    found = (outside("estimate", value, allowed),) if beyond > allowed.rounding else ()
    return (*found, SAYS_NOTHING) if found and allowed.single else found


def _mean_one(weights: Floats) -> Floats:
    """Weights that are not negative and have mean 1."""
    positive = np.maximum(weights, 0)
    total = positive.sum()
    if total > 0:
        positive *= len(positive) / total
    return positive


def _numbers(raw: RawEstimate) -> dict[str, Any]:
    """The numbers that were judged and the biases that were suspected, by the names of their rules."""
    return {"suspected_bias": raw.suspected_bias} | {each.code: each.size for each in raw.doubts if each.rule}
