"""Logs of JSON lines and linear controllers in JSON: a format and a kind of policies from another package.

It shows all that they need: `matches`, `read`, and a line each in pyproject.toml. Once installed,
`ov.load_dataset("log.jsonl")` and `ov.load_policy("controller.json")` know them, and so does the command line.

A line of a log is one episode, `{"observations": [[0.1], [0.2]], "actions": [[0.0]], "rewards": [1.0], "terminated":
true}`; a controller is `{"gain": [[-0.5]], "std": 0.1}`, for actions drawn around gain · observation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.logged import Episode, LoggedDataset
from ope_vpm.policy import DeterministicPolicy, GaussianPolicy, TargetPolicy


class EpisodesOfLines:
    """Files `.jsonl` with one episode per line."""

    @staticmethod
    def matches(source: object) -> bool:
        """Whether it is such a file, by its name."""
        return isinstance(source, Path) and source.suffix == ".jsonl"

    @staticmethod
    def read(source: Path, options: Any) -> LoggedDataset:
        """All episodes; a wrong line ends in a sentence that names the file."""
        episodes = [Episode(**json.loads(line)) for line in source.read_text(encoding="utf-8").splitlines()]
        return LoggedDataset.from_episodes(
            episodes, observation_space=options.observation_space, action_space=options.action_space
        )


class LinearController:
    """Files `.json` with a gain and a standard deviation."""

    @staticmethod
    def matches(source: object) -> bool:
        """Whether it is such a file, by its name."""
        return isinstance(source, Path) and source.suffix == ".json"

    @staticmethod
    def read(source: Path, *, trust: bool, deterministic: bool) -> TargetPolicy:
        """A Gaussian policy around gain · observation, or its mean."""
        settings = json.loads(source.read_text(encoding="utf-8"))
        gain, std = np.array(settings["gain"], dtype=np.float64), float(settings["std"])
        if deterministic:
            return DeterministicPolicy(lambda seen: seen @ gain.T)
        return GaussianPolicy(lambda seen: (seen @ gain.T, np.full((len(seen), len(gain)), std)))
