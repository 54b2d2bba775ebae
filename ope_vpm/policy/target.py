"""Target policies: what an evaluation asks of them, and the kinds all others are built from.

Everything is batched: observations (n,) or (n, d) in, one action a row out. Nothing touches a global
random generator; draws come from the `rng` that is passed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from ope_vpm.arrays import Array, Bools, Floats

Generator = np.random.Generator
Bounds = tuple[npt.ArrayLike, npt.ArrayLike]

BATCH = 1 << 16
"""Observations given to a network at once."""
EDGE = 1e-6
"""How near to a bound, in widths between them, an action was clipped to it."""


class TargetPolicy(ABC):
    """The policy whose value is asked for."""

    n_actions: int | None = None
    """How many discrete actions it chooses from; None where it is continuous, or not known before a call."""
    action_dimension: int | None = None
    """Coordinates of a continuous action, where known."""
    observation_size: int | None = None
    """Numbers in one observation, where known; 1 for a discrete one."""
    made_from: Any = None
    """The library's object behind it, where its greedy action is this policy: for tools of that library."""

    @property
    def has_log_prob(self) -> bool:
        """Whether `log_prob` is there."""
        return type(self).log_prob is not TargetPolicy.log_prob

    @property
    def has_probabilities(self) -> bool:
        """Whether `probabilities` is there, that is, whether actions are discrete."""
        return type(self).probabilities is not TargetPolicy.probabilities

    @abstractmethod
    def sample(self, observations: Array, rng: Generator) -> Array:
        """One action a row."""

    def probabilities(self, observations: Array) -> Floats:
        """The probability of every discrete action, (n, n_actions)."""
        if self.n_actions is not None:
            raise TypeError(
                f"{type(self).__name__} draws discrete actions without saying how likely they are: "
                "give probabilities (all estimators but naive need them)"
            )
        raise TypeError(
            f"{type(self).__name__} has continuous actions, so there is no table of probabilities "
            "(are the logged actions floats?)"
        )

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The log-probability, or log-density in the units of `actions`, of one action a row."""
        raise TypeError(
            f"{type(self).__name__} gives actions without densities: wist, wiss, liu and onestep need them; "
            "vpm, model, fqe and naive do not (with_noise(policy, std=...) adds a density)"
        )

    def log_chance(self, observations: Array, actions: Array) -> Floats:
        """The same of what `sample` returns: where draws are clipped, the chance of the whole tail at a bound."""
        return self.log_prob(observations, actions)


class CategoricalPolicy(TargetPolicy):
    """Discrete actions, by a function from observations to probabilities (n, n_actions)."""

    def __init__(
        self,
        probabilities: Callable[[Array], npt.ArrayLike],
        n_actions: int | None = None,
        observation_size: int | None = None,
    ) -> None:
        self._function = probabilities
        self.n_actions = n_actions
        self.observation_size = observation_size

    def probabilities(self, observations: Array) -> Floats:
        """The probability of every action, checked."""
        values = in_batches(lambda part: np.asarray(self._function(part), dtype=np.float64), observations)
        return checked_probabilities(values, len(observations), self.n_actions)

    def sample(self, observations: Array, rng: Generator) -> Array:
        """Draw by one uniform number a row."""
        cumulative = self.probabilities(observations).cumsum(axis=1)
        uniform = rng.random((len(observations), 1)) * cumulative[:, -1:]
        drawn: Array = (uniform >= cumulative[:, :-1]).sum(axis=1)
        return drawn

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """Minus infinity where the policy never takes the action."""
        chosen = np.take_along_axis(self.probabilities(observations), np.asarray(actions)[:, None], axis=1)
        with np.errstate(divide="ignore"):
            values: Floats = np.log(chosen[:, 0])
        return values


class DeterministicPolicy(TargetPolicy):
    """Continuous actions without noise, by a function from observations to actions (n, m)."""

    def __init__(
        self,
        action: Callable[[Array], npt.ArrayLike],
        action_dimension: int | None = None,
        observation_size: int | None = None,
    ) -> None:
        self._function = action
        self.action_dimension = action_dimension
        self.observation_size = observation_size

    def sample(self, observations: Array, rng: Generator) -> Array:
        """The one action; `rng` is not used."""
        return self.action(observations)

    def action(self, observations: Array) -> Floats:
        """The one action a row, (n, m)."""
        values = in_batches(lambda part: np.asarray(self._function(part), dtype=np.float64), observations)
        return values.reshape(len(values), -1)


class GaussianPolicy(TargetPolicy):
    """Continuous actions around a mean, independent by coordinate.

    Args:
        moments: a function from observations to mean and standard deviation, both (n, m).
        squash: whether tanh follows, after which [-1, 1] is stretched to `bounds`.
        bounds: low and high of the actions. Without `squash`, draws are clipped to them, as environments
            do, while `log_prob` stays that of the unclipped Gaussian, as in the libraries.
        action_dimension: coordinates of an action, where known.
        observation_size: numbers in one observation, where known.
        edge: how far from ±1 an action is kept before tanh is undone.
        softness: added to 1 - tanh², as stable-baselines3 does.
    """

    def __init__(
        self,
        moments: Callable[[Array], tuple[npt.ArrayLike, npt.ArrayLike]],
        *,
        squash: bool = False,
        bounds: Bounds | None = None,
        action_dimension: int | None = None,
        observation_size: int | None = None,
        edge: float = 1e-6,
        softness: float = 0.0,
    ) -> None:
        self._function = moments
        self._edge = edge
        self._softness = softness
        self.squash = squash
        self.bounds = None if bounds is None else tuple(np.asarray(side, dtype=np.float64) for side in bounds)
        self.action_dimension = action_dimension
        self.observation_size = observation_size

    def moments(self, observations: Array) -> tuple[Floats, Floats]:
        """Mean and standard deviation, (n, m), before squashing or clipping."""
        both = in_batches(lambda part: np.stack(_broadcast(*self._function(part)), axis=1), observations)
        return both[:, 0], both[:, 1]

    def sample(self, observations: Array, rng: Generator) -> Array:
        """Draw, then squash or clip."""
        mean, std = self.moments(observations)
        raw = mean + std * rng.standard_normal(mean.shape)
        if self.squash:
            raw = np.tanh(raw)
            return raw if self.bounds is None else self._centre + self._half * raw
        return raw if self.bounds is None else np.clip(raw, *self.bounds)

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The density in the units of `actions`: it integrates to 1 over them."""
        mean, std = self.moments(observations)
        raw = np.asarray(actions, dtype=np.float64).reshape(mean.shape)
        correction = np.zeros_like(mean)
        if self.squash:
            unit = raw if self.bounds is None else (raw - self._centre) / self._half
            unit = np.clip(unit, -1 + self._edge, 1 - self._edge)
            raw = np.arctanh(unit)
            correction = np.log(1 - np.square(unit) + self._softness) + np.log(self._half)
        score = (raw - mean) / std
        terms = -0.5 * np.square(score) - np.log(std) - 0.5 * np.log(2 * np.pi) - correction
        total: Floats = terms.sum(axis=1)
        return total

    def log_chance(self, observations: Array, actions: Array) -> Floats:
        """The density inside the bounds, and at a bound the chance to be clipped to it."""
        if self.bounds is None or self.squash:
            return self.log_prob(observations, actions)
        mean, std = self.moments(observations)
        below, above = self.clipped(actions)
        score = (np.asarray(actions, dtype=np.float64).reshape(mean.shape) - mean) / std
        logs = -0.5 * np.square(score) - np.log(std) - 0.5 * np.log(2 * np.pi)
        logs[below], logs[above] = log_ndtr(score[below]), log_ndtr(-score[above])
        total: Floats = logs.sum(axis=1)
        return total

    def clipped(self, actions: Array) -> tuple[Bools, Bools]:
        """Which coordinates lie at the lower bound and at the upper; an action beyond them was not clipped."""
        return at_bounds(actions, () if self.bounds is None or self.squash else self.bounds)

    @property
    def _centre(self) -> Floats:
        low, high = self.bounds or (np.array(-1.0), np.array(1.0))
        return (low + high) / 2

    @property
    def _half(self) -> Floats:
        low, high = self.bounds or (np.array(-1.0), np.array(1.0))
        return (high - low) / 2


