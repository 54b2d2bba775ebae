"""Noise on top of a policy: ε-greedy for discrete actions, Gaussian for continuous ones, or more variance."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array, Floats
from ope_vpm.policy.continuous import DeterministicPolicy, GaussianPolicy
from ope_vpm.policy.discrete import CategoricalPolicy
from ope_vpm.policy.function import FunctionPolicy
from ope_vpm.policy.load import as_policy
from ope_vpm.policy.target import Bounds, Clipping, Generator, TargetPolicy


def with_noise(
    policy: Any, *, epsilon: float | None = None, std: npt.ArrayLike | None = None, bounds: Bounds | None = None
) -> TargetPolicy:
    """The policy with noise on its actions.

    Args:
        policy: what to disturb, as `as_policy` takes it.
        epsilon: for discrete actions, the probability of a uniformly random one instead.
        std: for continuous actions, the standard deviation of added Gaussian noise. On a deterministic or
            plain Gaussian policy the result has a density; on others only draws.
        bounds: low and high to which noisy continuous actions are clipped.

    ```python
    import numpy as np
    import ope_vpm as ov

    careful = ov.with_noise(np.eye(2), epsilon=0.2)
    assert np.allclose(careful.probabilities(np.array([0])), [[0.9, 0.1]])
    ```
    """
    if (epsilon is None) == (std is None):
        raise ValueError("give either epsilon (discrete actions) or std (continuous ones), not both or none")
    policy = as_policy(policy)
    if epsilon is not None:
        if not 0 <= epsilon <= 1:
            raise ValueError(f"epsilon must be between 0 and 1: got {epsilon}")
        return _once_recognised(policy, lambda known: _epsilon_greedy(known, epsilon))
    spread = np.asarray(std, dtype=np.float64)
    if not (np.isfinite(spread) & (spread > 0)).all():
        raise ValueError(f"std must be positive: got {std!r}")
    return _once_recognised(policy, lambda known: _with_gaussian_noise(known, spread, bounds))


def with_variance(policy: TargetPolicy, factor: float) -> TargetPolicy:
    """The Gaussian policy with `factor` times its variance and the same bounds."""
    if not factor > 0:
        raise ValueError(f"the factor of the variance must be positive: got {factor}")
    return _once_recognised(policy, lambda known: _with_variance(known, factor))


def _once_recognised(policy: TargetPolicy, change: Callable[[TargetPolicy], TargetPolicy]) -> TargetPolicy:
    """The changed policy; of a function, whose kind is not known yet, after its first call."""
    if not isinstance(policy, FunctionPolicy):
        return change(policy)
    changed = FunctionPolicy(lambda observations, count: change(policy.recognised(observations, count)))
    changed.observation_size = policy.observation_size
    return changed


def _epsilon_greedy(policy: TargetPolicy, epsilon: float) -> TargetPolicy:
    if not policy.has_probabilities:
        raise TypeError("epsilon is for discrete actions: this policy is continuous (use std)")

    def mixed(observations: Array) -> Floats:
        greedy = policy.probabilities(observations)
        return (1 - epsilon) * greedy + epsilon / greedy.shape[1]

    return CategoricalPolicy(mixed, policy.n_actions, policy.observation_size)


def _with_gaussian_noise(policy: TargetPolicy, std: Floats, bounds: Bounds | None) -> TargetPolicy:
    if policy.has_probabilities:
        raise TypeError("std is for continuous actions: this policy is discrete (use epsilon)")
    sizes: dict[str, Any] = {"action_dimension": policy.action_dimension, "observation_size": policy.observation_size}
    if isinstance(policy, DeterministicPolicy):
        return GaussianPolicy(lambda seen: (policy.action(seen), std), bounds=bounds, **sizes)
    if isinstance(policy, GaussianPolicy) and not policy.squash and policy.bounds is None:
        return GaussianPolicy(lambda seen: _wider(*policy.moments(seen), std), bounds=bounds, **sizes)
    return _Jittered(policy, std, bounds)


def _with_variance(policy: TargetPolicy, factor: float) -> TargetPolicy:
    if not isinstance(policy, GaussianPolicy) or policy.squash:
        raise ValueError("only a Gaussian policy without squashing has a variance to multiply: this one is another")

    def moments(observations: Array) -> tuple[Floats, Floats]:
        mean, std = policy.moments(observations)
        return mean, std * factor**0.5

    return GaussianPolicy(
        moments,
        bounds=policy.bounds,
        action_dimension=policy.action_dimension,
        observation_size=policy.observation_size,
    )


def _wider(mean: Floats, std: Floats, extra: Floats) -> tuple[Floats, Floats]:
    return mean, np.hypot(std, extra)


class _Jittered(TargetPolicy):
    """Draws of another policy plus Gaussian noise."""

    def __init__(self, policy: TargetPolicy, std: Floats, bounds: Bounds | None) -> None:
        self._policy = policy
        self._std = std
        self._clipping = Clipping() if bounds is None else Clipping.at(*bounds)
        self.action_dimension = policy.action_dimension
        self.observation_size = policy.observation_size

    def described(self) -> list[str]:
        return [repr(self._policy), "with noise"]

    @property
    def clipping(self) -> Clipping:
        return self._clipping

    def sample(self, observations: Array, rng: Generator) -> Array:
        actions = self._policy.sample(observations, rng)
        noisy: Array = actions + self._std * rng.standard_normal(actions.shape)
        return self._clipping.clip(noisy)

    def mean_action(self, observations: Array) -> Floats | None:
        return self._policy.mean_action(observations)
