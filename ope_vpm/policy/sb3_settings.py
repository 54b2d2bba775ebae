"""The readable part of stable-baselines3's settings: spaces, the policy's module, and the choices about its network."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.optional import torch
from ope_vpm.outside import one_line, parse_json
from ope_vpm.policy.networks import ACTIVATIONS

HARMLESS = frozenset(
    {"net_arch", "ortho_init", "log_std_init", "full_std", "n_critics", "n_quantiles", "share_features_extractor"}
    | {"optimizer_class", "optimizer_kwargs", "features_extractor_class", "features_extractor_kwargs", "with_bias"}
    | {"use_sde", "use_expln", "clip_mean", "activation_fn", "squash_output", "normalize_images"}
)
"""Choices that do not change how a policy acts, or that are read here or from the arrays' shapes."""
EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")
"""The library's own extractors of features."""
PART = re.compile(r"'([^']+)'[:,] (?:Box\([^']*?\((\d+(?:, ?\d+)*),?\), (float32|float64|uint8)\)|Discrete\((\d+)\))")
"""A part of a dictionary space as it is printed: `'goal': Box(-1.0, 1.0, (3,), float32)`, `'mode': Discrete(4)`."""
LARGEST = 1 << 22
"""Numbers in one observation or action beyond which a space is taken for an attack: four images of a megapixel."""


class UnknownPart(ValueError):  # noqa: N818 - it says what is unknown, and is caught where trust can help
    """A part of the settings that is not to be had without unpickling it."""


@dataclass(frozen=True)
class Settings:
    """The settings that the readable texts hold."""

    kind: str
    """The module of the policy's class."""
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    choices: Mapping[str, Any]
    """`policy_kwargs`, values that are no plain JSON as texts."""
    state_dependent_noise: bool
    """Whether it explores by gSDE."""

    @property
    def squash(self) -> bool:
        """Whether an actor-critic policy squashes its actions."""
        return self.flag("squash_output", False)

    def flag(self, name: str, default: bool) -> bool:
        """A choice between true and false."""
        value = self.choices.get(name, default)
        if not isinstance(value, bool):
            raise UnknownPart(f"its {name} must be true or false, and is {value!r:.80}")
        return value

    def number(self, name: str, default: float) -> float:
        """A choice of a number."""
        value = self.choices.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnknownPart(f"its {name} must be a number, and is {value!r:.80}")
        return float(value)

    def activation(self, default: str) -> Callable[[Any], Any]:
        """The activation function of hidden layers."""
        name = default
        if "activation_fn" in self.choices:
            name = class_name(self.choices["activation_fn"], r"torch\.nn\.modules\.(?:activation|linear)\.(\w+)")
        if name not in ACTIVATIONS:
            raise UnknownPart(f"its activation function is {self.choices['activation_fn']!r:.80}")
        return ACTIVATIONS[name]

    def check_extractor(self) -> None:
        """Refuse an extractor of features that is not the library's own."""
        given = self.choices.get("features_extractor_class")
        if given is not None:
            name = class_name(given, r"stable_baselines3\.common\.torch_layers\.(\w+)")
            if name not in EXTRACTORS:
                raise UnknownPart(f"its extractor of features is {given!r:.80}")

    def check_outputs(self, outputs: int) -> None:
        """Refuse a network with more or fewer outputs than the space has actions or coordinates."""
        if outputs != spaces.flatdim(self.action_space):
            raise ValueError(f"its weights do not fit its settings: {outputs} outputs for {self.action_space}")

    @property
    def encoded_size(self) -> int:
        """How many numbers `encoded` makes of one observation, laid flat."""
        return spaces.flatdim(self.observation_space)

    def encoded(self, seen: Any) -> torch.Tensor:
        """Observations as the library feeds them to a network: integers one-hot, images between 0 and 1.

        Those of a dictionary space are laid side by side in the space's own order.
        """
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            parts = [replace(self, observation_space=part).encoded(seen[name]) for name, part in space.items()]
            return torch.cat([part.flatten(1) for part in parts], dim=1)
        batch = torch.as_tensor(seen)
        if isinstance(space, spaces.Discrete):
            return torch.nn.functional.one_hot(batch.long().reshape(-1), int(space.n)).float()
        if isinstance(space, spaces.MultiDiscrete):
            columns = zip(batch.long().reshape(len(batch), -1).T, space.nvec.reshape(-1).tolist(), strict=True)
            return torch.cat([torch.nn.functional.one_hot(column, size).float() for column, size in columns], dim=1)
        image = isinstance(space, spaces.Box) and space.dtype == np.uint8
        return batch.float() / 255 if image and self.flag("normalize_images", True) else batch.float()


