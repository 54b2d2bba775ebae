"""How a pair (s, a) becomes one state x of the chain, and what absorbs an ended episode."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.linear.features import Standardiser
from ope_vpm.logged import LoggedDataset

MOST_STATES = 1 << 40
"""Multi-discrete states beyond this many are numbered as they were seen: a product of counts would overflow. With
continuous actions they are treated as points."""
MOST_ONE_HOT = 4096
"""Finite states that go with continuous actions, each with a coordinate of its own."""
FAR = 4.0
"""How far the absorbing state lies from the others, in units of √d, a kernel's usual bandwidth."""


@dataclass(frozen=True)
class Encoder:
    """From observations and actions to x, the same for logged, target and new pairs.

    Finite states and actions: x = s · n_actions + a. Otherwise a point: standardised observations (or a
    one-hot finite state), then standardised actions (or a one-hot discrete action).

    With `absorbs`, one more state stands for "ended": the next free number, or, for points, a point with
    zeros everywhere and `FAR`·√d in a coordinate of its own, which is zero in all other points.
    """

    shape: tuple[int, ...] | None
    """The number of values of each coordinate of a finite state; None for points."""
    n_actions: int | None
    """None for continuous actions."""
    observation_scale: Standardiser
    """Used unless states are finite."""
    action_scale: Standardiser
    """Used unless actions are discrete."""
    absorbs: bool = False
    labels: dict[bytes, int] | None = None
    """Numbers of the states that were seen, where their space is too large; all others share the next number."""

    @classmethod
    def fit(cls, data: LoggedDataset, n_actions: int | None, absorbs: bool) -> Encoder:
        """Sizes and scales from the data; `n_actions` from the policy, which may know more than were seen."""
        shape, labels = _state_shape(data), None
        if shape is not None and prod(shape) > MOST_STATES:
            labels = None if n_actions is None else _labels(data)
            shape = None if labels is None else (len(labels) + 1,)
        if shape is not None and n_actions is None and prod(shape) > MOST_ONE_HOT:
            raise ValueError(
                f"{prod(shape)} finite states with continuous actions are too many to tell apart "
                f"(at most {MOST_ONE_HOT}): give the observations as floats"
            )
        scales = Standardiser.fit(data.observations), Standardiser.fit(data.actions)
        return cls(shape, n_actions, *scales, absorbs, labels)

    @property
    def finite(self) -> bool:
        """Whether x is a number."""
        return self.shape is not None and self.n_actions is not None

    def states(self, observations: Array) -> Array:
        """Observations alone: state numbers, or standardised points."""
        if self.shape is None:
            return self.observation_scale(observations)
        if self.labels is not None:
            return np.array([self.labels.get(key, len(self.labels)) for key in _keys(observations)], dtype=np.int64)
        columns = np.asarray(observations).reshape(len(observations), -1)
        numbers: Array = np.ravel_multi_index(tuple(columns.T), self.shape)
        return numbers.astype(np.int64)

    def __call__(self, observations: Array, actions: Array) -> Array:
        """One x a row."""
        states = self.states(observations)
        if self.shape is not None and self.n_actions is not None:
            numbers: Array = states * self.n_actions + np.asarray(actions)
            return numbers
        if self.shape is not None:
            states = np.eye(prod(self.shape))[states]
        moves = self.action_scale(actions) if self.n_actions is None else np.eye(self.n_actions)[actions]
        ended = np.zeros((len(states), int(self.absorbs)))
        return np.hstack([states, moves, ended])

    def absorbing(self) -> Array:
        """The absorbing state as an array of one row."""
        if self.shape is not None and self.n_actions is not None:
            return np.array([prod(self.shape) * self.n_actions])
        width = prod(self.shape) if self.shape is not None else self.observation_scale.mean.size
        width += self.n_actions or self.action_scale.mean.size
        point = np.zeros((1, width + 1))
        point[0, -1] = FAR * sqrt(width)
        return point


def _state_shape(data: LoggedDataset) -> tuple[int, ...] | None:
    """How many values each coordinate of the state takes, by the space or by the data."""
    if not data.finite:
        return None
    space = data.observation_space
    seen = np.maximum(data.observations.max(axis=0), data.next_observations.max(axis=0)) + 1
    shape = tuple(np.atleast_1d(seen).tolist())
    if isinstance(space, spaces.Discrete):
        shape = (int(space.n),)
    elif isinstance(space, spaces.MultiDiscrete):
        shape = tuple(space.nvec.tolist())
    if (np.atleast_1d(seen) > np.array(shape)).any():
        raise ValueError(f"observations must be inside their space {space}: they reach {seen - 1}")
    return shape


def _labels(data: LoggedDataset) -> dict[bytes, int]:
    """A number for each state that was seen, whatever the order of the rows."""
    seen = {*_keys(data.observations), *_keys(data.next_observations)}
    return {key: number for number, key in enumerate(sorted(seen))}


def _keys(observations: Array) -> list[bytes]:
    """The bytes of each row."""
    rows = np.ascontiguousarray(observations, dtype=np.int64).reshape(len(observations), -1)
    keys: list[bytes] = rows.view(f"V{rows.itemsize * rows.shape[1]}")[:, 0].tolist()
    return keys
