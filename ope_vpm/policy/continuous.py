"""Policies with continuous actions: one action in each state, or a Gaussian that may be squashed or clipped."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from ope_vpm.arrays import Array, Bools, Floats
from ope_vpm.policy.target import DRAWS, Bounds, Clipping, Generator, TargetPolicy, checked_actions, in_batches

Moments = Callable[[Array], tuple[npt.ArrayLike, npt.ArrayLike]]
SATURATED = 1e-6
"""How far from ±1 an action is kept before tanh is undone: float32 actions this near may have been ±1 itself, where
the inverse is infinite."""


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
        """The one action of each row, (n, m)."""
        return in_batches(lambda part: checked_actions(self._function(part), self.action_dimension), observations)

    def action_moments(self, observations: Array, rng: Generator, draws: int = DRAWS) -> tuple[Floats, Floats]:
        """The action and its square; nothing is drawn."""
        action = self.action(observations)
        return action, np.square(action)

    def expected(
        self, function: Callable[[Floats], Floats], observations: Array, rng: Generator, draws: int = DRAWS
    ) -> Floats:
        """The function of the one action; nothing is drawn."""
        return function(self.action(observations))

    def mean_action(self, observations: Array) -> Floats:
        """The one action of each row, (n, m)."""
        return self.action(observations)


class GaussianPolicy(TargetPolicy):
    """Continuous actions around a mean, independent by coordinate.

    Args:
        moments: a function from observations to mean and standard deviation, both (n, m).
        squash: whether tanh follows, after which [-1, 1] is stretched to `bounds`.
        bounds: low and high of the actions. Without `squash`, draws are clipped to them, as environments
            do, while `log_prob` stays that of the unclipped Gaussian, as in the libraries.
        action_dimension: coordinates of an action, where known.
        observation_size: numbers in one observation, where known.
        edge: how far from ±1 an action is kept before tanh is undone in `log_prob`.
        softness: added to 1 - tanh² in `log_prob`, as stable-baselines3 does.
    """

    def __init__(
        self,
        moments: Moments,
        *,
        squash: bool = False,
        bounds: Bounds | None = None,
        action_dimension: int | None = None,
        observation_size: int | None = None,
        edge: float = SATURATED,
        softness: float = 0.0,
    ) -> None:
        self._function = moments
        self._edge = edge
        self._softness = softness
        self.squash = squash
        self.bounds: tuple[Floats, Floats] | None = None
        if bounds is not None:
            low, high = (np.asarray(side, dtype=np.float64) for side in bounds)
            self.bounds = low, high
        self.action_dimension = action_dimension
        self.observation_size = observation_size

    def described(self) -> list[str]:
        """Its sizes, and whether its draws are squashed or clipped, in words."""
        bounded = "squashed by tanh" if self.squash else "clipped to bounds" if self.bounds is not None else None
        return [*super().described(), *([bounded] if bounded else [])]

    @property
    def clipping(self) -> Clipping:
        """The bounds, unless tanh keeps draws inside them."""
        return Clipping() if self.bounds is None or self.squash else Clipping.at(*self.bounds)

    def moments(self, observations: Array) -> tuple[Floats, Floats]:
        """Mean and standard deviation, (n, m), before squashing or clipping."""
        both = in_batches(lambda part: np.stack(checked_moments(*self._function(part)), axis=1), observations)
        return both[:, 0], both[:, 1]

    def sample(self, observations: Array, rng: Generator) -> Array:
        """Draw, then squash or clip."""
        mean, std = self.moments(observations)
        raw = mean + std * rng.standard_normal(mean.shape)
        if self.squash:
            return self._centre + self._half * np.tanh(raw)
        return self.clipping.clip(raw)

    def log_prob(self, observations: Array, actions: Array) -> Floats:
        """The density in the units of `actions`: it integrates to 1 over them."""
        mean, std = self.moments(observations)
        raw, logs = checked_actions(actions).reshape(mean.shape), np.zeros_like(mean)
        if self.squash:
            unit = self._unit(raw, self._edge)
            raw, logs = np.arctanh(unit), -np.log(1 - np.square(unit) + self._softness) - np.log(self._half)
        return (logs + log_densities((raw - mean) / std, std)).sum(axis=1)

    def log_likelihood(self, observations: Array, actions: Array) -> Floats:
        """The density inside the bounds, and at a bound the probability of being clipped to it."""
        if self.squash:
            return self.log_prob(observations, actions)
        mean, std = self.moments(observations)
        z = (checked_actions(actions).reshape(mean.shape) - mean) / std
        return clipped_log_densities(z, std, *self.clipping.at_bounds(actions)).sum(axis=1)

    def action_moments(self, observations: Array, rng: Generator, draws: int = DRAWS) -> tuple[Floats, Floats]:
        """E_π[a] and E_π[a²] in closed form, or by quantiles where tanh follows; nothing is drawn."""
        mean, std = self.moments(observations)
        if self.squash:
            return squashed_moments(mean, std, self._centre, self._half)
        if self.bounds is None:
            return mean, mean**2 + std**2
        first, second = clipped_moments((self.bounds[0] - mean) / std, (self.bounds[1] - mean) / std)
        return mean + std * first, mean**2 + 2 * mean * std * first + std**2 * second

    def mean_action(self, observations: Array) -> Floats:
        """The median action, (n, m): the mean, squashed or clipped as draws are."""
        mean, _ = self.moments(observations)
        return self._centre + self._half * np.tanh(mean) if self.squash else self.clipping.clip(mean)

    def score(self, observations: Array, actions: Array) -> Floats:
        """(a - mean)/std of one action per row, (n, m), before squashing."""
        mean, std = self.moments(observations)
        raw = checked_actions(actions).reshape(mean.shape)
        if self.squash:
            raw = np.arctanh(self._unit(raw, SATURATED))
        return (raw - mean) / std

    def _unit(self, actions: Floats, edge: float) -> Floats:
        """Squashed actions on the scale of tanh itself, kept `edge` away from ±1."""
        return np.clip((actions - self._centre) / self._half, -1 + edge, 1 - edge)

    @property
    def _centre(self) -> Floats:
        low, high = self.bounds or (np.array(-1.0), np.array(1.0))
        return (low + high) / 2

    @property
    def _half(self) -> Floats:
        low, high = self.bounds or (np.array(-1.0), np.array(1.0))
        return (high - low) / 2


LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)
"""Minus the log-density of a standard normal distribution at 0."""
NODES = 100
"""Quantiles over which tanh of a Gaussian is averaged: moments of actions in [-1, 1] are then right to about 1e-3,
and smooth in the mean, which draws are not."""


def log_densities(z: Floats, std: Floats) -> Floats:
    """The log-density of each coordinate, in the units of the actions, where z = (a - mean)/std."""
    return -0.5 * np.square(z) - np.log(std) - LOG_ROOT_TWO_PI


def clipped_log_densities(z: Floats, std: Floats, below: Bools, above: Bools) -> Floats:
    """The log-density of each coordinate, and where it was clipped the log-probability of the tail beyond the bound.

    Args:
        z: (a - mean)/std, with a the bound where the draw was clipped.
        std: the standard deviation, which broadcasts against `z`.
        below: which entries were clipped to the lower bound.
        above: which entries were clipped to the upper bound.
    """
    logs = log_densities(z, std)
    logs[below], logs[above] = log_ndtr(z[below]), log_ndtr(-z[above])
    return logs


def clipped_moments(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """E[clip(ξ)] and E[clip(ξ)²] of a standard normal ξ that is clipped to [low, high]; bounds may be infinite."""
    inside = ndtr(high) - ndtr(low)
    first = _normal_density(low) - _normal_density(high)
    second = inside
    for edge, beyond, sign in ((low, ndtr(low), 1.0), (high, ndtr(-high), -1.0)):
        at = np.where(np.isfinite(edge), edge, 0.0)
        first = first + at * beyond
        second = second + at**2 * beyond + sign * at * _normal_density(at) * np.isfinite(edge)
    return first, second


def _normal_density(x: Floats) -> Floats:
    return np.exp(-0.5 * np.square(x) - LOG_ROOT_TWO_PI)


def squashed_moments(mean: Floats, std: Floats, centre: Floats, half: Floats) -> tuple[Floats, Floats]:
    """E[a] and E[a²] of a = centre + half·tanh(mean + std·ξ) with a standard normal ξ.

    They are averages over equally likely quantiles of ξ rather than a Gauss-Hermite rule: tanh of a wide Gaussian is
    nearly a step, which polynomials follow badly.
    """
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    for node in ndtri((np.arange(NODES) + 0.5) / NODES):
        action = centre + half * np.tanh(mean + std * node)
        first += action / NODES
        second += action**2 / NODES
    return first, second


def checked_moments(mean: npt.ArrayLike, std: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Means and positive standard deviations, both (n, m), as a policy's function returned them."""
    centre, spread = checked_actions(mean), np.asarray(std, dtype=np.float64)
    if not (np.isfinite(spread) & (spread > 0)).all():
        raise ValueError(f"a standard deviation must be positive: the policy returns {spread.min()}")
    return centre, np.broadcast_to(spread, centre.shape)
