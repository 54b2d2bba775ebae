"""Parts that the formats share: options, space notes and missing columns."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from ope_vpm.logged.spaces import Space
from ope_vpm.outside import parse_json


@dataclass(frozen=True)
class Options:
    """The arguments of `load_dataset` beside the source."""

    columns: Mapping[str, str | Sequence[str]] | None = None
    trust: bool = False
    mmap: bool = False
    observation_space: Space | None = None
    action_space: Space | None = None

    def spaces(self, observed: Space | None = None, acted: Space | None = None) -> dict[str, Space | None]:
        """Both spaces as keyword arguments of a dataset: those that were given, or what the source itself tells."""
        return {"observation_space": self.observation_space or observed, "action_space": self.action_space or acted}

    def with_spaces(self, note: str | None) -> Options:
        """The options with the spaces that our own writers note in a file, where none were given."""
        if note is None:
            return self
        stored = spaces_from_json(note)
        given: dict[str, Any] = self.spaces(stored["observation_space"], stored["action_space"])
        return replace(self, **given)


MAP_NAMES = "map your names with columns=, or --columns on the command line"
"""The advice about a missing column."""


def require(path: object, names: Sequence[str], available: Collection[str], hint: str = "") -> None:
    """Refuse a file without some columns, listing them."""
    missing = [name for name in names if name not in available]
    if missing:
        raise ValueError(
            f"{path} lacks the columns {', '.join(missing)}: it has {', '.join(sorted(available)) or 'none'}"
            + (f" ({hint})" if hint else "")
        )


def spaces_to_json(observation_space: Space | None, action_space: Space | None) -> str:
    """Both spaces as text."""
    return json.dumps({"observations": _note(observation_space), "actions": _note(action_space)})


def spaces_from_json(text: str) -> dict[str, Space | None]:
    """Both spaces as keyword arguments of a dataset."""
    try:
        notes = parse_json(text)
        return {"observation_space": _space(notes["observations"]), "action_space": _space(notes["actions"])}
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise ValueError(f"the note on spaces is damaged: {error}") from error


def _note(space: Space | None) -> dict[str, Any] | None:
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "MultiDiscrete", "nvec": space.nvec.tolist()}
    if isinstance(space, spaces.Box):
        return {"kind": "Box", "low": space.low.tolist(), "high": space.high.tolist()}
    return None


def _space(note: dict[str, Any] | None) -> Space | None:
    if note is None:
        return None
    if note["kind"] == "Discrete":
        return spaces.Discrete(note["n"])
    if note["kind"] == "MultiDiscrete":
        return spaces.MultiDiscrete(note["nvec"])
    return spaces.Box(np.float64(note["low"]), np.float64(note["high"]), dtype=np.float64)