class TablePolicy(CategoricalPolicy):
    """Finite states, by a table: (states, actions), or (n₁, …, n_k, actions) for multi-discrete states."""

    def __init__(self, table: npt.ArrayLike) -> None:
        values = np.array(table, dtype=np.float64)
        if values.ndim < 2:
            raise ValueError(f"a table must have shape (states, actions): got {values.shape}")
        flat = checked_probabilities(values.reshape(-1, values.shape[-1]), values[..., 0].size, None)
        self.table = flat.reshape(values.shape)
        self.table.flags.writeable = False
        super().__init__(self._look_up, values.shape[-1], values.ndim - 1)

    def _look_up(self, observations: Array) -> Floats:
        index = np.asarray(observations)
        if index.dtype.kind not in "iu":
            raise TypeError(f"a table needs integer observations: got dtype {index.dtype}")
        index = index.reshape(len(index), -1)
        sizes = np.array(self.table.shape[:-1])
        if index.shape[1] != len(sizes) or (index < 0).any() or (index >= sizes).any():
            raise ValueError(
                f"the table knows states below {tuple(sizes.tolist())}: "
                f"got observations of shape {np.shape(observations)} up to {index.max(axis=0).tolist()}"
            )
        looked_up: Floats = self.table[tuple(index.T)]
        return looked_up


