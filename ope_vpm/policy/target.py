"""The interface of a target policy, and the checks of what a policy returns.

Everything is batched: observations (n,) or (n, d) in, one action per row out. Nothing touches a global random
generator; draws come from the `rng` that is passed in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import LARGEST, Array, Bools, Floats, usable

Generator = np.random.Generator
Bounds = tuple[npt.ArrayLike, npt.ArrayLike]

BATCH = 1 << 16
"""Observations given to a network at once: enough for full speed, few enough for hidden layers to fit in memory."""
AT_BOUND = 1e-6
"""How near to a bound an action counts as clipped to it, in distances between the bounds: the rounding of float32
actions is below it, and a density puts next to nothing there."""
DRAWS = 8
"""Actions drawn in each state where a policy's moments have no closed form."""


@dataclass(frozen=True)
class Clipping:
    """The bounds to which a policy clips its draws, one number per coordinate or one for all; hashable."""

    low: tuple[float, ...] = (-np.inf,)
    high: tuple[float, ...] = (np.inf,)

    @classmethod
    def at(cls, low: npt.ArrayLike, high: npt.ArrayLike) -> Clipping:
        """Make the bounds from arrays or numbers."""
        sides = (np.asarray(side, dtype=np.float64).reshape(-1).tolist() for side in (low, high))
        return cls(*(tuple(side) for side in sides))

    def clip(self, actions: Array) -> Floats:
        """Actions (n, m), moved to the nearest bound where they lie beyond it."""
        return np.clip(np.asarray(actions, dtype=np.float64), self.low, self.high)

    def at_bounds(self, actions: Array) -> tuple[Bools, Bools]:
        """Which coordinates of the actions, (n, m), lie at the lower bound, and which at the upper.

        An action beyond a bound was not clipped to it.
        """
        values = np.asarray(actions, dtype=np.float64)
        values = values.reshape(len(values), -1)
        low, high = np.array(self.low), np.array(self.high)
        near = AT_BOUND * np.where(np.isfinite(high - low), high - low, 1.0)
        return np.abs(values - low) <= near, np.abs(values - high) <= near


