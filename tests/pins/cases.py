"""The questions whose answers are pinned: every estimator on every kind of log that the library tells apart."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from gymnasium import spaces

import ope_vpm as ov
from ope_vpm.envs.linear_gaussian import BEHAVIOUR, TARGET, LinearGaussian
from ope_vpm.envs.random_mdp import RandomMDP
from ope_vpm.logged import streamed
from ope_vpm.logged.formats.table import to_table
from ope_vpm.ope import log as logs
from ope_vpm.optional import has_torch, library
from ope_vpm.policy import DeterministicPolicy

GAMMAS = (1.0, 0.9)
NAMES = tuple(name for name in ov.estimators() if name != "d3rlpy_fqe")  # takes d3rlpy's policies only
NETWORKS = frozenset({"model", "liu", "fqe", "wist", "wiss", "wdr", "magic"})
"""Estimators that train a network in one of the cases: float32 sums differ in their last bits between machines."""
FAST: dict[str, dict[str, Any]] = {
    "vpm": {"n_features": 60},
    "model": {"training_steps": 60, "rollouts": 10, "members": 2},
    "liu": {"training_steps": 20},
    "fqe": {"training_steps": 40, "n_features": 40},
    **{name: {"n_features": 40} for name in ("auto", "dr", "wdr", "magic", "mwl", "mql")},
    **{name: {"n_features": 30} for name in ("dualdice", "gendice", "gradientdice", "bestdice")},
}
"""Small settings on continuous states: a pin asks whether an answer has moved, not whether it is good."""


@dataclass(frozen=True)
class Case:
    """A log with a target policy, and what its ends mean."""

    log: Callable[[], ov.LoggedDataset]
    policy: Callable[[], Any]
    time_limit: str = "continue"
    in_parts: bool = False
    """Whether the log is written to Parquet and read in parts."""
    options: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, name: str, gamma: float) -> dict[str, Any]:
        """What an estimator says, as plain values; of a refusal, its sentence; nothing without the extra it needs."""
        log = self.log()
        try:
            with _read_in_parts(log) if self.in_parts else _as_it_is(log) as data:
                estimator = ov.estimators()[name](**self.options.get(name, {}))
                value = ov.evaluate(data, self.policy(), estimator, gamma=gamma, time_limit=self.time_limit)  # type: ignore[call-overload]
        except (ValueError, TypeError) as error:
            return {"refused": str(error).splitlines()[0]}
        except ImportError:
            if has_torch():
                raise
            return {}
        kept = ("value", "interval", "standard_error", "verdict", "reasons", "return", "return_interval")
        found = value.as_dict()
        return {key: _rounded(found[key]) for key in (*kept, "return_verdict", "return_reasons")} | {
            "advice": list(value.advice)
        }


def _rounded(value: Any) -> Any:
    """Numbers to twelve digits."""
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


@contextmanager
def _as_it_is(log: ov.LoggedDataset) -> Iterator[Any]:
    yield log


@contextmanager
def _read_in_parts(log: ov.LoggedDataset) -> Iterator[Any]:
    """The log as a Parquet file with a sample of 600 rows and parts of 512, so that a short log has several."""
    pa, pq = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
    sizes = mock.patch.object(logs, "SAMPLE_ROWS", 600), mock.patch.object(streamed, "PART_ROWS", 512)
    with tempfile.TemporaryDirectory() as folder, sizes[0], sizes[1]:
        path = Path(folder) / "log.parquet"
        pq.write_table(pa.table(to_table(log)), path)
        yield ov.scan_dataset(path)


def finite_log(
    states: int, actions: int, episodes: int, length: int, ending: float = 0.0, seed: int = 0
) -> ov.LoggedDataset:
    """A random MDP under a random policy; a step ends its episode with probability `ending` where it enters state 0."""
    mdp = RandomMDP.draw(states, actions, seed)
    log = mdp.dataset(episodes, length, mdp.policy(seed + 1), seed + 2)
    rng = np.random.default_rng(seed)
    ended = ((log.next_observations == 0) & (rng.random(len(log)) < ending)).reshape(episodes, length)
    before = np.cumsum(ended, axis=1) - ended
    kept, last = before == 0, ended | (np.arange(length) == length - 1)
    columns = (log.observations, log.actions, log.rewards, log.next_observations, ended, last & ~ended)
    return ov.LoggedDataset.from_arrays(
        *(np.asarray(column).reshape(episodes, length)[kept] for column in columns),
        observation_space=spaces.Discrete(states),
        action_space=spaces.Discrete(actions),
    )


def table_policy(states: int, actions: int, seed: int = 0) -> Any:
    """A random table of probabilities for `finite_log` of the same sizes and seed."""
    return ov.as_policy(RandomMDP.draw(states, actions, seed).policy(seed + 3))


def linear_log(episodes: int, length: int, ending: bool = False, discrete: bool = False) -> ov.LoggedDataset:
    """The linear-Gaussian system; `ending` where the first coordinate leaves [-0.9, 0.9], `discrete`: three actions."""
    log = LinearGaussian().dataset(episodes, length, BEHAVIOUR, seed=5)
    shape = episodes, length
    actions = np.digitize(log.actions[:, 0], [-0.4, 0.4]) if discrete else log.actions
    following = log.next_observations.reshape(*shape, -1)
    ended = (np.abs(following[..., 0]) > 0.9) if ending else np.zeros(shape, dtype=bool)
    kept = np.cumsum(ended, axis=1) - ended == 0
    last = ended | (np.arange(length) == length - 1)
    rows = kept.reshape(-1)
    columns = (
        log.observations,
        actions,
        log.rewards,
        log.next_observations,
        ended.reshape(-1),
        (last & ~ended).reshape(-1),
    )
    return ov.LoggedDataset.from_arrays(*(np.asarray(column)[rows] for column in columns))


def thirds(observations: np.ndarray) -> np.ndarray:
    """Probabilities of three actions, by the first coordinate of the state."""
    weights = np.exp(np.outer(observations[:, 0], [-1.0, 0.0, 1.0]))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def steady(observations: np.ndarray) -> np.ndarray:
    """One action for each state: a linear rule."""
    return np.asarray(-0.2 * observations[:, :1] + 0.1 * observations[:, 1:2])


@cache
def cases() -> dict[str, Case]:
    """All of them, by name."""
    known = {name: {"behaviour": BEHAVIOUR.policy()} for name in ("wist", "wiss", "liu", "wdr", "magic")}
    given = {name: FAST.get(name, {}) | known.get(name, {}) for name in NAMES}

    def finite(*sizes: Any, **choices: Any) -> Case:
        return Case(lambda: finite_log(*sizes), lambda: table_policy(*sizes[:2]), **choices)

    def linear(*sizes: Any, policy: Callable[[], Any] = TARGET.policy, **choices: Any) -> Case:
        return Case(lambda: linear_log(*sizes), policy, options=given, **choices)

    def chosen(*sizes: Any, **choices: Any) -> Case:
        return Case(
            lambda: linear_log(*sizes, True), lambda: ov.as_policy(thirds, n_actions=3), options=FAST, **choices
        )

    def rule() -> Any:
        return DeterministicPolicy(steady, action_dimension=1)

    return {
        "finite": finite(6, 2, 30, 40),
        "finite few": finite(6, 2, 6, 10),
        "finite unseen": finite(30, 5, 20, 20),
        "finite ends": finite(6, 2, 40, 20, 0.5),
        "finite unseen ends": finite(20, 4, 30, 20, 0.8),
        "finite limit": finite(6, 2, 40, 10, 0.5, time_limit="restart"),
        "finite parts": finite(6, 2, 30, 40, in_parts=True),
        "finite parts ends": finite(6, 2, 90, 20, 0.5, in_parts=True),
        "linear": linear(15, 30),
        "linear few": linear(5, 12),
        "linear ends": linear(25, 20, True),
        "linear limit": linear(20, 15, time_limit="restart"),
        "linear parts": linear(40, 30, in_parts=True),
        "rule": linear(15, 30, policy=rule),
        "rule ends": linear(25, 20, True, policy=rule),
        "discrete": chosen(15, 30, False),
        "discrete ends": chosen(25, 20, True),
    }
