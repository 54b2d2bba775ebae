"""stable-baselines3: PPO, A2C, SAC, TD3, DDPG and DQN, as models or .zip files, with VecNormalize statistics.

A .zip is read without running anything from it: its weights as tensors only, its settings by
`ope_vpm.policy.safe_pickle`. Settings of your own making (a custom network class) need `trust=True`.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.optional import library
from ope_vpm.policy.continuous import DeterministicPolicy, GaussianPolicy
from ope_vpm.policy.discrete import CategoricalPolicy, one_hot
from ope_vpm.policy.safe_pickle import safe_loads
from ope_vpm.policy.target import TargetPolicy

FLOAT32_STEP = float(np.finfo(np.float32).eps)
SETTINGS = ("policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde")
LARGEST = 1 << 31
"""Bytes of one member of an archive beyond which it is taken for an attack."""


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


def load_sb3(path: Path, *, trust: bool, deterministic: bool = False, normalize: Any = None) -> TargetPolicy:
    """A target policy from a model's .zip."""
    library("stable_baselines3", "sb3")
    with zipfile.ZipFile(path) as archive:
        settings = _settings(path, archive, trust)
        weights = _weights(path, archive)
    keywords = dict(settings["policy_kwargs"] or {})
    if "common.policies" in settings["policy_class"].__module__:
        keywords.setdefault("use_sde", bool(settings["use_sde"]))
    try:
        policy = settings["policy_class"](
            settings["observation_space"], settings["action_space"], lambda _: 0.0, **keywords
        )
        policy.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"{path} holds weights that do not fit its settings: {error}") from error
    if isinstance(normalize, str | Path):
        normalize = _load_statistics(Path(normalize), trust)
    return from_sb3(policy, deterministic=deterministic, normalize=normalize)


def _settings(path: Path, archive: zipfile.ZipFile, trust: bool) -> dict[str, Any]:
    try:
        stored = json.loads(_member(path, archive, "data"))
        found = {name: stored.get(name) for name in SETTINGS}
        for name, value in found.items():
            if isinstance(value, dict) and ":serialized:" in value:
                found[name] = safe_loads(base64.b64decode(value[":serialized:"]), trust)
    except PermissionError as error:
        raise PermissionError(f"{path} is not read without trust: {error}") from error
    except (ValueError, AttributeError) as error:
        raise ValueError(f"the settings in {path} are damaged: {error}") from error
    return found


def _weights(path: Path, archive: zipfile.ZipFile) -> Any:
    stored = io.BytesIO(_member(path, archive, "policy.pth"))
    return torch.load(stored, map_location="cpu", weights_only=True)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > LARGEST:
        raise ValueError(f"{name} in {path} unpacks to more than {LARGEST >> 30} GiB: it is not read")
    return archive.read(name)


def _load_statistics(path: Path, trust: bool) -> Any:
    if not trust:
        raise PermissionError(
            f"{path} is a pickle, and loading a pickle runs whatever code is in it: "
            "pass trust=True if you know where it comes from"
        )
    return safe_loads(path.read_bytes(), trust=True)


def _tensor_maker(policy: Any, statistics: Any) -> Callable[[Array], Any]:
    """From raw observations to what the network takes."""
    shape = policy.observation_space.shape

    def tensor(observations: Array) -> Any:
        batch = np.asarray(observations).reshape(len(observations), *shape)
        if statistics is not None:
            batch = statistics.normalize_obs(batch)
        return policy.obs_to_tensor(batch)[0]

    return tensor


def _sizes(policy: Any) -> dict[str, Any]:
    observation, action = policy.observation_space, policy.action_space
    return {
        "observation_size": int(np.prod(observation.shape)) if observation.shape is not None else None,
        "action_dimension": int(np.prod(action.shape)) if isinstance(action, spaces.Box) else None,
    }


def _actor_critic(policy: Any, tensor: Callable[[Array], Any], deterministic: bool) -> TargetPolicy:
    """PPO and A2C."""
    sizes = _sizes(policy)
    if isinstance(policy.action_space, spaces.Discrete):
        count = int(policy.action_space.n)

        def probabilities(seen: Array) -> Array:
            with torch.no_grad():
                chances = _numpy(policy.get_distribution(tensor(seen)).distribution.probs)
            return one_hot(chances.argmax(axis=1), count) if deterministic else chances

        return CategoricalPolicy(probabilities, count, sizes["observation_size"])
    if not isinstance(policy.action_space, spaces.Box) or policy.squash_output:
        raise TypeError(f"actions must be Discrete or an unsquashed Box: got {policy.action_space}")

    def moments(seen: Array) -> tuple[Array, Array]:
        with torch.no_grad():
            normal = policy.get_distribution(tensor(seen)).distribution
        return _numpy(normal.mean), _numpy(normal.stddev)

    bounds = _bounds(policy)
    if deterministic:
        return DeterministicPolicy(lambda seen: np.clip(moments(seen)[0], *bounds), **sizes)
    return GaussianPolicy(moments, bounds=bounds, **sizes)


def _sac(policy: Any, tensor: Callable[[Array], Any], deterministic: bool) -> TargetPolicy:
    def moments(seen: Array) -> tuple[Array, Array]:
        with torch.no_grad():
            mean, log_std, keywords = policy.actor.get_action_dist_params(tensor(seen))
            normal = policy.actor.action_dist.proba_distribution(mean, log_std, **keywords).distribution
        return _numpy(normal.mean), _numpy(normal.stddev)

    if deterministic:
        return DeterministicPolicy(lambda seen: policy.unscale_action(np.tanh(moments(seen)[0])), **_sizes(policy))
    return GaussianPolicy(
        moments, squash=True, bounds=_bounds(policy), edge=FLOAT32_STEP, softness=1e-6, **_sizes(policy)
    )


def _td3(policy: Any, tensor: Callable[[Array], Any], _: bool) -> TargetPolicy:
    """TD3 and DDPG have one action a state."""

    def action(seen: Array) -> Array:
        with torch.no_grad():
            unscaled: Array = policy.unscale_action(_numpy(policy.actor(tensor(seen))))
        return unscaled

    return DeterministicPolicy(action, **_sizes(policy))


def _dqn(policy: Any, tensor: Callable[[Array], Any], _: bool) -> TargetPolicy:
    """The greedy policy; `with_noise(policy, epsilon=...)` makes it explore."""
    count = int(policy.action_space.n)

    def probabilities(seen: Array) -> Array:
        with torch.no_grad():
            return one_hot(_numpy(policy.q_net(tensor(seen))).argmax(axis=1), count)

    return CategoricalPolicy(probabilities, count, _sizes(policy)["observation_size"])


def _bounds(policy: Any) -> tuple[Array, Array]:
    return policy.action_space.low.reshape(-1), policy.action_space.high.reshape(-1)


def _numpy(values: Any) -> Array:
    array: Array = values.cpu().numpy()
    return array.reshape(len(array), -1)