def stored_settings(path: Path, text: bytes) -> dict[str, Any]:
    """The table of a file's `data`; whatever else it holds is refused."""
    try:
        stored = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the settings in {path} are damaged: {one_line(error)}") from error
    if not isinstance(stored, dict):
        raise TypeError(f"the settings in {path} are damaged: they are a {type(stored).__name__}, not a table")
    return stored


def readable_settings(stored: Mapping[str, Any], modules: Collection[str]) -> Settings:
    """The settings of a file's `data`; raises `UnknownPart` for what only unpickling could tell.

    Args:
        stored: the `data`.
        modules: those whose policies are known.
    """
    given = stored.get("policy_class")
    policy_class = given if isinstance(given, dict) else {}
    module = policy_class.get("__module__")
    if module not in modules:
        raise UnknownPart(f"its policy class is of the module {module!r:.80}")
    choices = _choices(stored.get("policy_kwargs"))
    if "ARSLinearPolicy" in str(policy_class.get("__init__", "")):
        choices = {"squash_output": False, "with_bias": False, **choices}  # its own defaults
    noise = stored.get("use_sde") is True or choices.get("use_sde") is True
    settings = Settings(
        str(module),
        _observation_space(_described(stored, "observation_space")),
        _action_space(_described(stored, "action_space")),
        choices,
        noise,
    )
    settings.check_extractor()
    return settings


def class_name(text: object, pattern: str) -> str:
    """The last part of a class's printed name, or nothing where it is not of the pattern."""
    found = re.fullmatch(f"<class '{pattern}'>", text) if isinstance(text, str) else None
    return "" if found is None else found[1]


def _choices(stored: Any) -> dict[str, Any]:
    given = {} if stored is None else stored
    if not isinstance(given, dict):
        raise TypeError(f"its policy_kwargs must be a table: got {given!r:.80}")
    choices = {name: value for name, value in given.items() if not name.startswith(":")}
    if ":serialized:" in given and not choices:
        raise UnknownPart("its policy_kwargs stand there as a pickle only")
    unknown = sorted(set(choices) - HARMLESS)
    if unknown:
        raise UnknownPart(f"its policy_kwargs hold {unknown[0]!r:.80}, which we do not know")
    return choices


