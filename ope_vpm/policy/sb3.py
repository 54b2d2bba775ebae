"""stable-baselines3: PPO, A2C, SAC, TD3, DDPG, DQN, and sb3-contrib's TRPO, TQC, CrossQ, QRDQN, ARS.

Its files are read in `ope_vpm.policy.sb3_files`, which shares the second half of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.joint_actions import Joint, joint_sizes
from ope_vpm.optional import torch
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
    interface = Interface(policy.observation_space, policy.action_space)

    def tensor(observations: Array) -> Any:
        return policy.obs_to_tensor(normalized(observations, policy.observation_space, statistics))[0]

    kinds: dict[str, Callable[[], TargetPolicy]] = {
        "stable_baselines3.common.policies": lambda: _actor_critic(policy, interface, tensor, deterministic),
        "stable_baselines3.sac.policies": lambda: _sac(policy, interface, tensor, deterministic),
        "stable_baselines3.td3.policies": lambda: one_action(interface, lambda seen: policy.actor(tensor(seen))),
        "stable_baselines3.dqn.policies": lambda: greedy(interface, lambda seen: policy.q_net(tensor(seen))),
        "sb3_contrib.tqc.policies": lambda: _sac(policy, interface, tensor, deterministic),
        "sb3_contrib.crossq.policies": lambda: _sac(policy, interface, tensor, deterministic),
        "sb3_contrib.qrdqn.policies": lambda: greedy(
            interface, lambda seen: policy.quantile_net(tensor(seen)).mean(dim=1)
        ),
        "sb3_contrib.ars.policies": lambda: simple(
            interface,
            lambda seen: policy.action_net(policy.extract_features(tensor(seen), policy.features_extractor)),
            (lambda action: action) if policy.squash_output else None,  # its last layer is the tanh
        ),
    }
    if hasattr(policy, "lstm_actor"):
        raise TypeError(f"{type(policy).__name__} remembers earlier observations: policies must act by the present one")
    for cls in type(policy).__mro__:
        if cls.__module__ in kinds and cls.__name__ not in ("BasePolicy", "BaseModel"):
            return kinds[cls.__module__]()
    raise TypeError(
        f"{type(policy).__name__} is not a policy we know: those of PPO, A2C, SAC, TD3, DDPG, DQN, TRPO, TQC, CrossQ, "
        "QRDQN and ARS are (a function that returns its actions is a policy, too)"
    )


def _actor_critic(policy: Any, interface: Interface, tensor: TensorMaker, deterministic: bool) -> TargetPolicy:
    """PPO and A2C."""
    interface.check_actor_critic(policy.squash_output)
    if not isinstance(policy.action_space, spaces.Box):
        return categorical(
            interface,
            lambda seen: _all_probabilities(policy.get_distribution(tensor(seen)).distribution),
            deterministic,
        )

    def moments(seen: Array) -> tuple[Any, Any]:
        normal = policy.get_distribution(tensor(seen)).distribution
        return normal.mean, normal.stddev

    return gaussian(interface, moments, deterministic)


def _sac(policy: Any, interface: Interface, tensor: TensorMaker, deterministic: bool) -> TargetPolicy:
    def moments(seen: Array) -> tuple[Any, Any]:
        mean, log_std, keywords = policy.actor.get_action_dist_params(tensor(seen))
        normal = policy.actor.action_dist.proba_distribution(mean, log_std, **keywords).distribution
        return normal.mean, normal.stddev

    return squashed(interface, moments, deterministic)


@dataclass(frozen=True)
class Interface:
    """The observation space and the action space of a policy."""

    observation_space: Any
    action_space: Any

    @property
    def sizes(self) -> dict[str, Any]:
        """Both sizes as keyword arguments of a continuous policy."""
        observation, action = self.observation_space, self.action_space
        return {
            "observation_size": flat_size(observation),
            "action_dimension": int(np.prod(action.shape)) if isinstance(action, spaces.Box) else None,
        }

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest action."""
        return self.action_space.low.reshape(-1), self.action_space.high.reshape(-1)

    @property
    def n_actions(self) -> int:
        """The number of discrete actions, or of combinations of them."""
        space = self.action_space
        return int(space.n) if isinstance(space, spaces.Discrete) else prod(joint_sizes(space))

    def check_actor_critic(self, squash: bool) -> None:
        """Refuse kinds of actions that actor-critic policies have and we do not."""
        if not isinstance(self.action_space, spaces.Discrete | spaces.Box | Joint) or squash:
            raise TypeError(
                f"actions must be Discrete, MultiDiscrete, MultiBinary or an unsquashed Box: got {self.action_space}"
            )


