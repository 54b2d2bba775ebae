"""What a user gives beside a log, checked: policy, settings, features; and observations as states of a chain."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, TypedDict

import numpy as np

from ope_vpm.arrays import Array, Integers, usable
from ope_vpm.linear.features import DistinctColumns, Standardiser
from ope_vpm.logged import LoggedDataset
from ope_vpm.logged.columns import are_numbers
from ope_vpm.logged.spaces import state_sizes
from ope_vpm.ope.adapter.ends import OnEnd, TimeLimit
from ope_vpm.ope.log import Log
from ope_vpm.ope.memory import remembered
from ope_vpm.policy import TargetPolicy

MOST_STATES = 1 << 40
"""Multi-discrete states beyond this many are numbered as they were seen: a product of counts would overflow. With
continuous actions they are treated as vectors."""
MOST_ONE_HOT = 4096
"""Finite states that go with continuous actions have a coordinate each; matrices of more columns would be too large."""
FAR = 4.0
"""How far the absorbing state lies from the others, in units of √d, a kernel's usual bandwidth: at four bandwidths a
Gaussian kernel is e⁻⁸, so that smooth functions can have any value there."""
Behaviour = Any
"""What a user gives: "cloned" (fitted to the log), "logged" (as `behaviour_log_prob` of the data has it), or the policy
that acted, as `as_policy` takes it. Once checked a policy is a `TargetPolicy`."""
ROUNDING = 1e-5
"""How far above 0 the logarithm of a probability may lie, as one that was computed in single precision does."""


def target_of(data: Any, policy: Any) -> TargetPolicy:
    """Whatever was given as a policy; in the words of a table, where the dataset came from one."""
    if isinstance(policy, TargetPolicy) or getattr(data, "encoding", None) is None:
        return TargetPolicy.of(policy)
    from ope_vpm.ope.adapter.named import named_policy  # for logs with names alone

    return named_policy(data.encoding, policy)


def check_match(data: LoggedDataset, policy: TargetPolicy) -> TargetPolicy:
    """The policy, once its kind is known; one for another observation or action space than the data's is refused."""
    size = int(np.prod(data.head.observations.shape[1:]))
    if policy.observation_size is not None and policy.observation_size != size:
        raise ValueError(
            f"the policy takes observations of {policy.observation_size} numbers, the data have {size} "
            "(is it a policy for another task?)"
        )
    policy = policy.recognised(data.head.observations, data.n_actions if data.discrete_actions else None)
    logged, known = data.n_actions or 0, data.action_space is not None
    if data.discrete_actions and policy.action_dimension is not None:
        raise ValueError(
            "the policy has continuous actions, the data discrete ones (integers): they do not fit (save floats)"
        )
    if data.discrete_actions:
        if policy.n_actions is not None and (logged > policy.n_actions or (known and logged != policy.n_actions)):
            raise ValueError(
                f"the policy chooses from {policy.n_actions} actions, the data have {logged}: they do not fit"
            )
    elif policy.has_probabilities:
        save = ", although all are whole: save them as integers" if are_numbers(data.head.actions) else ""
        raise ValueError(f"the policy has discrete actions, the data continuous ones (floats{save}): they do not fit")
    elif policy.action_dimension not in (None, data.head.actions.shape[1]):
        raise ValueError(
            f"the policy's actions have {policy.action_dimension} coordinates, "
            f"the data's {data.head.actions.shape[1]}: they do not fit"
        )
    return policy


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


