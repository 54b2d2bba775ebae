"""stable-baselines3: PPO, A2C, SAC, TD3, DDPG and DQN as models, with VecNormalize statistics.

Its files are read in `ope_vpm.policy.sb3_files`, which shares the second half of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.policy.calls import running
from ope_vpm.policy.continuous import DeterministicPolicy, GaussianPolicy
from ope_vpm.policy.discrete import CategoricalPolicy, one_hot
from ope_vpm.policy.target import TargetPolicy

FLOAT32_STEP = float(np.finfo(np.float32).eps)
TensorMaker = Callable[[Array], Any]
Moments = Callable[[Array], tuple[Array, Array]]


def from_sb3(model: Any, *, deterministic: bool = False, normalize: Any = None) -> TargetPolicy:
    """A target policy from a model or its policy.

    Args:
        model: a stable-baselines3 algorithm or policy.
        deterministic: take the mode instead of drawing.
        normalize: a `VecNormalize` whose observation statistics the policy was trained with; a model that
            still has its environment knows its own. Logged observations are raw ones.
    """
    policy = getattr(model, "policy", model)
    statistics = normalize
    if statistics is None and hasattr(model, "get_vec_normalize_env"):
        statistics = model.get_vec_normalize_env()
    policy.set_training_mode(False)
    tensor = _tensor_maker(policy, statistics)
    kinds = {
        "stable_baselines3.common.policies": _actor_critic,
        "stable_baselines3.sac.policies": _sac,
        "stable_baselines3.td3.policies": _td3,
        "stable_baselines3.dqn.policies": _dqn,
    }
    for cls in type(policy).__mro__:
        if cls.__module__ in kinds:
            return kinds[cls.__module__](policy, tensor, deterministic)
    raise TypeError(f"{type(policy).__name__} is not a policy we know: PPO, A2C, SAC, TD3, DDPG and DQN are")


def _tensor_maker(policy: Any, statistics: Any) -> TensorMaker:
    """From raw observations to what the network takes."""
    shape = policy.observation_space.shape

    def tensor(observations: Array) -> Any:
        return policy.obs_to_tensor(normalized(observations, shape, statistics))[0]

    return tensor


def _actor_critic(policy: Any, tensor: TensorMaker, deterministic: bool) -> TargetPolicy:
    """PPO and A2C."""
    interface = Interface(policy.observation_space, policy.action_space)
    interface.check_actor_critic(policy.squash_output)
    if isinstance(policy.action_space, spaces.Discrete):
        return categorical(
            interface, lambda seen: policy.get_distribution(tensor(seen)).distribution.probs, deterministic
        )

    def moments(seen: Array) -> tuple[Any, Any]:
        normal = policy.get_distribution(tensor(seen)).distribution
        return normal.mean, normal.stddev

    return gaussian(interface, moments, deterministic)


def _sac(policy: Any, tensor: TensorMaker, deterministic: bool) -> TargetPolicy:
    def moments(seen: Array) -> tuple[Any, Any]:
        mean, log_std, keywords = policy.actor.get_action_dist_params(tensor(seen))
        normal = policy.actor.action_dist.proba_distribution(mean, log_std, **keywords).distribution
        return normal.mean, normal.stddev

    return squashed(Interface(policy.observation_space, policy.action_space), moments, deterministic)


def _td3(policy: Any, tensor: TensorMaker, _: bool) -> TargetPolicy:
    interface = Interface(policy.observation_space, policy.action_space)
    return one_action(interface, lambda seen: policy.actor(tensor(seen)))


def _dqn(policy: Any, tensor: TensorMaker, _: bool) -> TargetPolicy:
    interface = Interface(policy.observation_space, policy.action_space)
    return greedy(interface, lambda seen: policy.q_net(tensor(seen)))


@dataclass(frozen=True)
class Interface:
    """What goes into a policy and what comes out of it."""

    observation_space: Any
    action_space: Any

    @property
    def sizes(self) -> dict[str, Any]:
        """Both sizes as keyword arguments of a continuous policy."""
        observation, action = self.observation_space, self.action_space
        return {
            "observation_size": int(np.prod(observation.shape)) if observation.shape is not None else None,
            "action_dimension": int(np.prod(action.shape)) if isinstance(action, spaces.Box) else None,
        }

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest action."""
        return self.action_space.low.reshape(-1), self.action_space.high.reshape(-1)

    def check_actor_critic(self, squash: bool) -> None:
        """Refuse kinds of actions that actor-critic policies have and we do not."""
        if not isinstance(self.action_space, spaces.Discrete | spaces.Box) or squash:
            raise TypeError(f"actions must be Discrete or an unsquashed Box: got {self.action_space}")