def at_bounds(actions: Array, bounds: tuple[npt.ArrayLike, ...]) -> tuple[Bools, Bools]:
    """Which coordinates lie at the lower bound and at the upper; none where there are no bounds."""
    values = np.asarray(actions, dtype=np.float64)
    values = values.reshape(len(values), -1)
    if not bounds:
        nowhere = np.zeros(values.shape, dtype=np.bool_)
        return nowhere, nowhere
    low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
    near = EDGE * np.where(np.isfinite(high - low), high - low, 1.0)
    return np.abs(values - low) <= near, np.abs(values - high) <= near


def in_batches(function: Callable[[Array], Array], observations: Array) -> Array:
    """Apply a function to at most `BATCH` rows at a time."""
    if len(observations) <= BATCH:
        return function(observations)
    parts = [function(observations[start : start + BATCH]) for start in range(0, len(observations), BATCH)]
    return np.concatenate(parts)


def checked_probabilities(values: Array, rows: int, n_actions: int | None) -> Floats:
    """Rows that sum to 1; float32 rounding is smoothed away."""
    if values.ndim != 2 or len(values) != rows or (n_actions is not None and values.shape[1] != n_actions):
        raise ValueError(f"probabilities must have shape ({rows}, {n_actions or 'actions'}): got {values.shape}")
    total = values.sum(axis=1, keepdims=True)
    wrong = ~(np.abs(total[:, 0] - 1) <= 1e-4) | (values < -1e-9).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"probabilities must not be negative and sum to 1: row {row} is {values[row]} "
            "(if these are logits, pass output='logits')"
        )
    clean: Floats = np.clip(values, 0.0, None) / total
    return clean


def _broadcast(mean: npt.ArrayLike, std: npt.ArrayLike) -> tuple[Floats, Floats]:
    centre = np.asarray(mean, dtype=np.float64)
    centre = centre.reshape(len(centre), -1)
    return centre, np.broadcast_to(np.asarray(std, dtype=np.float64), centre.shape)