def _described(stored: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """The kind of a space and its readable fields, of gymnasium or of the older gym."""
    fields = stored.get(name)
    kind = (
        class_name(fields.get(":type:"), r"gym(?:nasium)?\.spaces\.(?:\w+\.)?(\w+)") if isinstance(fields, dict) else ""
    )
    if not isinstance(fields, dict) or not kind:
        raise UnknownPart(f"its {name} has no readable text")
    return kind, fields


def _observation_space(described: tuple[str, Mapping[str, Any]]) -> spaces.Space[Any]:
    kind, fields = described
    if kind == "Discrete":
        return _discrete(fields)
    if kind == "MultiDiscrete":
        return _multi_discrete(fields)
    if kind == "Dict":
        return _dict(str(fields.get("spaces")))
    shape = _shape(fields)
    if kind == "MultiBinary":
        return spaces.MultiBinary(shape)
    if kind != "Box":
        raise ValueError(f"observations must be of Box, Discrete, MultiDiscrete or MultiBinary: got {kind}")
    image = len(shape) == 3 and fields.get("dtype") == "uint8"
    if image and set(_shown(fields, "low")) == {0.0} and set(_shown(fields, "high")) == {255.0}:
        return spaces.Box(0, 255, shape, dtype=np.uint8)
    return spaces.Box(-np.inf, np.inf, shape, dtype=np.float32)


def _dict(text: str) -> spaces.Dict:
    """A space of numbers by name, from its printed form, in its order; images and whatever else need trust."""
    parts: dict[str, spaces.Space[Any]] = {}
    for name, sides, kind, count in PART.findall(text):
        shape = [int(side) for side in sides.split(",") if side.strip()]
        if kind == "uint8" or prod(shape) > LARGEST or int(count or 1) > LARGEST:
            raise UnknownPart(f"its observations have the part {name!r:.40}, which is no vector")
        box = spaces.Box(-np.inf, np.inf, tuple(shape), np.float32)
        parts[name] = spaces.Discrete(int(count)) if count else box
    if not parts or len(parts) != len(re.findall(r"'[:,] \w+\(", text)):
        raise UnknownPart(f"its observations are a Dict that reads {text!r:.80}")
    found = spaces.Dict(parts)
    found.spaces = parts  # gymnasium sorts them, and older files need not be sorted
    return found


def _action_space(described: tuple[str, Mapping[str, Any]]) -> spaces.Space[Any]:
    kind, fields = described
    if kind == "Discrete":
        return _discrete(fields)
    if kind == "MultiDiscrete":
        return _multi_discrete(fields)
    if kind == "MultiBinary":
        return spaces.MultiBinary(_shape(fields))
    if kind != "Box":
        raise TypeError(f"actions must be Discrete, MultiDiscrete, MultiBinary or an unsquashed Box: got {kind}")
    shape = _shape(fields)
    low, high = (np.array(_bounds(fields, side, shape), dtype=np.float32).reshape(shape) for side in ("low", "high"))
    if not (low <= high).all():
        raise ValueError(f"the least action must be below the largest: got {low} and {high}")
    return spaces.Box(low, high, shape, dtype=np.float32)


def _multi_discrete(fields: Mapping[str, Any]) -> spaces.MultiDiscrete:
    counts = _numbers(fields, "nvec")
    if not counts or not all(count == int(count) and 1 <= count <= LARGEST for count in counts):
        raise ValueError(f"MultiDiscrete spaces must have counts from 1: got {fields.get('nvec')!r:.80}")
    return spaces.MultiDiscrete(np.array(counts, dtype=np.int64))


def _discrete(fields: Mapping[str, Any]) -> spaces.Discrete:
    count, start = _numbers(fields, "n"), _numbers(fields, "start") if "start" in fields else [0.0]
    if len(count) != 1 or not 1 <= count[0] <= LARGEST or start != [0.0]:
        raise ValueError(f"Discrete spaces must count from 0: got n {fields.get('n')!r:.40} from {start}")
    return spaces.Discrete(int(count[0]))


def _shape(fields: Mapping[str, Any]) -> tuple[int, ...]:
    shape = fields.get("_shape", fields.get("shape"))
    if not isinstance(shape, list) or not all(type(side) is int and side >= 1 for side in shape):
        raise UnknownPart(f"the shape of its space reads {shape!r:.80}")
    if prod(shape) > LARGEST:
        raise ValueError(f"spaces must have at most {LARGEST} coordinates: got shape {shape}")
    return tuple(shape)


def _bounds(fields: Mapping[str, Any], side: str, shape: tuple[int, ...]) -> list[float]:
    """One bound for each coordinate; where all are equal, older files print that one as well, to the last digit."""
    common = _shown(fields, f"{side}_repr") if fields.get(f"{side}_repr") is not None else []
    values = common * prod(shape) if len(common) == 1 else _numbers(fields, side)
    if len(values) != prod(shape):
        raise UnknownPart(f"{side} of its action space reads {fields.get(side)!r:.80}")
    return values


def _numbers(fields: Mapping[str, Any], name: str) -> list[float]:
    """The numbers of a field, every one of which must be shown."""
    if "..." in str(fields.get(name)):
        raise UnknownPart(f"{name} of its space is shown in part only")
    return _shown(fields, name)


def _shown(fields: Mapping[str, Any], name: str) -> list[float]:
    """The numbers in numpy's printed form of an array; what is left out as `...` is passed over."""
    words = re.sub(r"[\[\](),]", " ", str(fields.get(name))).split()
    try:
        return [float(word) for word in words if word != "..."]
    except ValueError:
        raise UnknownPart(f"{name} of its space reads {fields.get(name)!r:.80}") from None
