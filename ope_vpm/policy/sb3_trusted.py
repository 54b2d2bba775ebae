"""Reading with `trust=True` for stable-baselines3's files: unpickling, which runs whatever code they hold."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ope_vpm.optional import library
from ope_vpm.policy.sb3 import from_sb3
from ope_vpm.policy.target import TargetPolicy
from ope_vpm.policy.tensors import Tensors, as_torch

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