class TargetPolicy(ABC):
    """The policy whose value is asked for.

    A subclass must be able to `sample`. Everything else that it can tell makes estimates better; what it cannot tell
    is None, or raises a `TypeError` that says what to do, and `has_log_prob` and `has_probabilities` tell beforehand.
    """

    n_actions: int | None = None
    """How many discrete actions it chooses from; None where it is continuous, or not known before a call."""
    action_dimension: int | None = None
    """Coordinates of a continuous action, where known."""
    observation_size: int | None = None
    """Numbers in one observation, where known; 1 for a discrete one."""
    normalized_by: str | None = None
    """The file whose statistics normalise observations before the policy sees them, where there is one."""
    made_from: Any = None
    """The library's object behind it, where its greedy action is this policy: for tools of that library."""

    @staticmethod
    def of(policy: Any) -> TargetPolicy:
        """A target policy from what `ope_vpm.as_policy` takes."""
        if isinstance(policy, TargetPolicy):
            return policy
        from ope_vpm.policy.load import as_policy  # which knows every kind, and builds upon this module

        return as_policy(policy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.described())})"

    def described(self) -> list[str]:
        """Its sizes and its source, in words."""
        words: list[str] = []
        if self.n_actions is not None:
            words.append(f"{self.n_actions} actions")
        elif self.action_dimension is not None:
            words.append(f"{self.action_dimension}-dimensional actions")
        if self.observation_size is not None:
            words.append(f"{self.observation_size}-dimensional observations")
        if self.normalized_by is not None:
            words.append(f"observations normalised by {self.normalized_by}")
        if self.made_from is not None:
            kind = type(self.made_from)
            words.append(f"{kind.__name__} of {kind.__module__.partition('.')[0]}")
        return words

    @property
    def has_log_prob(self) -> bool:
        """Whether it has `log_prob`, and with it `log_likelihood`."""
        return type(self).log_prob is not TargetPolicy.log_prob

    @property
    def has_probabilities(self) -> bool:
        """Whether it has `probabilities`, that is, whether its actions are discrete."""
        return type(self).probabilities is not TargetPolicy.probabilities

    @property
    def clipping(self) -> Clipping:
        """The bounds to which `sample` clips; infinite where it does not clip."""
        return Clipping()

    def recognised(self, observations: Array, n_actions: int | None = None) -> TargetPolicy:
        """The policy itself, once it is known of what kind it is.

        Args:
            observations: a few of them, to find out.
            n_actions: how many discrete actions the data have; None where they are continuous, or not known.
        """
        return self

    def alike(self, policy: TargetPolicy) -> TargetPolicy:
        """Another policy, taking the observations that this one takes: itself, unless they have more coordinates."""
        return policy

    @abstractmethod
    def sample(self, observations: Array, rng: Generator) -> Array:
        """One action per row."""

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
        """The log-probability of one discrete action per row, or the log-density in the units of `actions`.

        Where draws are clipped, this is the density before clipping, as in stable-baselines3 and d3rlpy.
        """
        raise TypeError(
            f"{type(self).__name__} gives actions without densities: wist, wiss, liu and onestep need them; "
            "vpm, model, fqe and naive do not (with_noise(policy, std=...) adds a density)"
        )

    def log_likelihood(self, observations: Array, actions: Array) -> Floats:
        """The log-likelihood of one action per row as `sample` returns it.

        It differs from `log_prob` where draws are clipped: at a bound it holds the probability of the whole tail.
        """
        return self.log_prob(observations, actions)

    def action_moments(self, observations: Array, rng: Generator, draws: int = DRAWS) -> tuple[Floats, Floats]:
        """E_π[a] and E_π[a²] of every coordinate, (n, m), of actions as `sample` returns them.

        Args:
            observations: where to take the moments.
            rng: for policies without a closed form, which draw.
            draws: how many actions these draw in each state.
        """
        shape = (draws, len(observations), -1)
        drawn: Floats = np.stack([self.sample(observations, rng) for _ in range(draws)]).astype(np.float64)
        drawn = drawn.reshape(shape)
        return drawn.mean(axis=0), np.square(drawn).mean(axis=0)

    def expected(
        self, function: Callable[[Floats], Floats], observations: Array, rng: Generator, draws: int = DRAWS
    ) -> Floats:
        """E_π[f(a)] in each state, of a function of continuous actions (n, m), as `sample` returns them.

        Args:
            function: f, from actions to as many rows of numbers.
            observations: the states.
            rng: for policies that draw.
            draws: how many actions these draw in each state.
        """
        total = function(checked_actions(self.sample(observations, rng)))
        for _ in range(draws - 1):
            total = total + function(checked_actions(self.sample(observations, rng)))
        return total / draws

    def mean_action(self, observations: Array) -> Floats | None:
        """Its mean action in each state, as numbers that are known without drawing, (n, m).

        The mean or median of a continuous action, or the probabilities of all discrete actions but the last, which
        follows from the others. None where neither is known.
        """
        return self.probabilities(observations)[:, :-1] if self.has_probabilities else None

    def score(self, observations: Array, actions: Array) -> Floats | None:
        """(a - mean)/std of one action per row, (n, m), before squashing: standard normal draws where π acted.

        None where the policy is not Gaussian. At a clipped coordinate it is that of the bound.
        """
        return None


def in_batches(function: Callable[[Array], Array], observations: Array) -> Array:
    """Apply a function to at most `BATCH` rows at a time, each time to a copy, which it may edit without harm."""
    starts = range(0, max(len(observations), 1), BATCH)
    parts = [_one_per_row(function, np.array(observations[start : start + BATCH])) for start in starts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _one_per_row(function: Callable[[Array], Array], batch: Array) -> Array:
    rows = len(batch)
    values = function(batch)
    if values.ndim == 0 or len(values) != rows:
        raise ValueError(f"a policy must return one row for each of the {rows} observations: got shape {values.shape}")
    return values


def checked_actions(values: npt.ArrayLike, dimension: int | None = None) -> Floats:
    """Finite continuous actions, (n, m), as a policy's function returned them; (n,) is taken for (n, 1)."""
    actions = np.asarray(values, dtype=np.float64)
    actions = actions[:, None] if actions.ndim == 1 else actions
    if actions.ndim != 2 or (dimension is not None and actions.shape[1] != dimension):
        raise ValueError(f"actions must have shape (n, {dimension or 'm'}): got {np.shape(values)}")
    wrong = ~usable(actions).all(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"actions must be finite numbers, none beyond {LARGEST:g}: row {row} is {actions[row]}")
    return actions