@dataclass(frozen=True)
class Encoder:
    """Encodes pairs of observation and action as states x of a chain, alike for logged, target and new pairs.

    Finite states and actions: x = s · n_actions + a. Otherwise a vector: standardised observations (or a
    one-hot finite state), then standardised actions (or a one-hot discrete action).

    With `absorbs`, one more state stands for "ended": the next free number, or a vector
    with zeros everywhere and `FAR`·√d in a coordinate of its own, which is zero in all other vectors.
    """

    shape: tuple[int, ...] | None
    """The number of values of each coordinate of a finite state; None for continuous states."""
    n_actions: int | None
    """None for continuous actions."""
    observation_scale: DistinctColumns | None
    """None where states are finite."""
    action_scale: Standardiser
    """Used unless actions are discrete."""
    absorbs: bool = False
    labels: dict[bytes, int] | None = None
    """Numbers of the states that were seen, where their space is too large; all others share the next number."""

    @classmethod
    def fit(cls, data: LoggedDataset, n_actions: int | None, absorbs: bool) -> Encoder:
        """Sizes and scales from the data; `n_actions` from the policy, which may know more than were seen."""
        shape = state_sizes(data.observation_space, data.states_seen) if data.finite else None
        labels = None
        if shape is not None and prod(shape) > MOST_STATES:
            shape = None
            if n_actions is not None:  # a number for each state that was seen, whatever the order of the rows
                seen = sorted({*_keys(data.observations), *_keys(data.next_observations)})
                labels, shape = {key: number for number, key in enumerate(seen)}, (len(seen) + 1,)
        if shape is not None and n_actions is None and prod(shape) > MOST_ONE_HOT:
            raise ValueError(
                f"{prod(shape)} finite states with continuous actions are too many to tell apart "
                f"(at most {MOST_ONE_HOT}): give the observations as floats"
            )
        if shape is not None and n_actions is not None:  # numbers are not scaled
            return cls(shape, n_actions, None, Standardiser.unit(1), absorbs, labels)
        columns = DistinctColumns.fit(data.observations, data.time) if shape is None else None
        return cls(shape, n_actions, columns, Standardiser.fit(data.actions), absorbs, labels)

    @classmethod
    def of_states(cls, data: LoggedDataset) -> Encoder:
        """Sizes and scales of the states, whatever the actions are."""
        return cls.fit(data, None if not data.discrete_actions else 1, absorbs=False)

    @property
    def size(self) -> int:
        """Coordinates of a state as a vector: standardised observations, or one for each finite state."""
        return prod(self.shape or ()) if self.observation_scale is None else self.observation_scale.size

    def states(self, observations: Array) -> Array:
        """Observations alone: state numbers, or standardised vectors."""
        if self.shape is None or self.observation_scale is not None:
            assert self.observation_scale is not None
            return self.observation_scale(observations)
        if self.labels is not None:
            return np.array([self.labels.get(key, len(self.labels)) for key in _keys(observations)], dtype=np.int64)
        columns = np.asarray(observations).reshape(len(observations), len(self.shape))
        if len(self.shape) == 1 and len(columns) and columns.min() >= 0 and columns.max() < self.shape[0]:
            return columns[:, 0].astype(np.int64, copy=False)  # numbers already
        numbers: Array = np.ravel_multi_index(tuple(columns.T), self.shape)
        return numbers.astype(np.int64)

    def observations(self, states: Integers, like: Array) -> Array | None:
        """The observation that each state number means, as a log writes observations; None where numbers are labels."""
        if self.shape is None or self.labels is not None:
            return None
        columns = np.stack(np.unravel_index(states, self.shape), axis=1)
        return columns.reshape(len(states), *like.shape[1:]).astype(like.dtype)

    def __call__(self, observations: Array, actions: Array) -> Array:
        """The x of each row."""
        states = self.states(observations)
        if self.shape is not None and self.n_actions is not None:
            return states * self.n_actions + np.asarray(actions)
        if self.shape is not None:
            states = np.eye(prod(self.shape))[states]
        moves = self.action_scale(actions) if self.n_actions is None else np.eye(self.n_actions)[actions]
        ended = np.zeros((len(states), int(self.absorbs)))
        return np.hstack([states, moves, ended])

    def absorbing(self) -> Array:
        """The absorbing state as an array of one row."""
        if self.shape is not None and self.n_actions is not None:
            return np.array([prod(self.shape) * self.n_actions])
        width = self.size + (self.n_actions or self.action_scale.mean.size)
        point = np.zeros((1, width + 1))
        point[0, -1] = FAR * sqrt(width)
        return point


def _keys(observations: Array) -> list[bytes]:
    """The bytes of each row."""
    rows = np.ascontiguousarray(observations, dtype=np.int64).reshape(len(observations), -1)
    return rows.view(f"V{rows.itemsize * rows.shape[1]}")[:, 0].tolist()


@remembered
def state_encoder(log: Log) -> Encoder:
    """The scales of a log's states, which all feature maps share; those of a long log are its sample's."""
    return Encoder.of_states(log.data if log.data.finite else log.sample.data)