def normalized(observations: Array, space: spaces.Space[Any], statistics: Any) -> Any:
    """Observations in their own shape, normalised where the policy was trained behind a `VecNormalize`.

    Those of a dictionary space are taken apart, the parts being laid side by side in the order of their sorted names.
    """
    if isinstance(space, spaces.Dict):
        batch: Any = taken_apart(observations, space)
        return batch if statistics is None else statistics.normalize_obs(batch)
    batch = np.asarray(observations).reshape(len(observations), *(space.shape or ()))
    return batch if statistics is None else np.asarray(statistics.normalize_obs(batch))


def taken_apart(observations: Array, space: spaces.Dict) -> dict[str, Array]:
    """The parts of a dictionary space from rows in which they are laid side by side."""
    rows = np.asarray(observations).reshape(len(observations), -1)
    names = sorted(space.spaces)
    ends = np.cumsum([flat_size(space[name]) for name in names])
    if rows.shape[1] != ends[-1]:
        raise ValueError(f"observations must have {ends[-1]} numbers, as {space} has: got {rows.shape[1]}")
    pieces = np.split(rows, ends[:-1], axis=1)
    return {
        name: piece.reshape(len(rows), *(space[name].shape or ())).astype(space[name].dtype)
        for name, piece in zip(names, pieces, strict=True)
    }


def flat_size(space: spaces.Space[Any]) -> int:
    """Numbers in one observation as a log holds it; 1 for a discrete one."""
    if isinstance(space, spaces.Dict):
        return sum(flat_size(part) for part in space.spaces.values())
    return int(np.prod(space.shape or ()))


def joint_probabilities(parts: list[Any]) -> Any:
    """The probabilities of all combinations of independent coordinates, the last of which changes fastest."""
    table = parts[0]
    for part in parts[1:]:
        table = (table[:, :, None] * part[:, None, :]).reshape(len(table), -1)
    return table


def with_failure(success: Any) -> list[Any]:
    """For each coordinate the probabilities of 0 and 1, from those of 1."""
    return list(torch.stack([1 - success, success], dim=2).unbind(dim=1))


def _all_probabilities(distribution: Any) -> Any:
    """The probabilities of the library's distributions: one categorical, several of them, or Bernoulli coordinates."""
    if isinstance(distribution, list):
        return joint_probabilities([part.probs for part in distribution])
    if isinstance(distribution, torch.distributions.Bernoulli):
        return joint_probabilities(with_failure(distribution.probs))
    return distribution.probs


def categorical(interface: Interface, probabilities: Callable[[Array], Any], deterministic: bool) -> TargetPolicy:
    """Discrete actions by their probabilities, or the likeliest one."""
    count = interface.n_actions

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


def simple(interface: Interface, network: TensorMaker, squash: Callable[[Any], Any] | None) -> TargetPolicy:
    """ARS: the likeliest discrete action; else what the network says, squashed and stretched, or clipped."""
    if isinstance(interface.action_space, spaces.Discrete):
        return greedy(interface, network)
    if squash is not None:
        return one_action(interface, lambda seen: squash(network(seen)))

    def kept(seen: Array) -> Array:
        with running(seen):
            return np.clip(_numpy(network(seen)), *interface.bounds)

    return DeterministicPolicy(kept, **interface.sizes)


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
    """Scale actions from [-1, 1] to the action space."""
    low, high = interface.bounds
    return low + 0.5 * (actions + 1.0) * (high - low)


def _numpy(values: Any) -> Array:
    array: Array = values.detach().cpu().numpy()
    return array.reshape(len(array), -1)
