"""Settings beside the data and the policy, and refusals of choices that no data can mend."""

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

import numpy as np

from ope_vpm.arrays import usable
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.adapter.encoding import check_match, target_of
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit
from ope_vpm.policy import TargetPolicy

Behaviour = Any
"""What a user gives: "cloned" (fitted to the log), "logged" (as `behaviour_log_prob` of the data has it), or the policy
that acted, as `as_policy` takes it. Once checked a policy is a `TargetPolicy`."""
ROUNDING = 1e-5
"""How far above 0 the logarithm of a probability may lie, as one that was computed in single precision does."""


class Settings(TypedDict, total=False):
    """All settings of our estimators by their names, so that type checkers know a misspelt one.

    Settings of estimators of other packages are given to an instance of them.
    """

    average: float
    bandwidth: float | None
    batch_size: int
    cap: float
    classes: str
    combine: bool
    damping: Any
    decay: bool
    device: str
    divergence: Any
    draws: int
    dtype: str
    exact_dual: bool
    features: str
    folds: int
    hidden: tuple[int, ...]
    horizon: int | None
    inner_steps: int
    interval: str
    lam: float
    learning_rate: float
    members: int
    method: str
    n_features: int | None
    nonnegative: bool
    patience: int | None
    power: float
    preset: str
    q: Any
    pool_increments: bool | float
    refit: bool
    reversible: bool
    ridge: float | None
    rollouts: int
    solver: str
    start_at_one: bool
    steps: int | str | None
    training_steps: int
    unseen: str
    weighted: bool


class QuestionChoices(Settings, total=False):
    """Arguments of `compare` and `select` beside policies, estimator and discount; their meaning is in `evaluate`."""

    seed: int
    on_end: OnEnd | None
    time_limit: TimeLimit
    ignore: Collection[str]
    behaviour: Behaviour


class Choices(QuestionChoices, total=False):
    """Arguments of `evaluate` beside the policy, the estimator and the discount."""

    state_features: Any
    jobs: int | None


def divided(choices: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The choices about the question, and all others, which are the estimator's own settings."""
    words = set(QuestionChoices.__annotations__) - set(Settings.__annotations__)
    question = {name: value for name, value in choices.items() if name in words}
    return question, {name: value for name, value in choices.items() if name not in words}


def checked_behaviour(data: LoggedDataset, target: TargetPolicy, behaviour: Behaviour) -> Behaviour:
    """Check the behaviour that a user gave; a policy becomes a `TargetPolicy`, and what cannot be had is refused.

    Args:
        data: the log.
        target: the policy that is asked about; that which acted sees the observations that it sees.
        behaviour: what the user gave.
    """
    if not isinstance(behaviour, str):
        policy = check_match(data, target.alike(target_of(data, behaviour)))
        if not policy.has_log_prob:
            raise ValueError("a behaviour policy needs densities, and this one has none: use behaviour='cloned'")
        return policy
    if behaviour not in ("cloned", "logged"):
        raise ValueError(f"behaviour must be 'cloned', 'logged' or a policy: got {behaviour!r}")
    if behaviour == "logged":
        if data.behaviour_log_prob is None:
            raise ValueError("behaviour='logged' needs behaviour_log_prob in the data: use behaviour='cloned'")
        if data.discrete_actions and float(np.max(data.behaviour_log_prob)) > ROUNDING:
            row = int(np.argmax(data.behaviour_log_prob))
            raise ValueError(
                "behaviour_log_prob of discrete actions must be logarithms of probabilities, 0 or less: "
                f"row {row} is {data.behaviour_log_prob[row]:.6g} (probabilities: give their np.log)"
            )
    return behaviour


def check_seed(seed: int) -> None:
    """Refuse a seed that NumPy's generators do not take."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number, 0 or more: got {seed!r}")


def check_features(state_features: Any) -> None:
    """Refuse features of states that are no table of numbers; whether it has a row for each state is checked in use."""
    if state_features is None or callable(state_features):
        return
    table = np.asarray(state_features)
    if table.dtype.kind not in "biuf" or table.ndim != 2 or table.shape[1] == 0 or not usable(table).all():
        raise ValueError(
            "state_features must be a table of finite numbers with a row for each state, such as shape (6, 2), or a "
            f"function of observations: got {table.dtype} of shape {table.shape}"
        )
