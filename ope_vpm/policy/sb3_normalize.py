"""stable-baselines3's `VecNormalize` files: the statistics of observations, read from the pickle without running it.

With `trust=True` models and statistics are unpickled instead, which runs whatever code they hold.
"""

import base64
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.arrays import Array, Floats
from ope_vpm.optional import library
from ope_vpm.outside import check_regular
from ope_vpm.policy.described import Call, Name, describe
from ope_vpm.policy.networks import Tensors, as_torch
from ope_vpm.policy.sb3 import from_sb3
from ope_vpm.policy.target import TargetPolicy

SETTINGS = ("policy_class", "policy_kwargs", "observation_space", "action_space", "use_sde")


def trusted_policy(
    path: Path, stored: Mapping[str, Any], arrays: Tensors, deterministic: bool, statistics: Any
) -> TargetPolicy:
    """The policy built by the file's own classes."""
    library("stable_baselines3", "sb3")
    settings = {name: _unpickled(stored.get(name)) for name in SETTINGS}
    keywords = dict(settings["policy_kwargs"] or {})
    if "common.policies" in settings["policy_class"].__module__:
        keywords.setdefault("use_sde", bool(settings["use_sde"]))
    try:
        policy = settings["policy_class"](
            settings["observation_space"], settings["action_space"], lambda _: 0.0, **keywords
        )
        policy.load_state_dict({name: as_torch(array) for name, array in arrays.items()})
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"{path} holds weights that do not fit its settings: {error}") from error
    return from_sb3(policy, deterministic=deterministic, normalize=statistics)


def trusted_statistics(path: Path) -> Any:
    """A pickled `VecNormalize`."""
    return pickle.loads(path.read_bytes())


def _unpickled(value: Any) -> Any:
    if isinstance(value, dict) and ":serialized:" in value:
        return pickle.loads(base64.b64decode(value[":serialized:"]))
    return value


LARGEST_FILE = 64 << 20
"""Bytes of a file that is read: the statistics of images of a megapixel are a quarter of it."""
FILE = "vecnormalize.pkl"
"""The name under which rl-baselines3-zoo saves the statistics."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics by which `VecNormalize.normalize_obs` standardises."""

    mean: Floats
    var: Floats
    clip: float
    epsilon: float
    """Added to the variance."""

    def normalize_obs(self, observations: Array) -> Array:
        """Observations in units of their deviation, limited to `clip` of them on either side."""
        scaled = (observations - self.mean) / np.sqrt(self.var + self.epsilon)
        return np.clip(scaled, -self.clip, self.clip).astype(np.float32)


def beside(path: Path) -> Path | None:
    """The statistics of a model's file: in the same folder, or in one of the model's name, as in the zoo."""
    places = (path.with_name(FILE), path.with_suffix("") / FILE)
    return next((place for place in places if place.is_file()), None)


def read_statistics(path: Path) -> Statistics | None:
    """The statistics of a pickled `VecNormalize`; None where it does not normalise observations."""
    check_regular(path)
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} must have at most {LARGEST_FILE} bytes to be taken for a VecNormalize")
    state = _state(describe(path.read_bytes()), "VecNormalize", path)
    if state.get("norm_obs") is False:
        return None
    moments = _state(state.get("obs_rms"), "RunningMeanStd", path)
    mean, var = (_array(moments.get(name), f"obs_rms.{name}", path) for name in ("mean", "var"))
    if mean.shape != var.shape or not (np.isfinite(mean).all() and (var >= 0).all()):
        raise ValueError(f"{path} must hold a mean and a variance of one shape: got {mean.shape} and {var.shape}")
    return Statistics(mean, var, _number(state, "clip_obs", path), _number(state, "epsilon", path))


def _state(described: Any, kind: str, path: Path) -> dict[str, Any]:
    """The attributes of a pickled object of a class."""
    named = described.function if isinstance(described, Call) else None
    if isinstance(named, Name) and named.name in ("_reconstructor", "__newobj__") and isinstance(described, Call):
        named = described.arguments[0]
    if not isinstance(named, Name) or named.name != kind or not isinstance(described.state, dict):
        found = "a dictionary of statistics" if isinstance(described, dict) else type(described).__name__
        raise ValueError(
            f"{path} must be a pickled VecNormalize of single observations: where a {kind} is due stands {found}"
        )
    return described.state


def _number(state: dict[str, Any], name: str, path: Path) -> float:
    value = state.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} of {path} must be a positive number: got {value!r:.80}")
    return float(value)


def _array(described: Any, name: str, path: Path) -> Floats:
    """An array of floats, as numpy pickles it: `_reconstruct` and a state of version, shape, type, order and bytes."""
    state = described.state if isinstance(described, Call) else None
    if not (
        isinstance(described, Call)
        and isinstance(described.function, Name)
        and described.function.name == "_reconstruct"
        and isinstance(state, tuple)
        and len(state) == 5
    ):
        raise ValueError(f"{name} of {path} must be an array as numpy pickles it")
    _, shape, kind, fortran, content = state
    code = kind.arguments[0] if isinstance(kind, Call) and kind.function == Name("numpy", "dtype") else None
    order = kind.state[1] if isinstance(kind, Call) and isinstance(kind.state, tuple) and len(kind.state) > 1 else None
    whole = isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)
    if code not in ("f4", "f8") or order != "<" or not whole or not isinstance(content, bytes):
        raise ValueError(f"{name} of {path} must hold little-endian floats: got {code!r:.20} in order {order!r:.20}")
    numbers = np.frombuffer(content, dtype=f"<{code}")
    if numbers.size != prod(shape):
        raise ValueError(f"{name} of {path} must hold {prod(shape)} numbers: it holds {numbers.size}")
    return numbers.reshape(shape, order="F" if fortran else "C").astype(np.float64)
