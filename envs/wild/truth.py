"""The stored values of a wild task's target, measured by `ope_vpm.envs.wild.measure`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ope_vpm.envs.truth import Value
from ope_vpm.outside import write_text

GAMMA = 0.99


@dataclass(frozen=True)
class Truth:
    """The values of one policy, each with its standard error and its deviation per episode."""

    policy: str
    discounted: Value
    """At γ = 0.99."""
    per_step: dict[int, Value]
    """At γ = 1, by the limit of the episodes."""
    per_episode: dict[int, Value]
    """The undiscounted return, by the limit of the episodes."""
    horizon: int
    episodes: int
    seed: int
    gamma: float = GAMMA

    @classmethod
    def read(cls, file: Path) -> Truth:
        """From the JSON that `write` made."""
        stored: dict[str, Any] = json.loads(file.read_text())
        del stored["command"]
        stored["discounted"] = Value(**stored["discounted"])
        for name in ("per_step", "per_episode"):
            stored[name] = {int(limit): Value(**value) for limit, value in stored[name].items()}
        return cls(**stored)

    def write(self, file: Path, environment: str) -> None:
        """As JSON, with the command that makes it."""
        about = {"command": f"python -m ope_vpm.envs.wild.measure {environment}", **asdict(self)}
        write_text(file, json.dumps(about, indent=2) + "\n")