def normalized(observations: Array, shape: tuple[int, ...], statistics: Any) -> Array:
    """Observations in their own shape, normalised where the policy was trained behind a `VecNormalize`."""
    batch = np.asarray(observations).reshape(len(observations), *shape)
    return batch if statistics is None else np.asarray(statistics.normalize_obs(batch))


def categorical(interface: Interface, probabilities: Callable[[Array], Any], deterministic: bool) -> TargetPolicy:
    """Discrete actions by their probabilities, or the likeliest one."""
    count = int(interface.action_space.n)

    def table(seen: Array) -> Array:
        with running(seen):
            values = _numpy(probabilities(seen))
        return one_hot(values.argmax(axis=1), count) if deterministic else values

    return CategoricalPolicy(table, count, interface.sizes["observation_size"])


def gaussian(interface: Interface, moments: Callable[[Array], tuple[Any, Any]], deterministic: bool) -> TargetPolicy:
    """A Gaussian whose draws are clipped to the action space, or its clipped mean."""
    arrays = _as_arrays(moments)
    if deterministic:
        return DeterministicPolicy(lambda seen: np.clip(arrays(seen)[0], *interface.bounds), **interface.sizes)
    return GaussianPolicy(arrays, bounds=interface.bounds, **interface.sizes)


def squashed(interface: Interface, moments: Callable[[Array], tuple[Any, Any]], deterministic: bool) -> TargetPolicy:
    """The tanh of a Gaussian stretched to the action space, or that of its mean."""
    arrays = _as_arrays(moments)
    if deterministic:
        return DeterministicPolicy(lambda seen: _unscaled(interface, np.tanh(arrays(seen)[0])), **interface.sizes)
    return GaussianPolicy(
        arrays, squash=True, bounds=interface.bounds, edge=FLOAT32_STEP, softness=1e-6, **interface.sizes
    )


def one_action(interface: Interface, action: Callable[[Array], Any]) -> TargetPolicy:
    """TD3 and DDPG: one action in [-1, 1] for each state, stretched to the action space."""

    def stretched(seen: Array) -> Array:
        with running(seen):
            return _unscaled(interface, _numpy(action(seen)))

    return DeterministicPolicy(stretched, **interface.sizes)


def greedy(interface: Interface, values: Callable[[Array], Any]) -> TargetPolicy:
    """The action of the highest value; `with_noise(policy, epsilon=...)` makes it explore."""
    count = int(interface.action_space.n)

    def probabilities(seen: Array) -> Array:
        with running(seen):
            return one_hot(_numpy(values(seen)).argmax(axis=1), count)

    return CategoricalPolicy(probabilities, count, interface.sizes["observation_size"])


def _as_arrays(moments: Callable[[Array], tuple[Any, Any]]) -> Moments:
    def arrays(seen: Array) -> tuple[Array, Array]:
        with running(seen):
            mean, std = moments(seen)
        return _numpy(mean), _numpy(std)

    return arrays


def _unscaled(interface: Interface, actions: Array) -> Array:
    """From [-1, 1] to the action space."""
    low, high = interface.bounds
    stretched: Array = low + 0.5 * (actions + 1.0) * (high - low)
    return stretched


def _numpy(values: Any) -> Array:
    array: Array = values.detach().cpu().numpy()
    return array.reshape(len(array), -1)
