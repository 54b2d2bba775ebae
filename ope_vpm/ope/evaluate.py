"""One call: data and policies and estimators in, values out."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Literal, Unpack, overload

import numpy as np

from ope_vpm import logged
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit
from ope_vpm.ope.adapter.given import Behaviour, Choices
from ope_vpm.ope.adapter.named import is_one_policy, is_table
from ope_vpm.ope.estimator import Estimator, ProblemEstimator, make, needs_rows
from ope_vpm.ope.inference.value import Asked, PolicyValue
from ope_vpm.ope.inference.values import PolicyValues
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.questions.agreement import AllValues
from ope_vpm.others import PLACES
from ope_vpm.threads import at_once, check_jobs

ALL: Literal["all"] = "all"
"""Stands for every estimator of this package that fits the question."""
All = Literal["all"]
OneEstimator = str | Estimator
Several = Sequence[OneEstimator]
Discounts = Sequence[float]
Data = Any
"""A `LoggedDataset`, what `scan_dataset` returns, or what it takes."""
Policies = Mapping[str, Any]
"""Policies by their names."""
Group = Mapping[str, str] | Mapping[str, int]
"""One policy: from the values of a column to actions."""


@overload
def evaluate(
    data: Data, policy: Group, estimator: All, gamma: float = ..., **choices: Unpack[Choices]
) -> AllValues: ...
@overload
def evaluate(
    data: Data, policy: Policies, estimator: All, gamma: float = ..., **choices: Unpack[Choices]
) -> PolicyValues[str, AllValues]: ...
@overload
def evaluate(data: Data, policy: Any, estimator: All, gamma: float = ..., **choices: Unpack[Choices]) -> AllValues: ...
@overload
def evaluate(
    data: Data, policy: Policies, estimator: All, *, gamma: Discounts, **choices: Unpack[Choices]
) -> PolicyValues[str, PolicyValues[float, AllValues]]: ...
@overload
def evaluate(
    data: Data, policy: Any, estimator: All, *, gamma: Discounts, **choices: Unpack[Choices]
) -> PolicyValues[float, AllValues]: ...
@overload
def evaluate(
    data: Data, policy: Group, estimator: OneEstimator = ..., gamma: float = ..., **choices: Unpack[Choices]
) -> PolicyValue: ...
@overload
def evaluate(
    data: Data, policy: Policies, estimator: OneEstimator = ..., gamma: float = ..., **choices: Unpack[Choices]
) -> PolicyValues[str, PolicyValue]: ...
@overload
def evaluate(
    data: Data, policy: Policies, estimator: Several, gamma: float = ..., **choices: Unpack[Choices]
) -> PolicyValues[str, PolicyValues[str, PolicyValue]]: ...
@overload
def evaluate(
    data: Data, policy: Policies, estimator: OneEstimator = ..., *, gamma: Discounts, **choices: Unpack[Choices]
) -> PolicyValues[str, PolicyValues[float, PolicyValue]]: ...
@overload
def evaluate(
    data: Data, policy: Policies, estimator: Several, *, gamma: Discounts, **choices: Unpack[Choices]
) -> PolicyValues[str, PolicyValues[float, PolicyValues[str, PolicyValue]]]: ...
@overload
def evaluate(
    data: Data,
    policy: list[Any] | tuple[Any, ...],
    estimator: OneEstimator | Several = ...,
    gamma: float | Discounts = ...,
    **choices: Unpack[Choices],
) -> Any: ...
@overload
def evaluate(
    data: Data, policy: Any, estimator: OneEstimator = ..., gamma: float = ..., **choices: Unpack[Choices]
) -> PolicyValue: ...
@overload
def evaluate(
    data: Data, policy: Any, estimator: Several, gamma: float = ..., **choices: Unpack[Choices]
) -> PolicyValues[str, PolicyValue]: ...
@overload
def evaluate(
    data: Data, policy: Any, estimator: OneEstimator = ..., *, gamma: Discounts, **choices: Unpack[Choices]
) -> PolicyValues[float, PolicyValue]: ...
@overload
def evaluate(
    data: Data, policy: Any, estimator: Several, *, gamma: Discounts, **choices: Unpack[Choices]
) -> PolicyValues[float, PolicyValues[str, PolicyValue]]: ...
def evaluate(
    data: Data,
    policy: Any,
    estimator: OneEstimator | Several = "auto",
    gamma: float | Discounts = 1.0,
    seed: int = 0,
    on_end: OnEnd | None = None,
    time_limit: TimeLimit = "continue",
    ignore: Collection[str] = (),
    state_features: Any = None,
    behaviour: Behaviour = "cloned",
    jobs: int | None = None,
    **options: Any,
) -> Any:
    """Estimate the value of a policy from data that somebody else logged.

    Args:
        data: the log; or Parquet files that may be larger than memory, as a path, a folder, a pattern such as
            `logs/*.parquet`, a list of files in the order of time, a `pyarrow.dataset` or a `ray.data.Dataset`:
            see `scan_dataset`.
        policy: the target, or a list of targets, or a mapping from names to targets.
        estimator: a name out of `estimators()`, an `Estimator`, or a list of these; "auto" chooses by the data. "all"
            runs every one of ours that fits, and says which solve the same equations and which disagree.
        gamma: 1 for the average reward per step; below, (1 - gamma) · E[Σ gamma^t r_t]. Several may be asked for at
            once, as in `gamma=[0.9, 0.99, 1.0]`.
        seed: makes everything random repeatable.
        on_end: what follows a termination, "restart" or "absorb"; by default as gamma says.
        time_limit: whether a truncated episode would have gone on ("continue") or not ("restart").
        ignore: codes of the doctor's findings to pass over; see `inspect`.
        state_features: what is known of finite states, an array with a row for each by its number or a function of
            observations: pairs that were never logged are then predicted from the same action in similar states.
        behaviour: where action ratios π/b take the policy that logged the data from: "cloned" fits it to the log,
            "logged" takes the propensities of the data, a policy in any form that `as_policy` takes is taken as it is.
        jobs: of several policies on less than 50 000 rows so many are worked on at once, each in a thread; None: one on
            each core. No answer depends on it.
        options: the estimator's own settings; with several estimators, give instances instead.

    Returns:
        One `PolicyValue`; for a list of estimators a dict by name; for several discounts a dict by discount of
        these; for several policies a list, or a dict by the names of the mapping, of these. The dicts are
        `PolicyValues`, which print themselves and write a page with `values.report("report.html", data)`. So
        `evaluate(data, {"a": one, "b": other}, ["auto", "dr"], gamma=[0.9, 1.0])["a"][0.9]["dr"]` is one value.
        Everything that can be shared is made once: the checked log and the features of its states for all policies,
        the moments of the rows for all discounts.

    ```python
    import numpy as np
    import ope_vpm as ov

    context, action = np.random.default_rng(0).integers(2, size=(2, 400))  # a coin decided what was done
    paid = (context == action).astype(float)
    log = ov.LoggedDataset.from_arrays(context, action, paid, terminated=np.ones(400))
    value = ov.evaluate(log, np.eye(2))  # a table: in each of two states the action of its number
    assert abs(value.as_return() - 1) < 0.05 and value.verdict == "reliable"
    ```
    """
    gamma = gamma.tolist() if isinstance(gamma, np.ndarray) else gamma
    chosen = _estimators(estimator, options)
    choices: dict[str, Any] = {"on_end": on_end, "time_limit": time_limit}
    discounts = _discounts(gamma)
    log = data if isinstance(data, LoggedDataset) else logged.scan_dataset(data)
    known = {"state_features": state_features, "behaviour": behaviour, "seed": seed, "ignore": ignore}

    def every(targets: Sequence[Any]) -> Iterator[Any]:
        first = Problem.pose(log, targets[0], gamma=discounts[0], **known, **choices)
        together = partial(one, first, targets[0])
        return at_once(together, targets, len(first.data), jobs, first.streamed)

    def one(first: Problem, posed: Any, target: Any) -> Any:
        base = first if target is posed else first.with_policy(target)
        problems = [base, *(base.with_gamma(each, **choices) for each in discounts[1:])]
        together = tuple(problem.discount for problem in problems)
        problems = [replace(problem, together=together) for problem in problems]
        if estimator != ALL:
            for problem, each in product(problems, chosen.values()):
                _check(each, problem)
        asked = Asked.about(data, target, ignore)
        found = PolicyValues((problem.gamma, at(problem, asked)) for problem in problems)
        base.forget()  # a policy may live longer than its turn
        return found if isinstance(gamma, Sequence) else found[discounts[0]]

    def at(problem: Problem, asked: Asked) -> PolicyValue | PolicyValues[str, PolicyValue]:
        if estimator == ALL:
            return _all_that_fit(chosen, problem, asked, ignore)
        found = ((name, answer(each, problem, ignore=ignore)) for name, each in chosen.items())
        values = PolicyValues((name, replace(value, asked=asked)) for name, value in found)
        return next(iter(values.values())) if isinstance(estimator, str | Estimator) else values

    if isinstance(policy, Mapping | list | tuple) and not policy:
        raise ValueError(f"policy must be one policy, or a list or mapping of at least one: got {policy!r}")
    check_jobs(jobs)
    if isinstance(policy, Mapping) and not is_one_policy(log, policy):
        return PolicyValues(zip(policy, every(list(policy.values())), strict=True))
    if isinstance(policy, list | tuple) and not is_table(policy):
        return list(every(policy))
    return next(every([policy]))


def _check(estimator: Estimator, problem: Problem) -> None:
    """Refuse what the estimator cannot do, before any work."""
    if isinstance(estimator, ProblemEstimator):
        estimator.check_rows(problem)
        estimator.check(problem)
    elif problem.streamed:
        raise ValueError(f"{estimator.name} {needs_rows(problem)}")


def _all_that_fit(chosen: dict[str, Estimator], problem: Problem, asked: Asked, ignore: Collection[str]) -> AllValues:
    """The values of the estimators that can answer; the others say why they cannot."""
    found: dict[str, PolicyValue] = {}
    left_out: dict[str, str] = {}
    for name, each in chosen.items():
        try:
            _check(each, problem)
            found[name] = replace(answer(each, problem, ignore), asked=asked)
        except (ValueError, ImportError, ArithmeticError) as error:
            left_out[name] = str(error)
    return AllValues(found, left_out)


def _discounts(gamma: float | Sequence[float]) -> list[float]:
    """The discounts asked for, each once."""
    several = list(gamma) if isinstance(gamma, Sequence) else [gamma]
    refused = f"gamma must be a number, or a list of different numbers: got {gamma!r}"
    if any(isinstance(each, str) for each in several):  # float() would read some of them
        raise ValueError(refused)
    try:
        found = [float(each) for each in several]
    except (TypeError, ValueError) as error:
        raise ValueError(refused) from error
    if not found or len(set(found)) < len(found):
        raise ValueError(refused)
    return found


def answer(estimator: Estimator, problem: Problem, ignore: Collection[str] = ()) -> PolicyValue:
    """The estimator's value; those of other packages take the data instead of a problem.

    Args:
        estimator: ours or another package's.
        problem: the question, whose log was checked.
        ignore: codes of the doctor's findings that were passed over.
    """
    if isinstance(estimator, ProblemEstimator):
        return estimator.answer(problem)
    choices: dict[str, Any] = {"on_end": problem.on_end, "time_limit": problem.time_limit, "ignore": ignore}
    if problem.behaviour != "cloned":
        choices["behaviour"] = problem.behaviour
    value = estimator.estimate(problem.data, problem.policy, gamma=problem.gamma, seed=problem.seed, **choices)
    return value if value.question is not None else replace(value, question=problem.question)


def _estimators(given: OneEstimator | Sequence[OneEstimator], options: dict[str, Any]) -> dict[str, Estimator]:
    """The estimators by name; a name twice is numbered."""
    if given == ALL and options:
        raise TypeError(f"options ({', '.join(options)}) go with one estimator by name, not with all")
    if given == ALL:
        given = list(PLACES)
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for each in several:
        if isinstance(each, type) or not isinstance(each, str | Estimator):
            raise TypeError(
                f"estimator must be a name, an instance, or a list of these: got {each!r:.80} "
                "(an instance is estimators()['vpm']())"
            )
    if not several:
        raise ValueError("estimator must name at least one estimator: got an empty list")
    if options and (len(several) > 1 or not isinstance(several[0], str)):
        raise TypeError(
            f"options ({', '.join(options)}) go with one estimator by name: for several, give instances, "
            "as in estimators()['vpm'](solver='kernel')"
        )
    chosen: dict[str, Estimator] = {}
    for each in several:
        made = make(each, options) if isinstance(each, str) else each
        name, number = made.name, 2
        while name in chosen:
            name, number = f"{made.name} {number}", number + 1
        chosen[name] = made
    return chosen
