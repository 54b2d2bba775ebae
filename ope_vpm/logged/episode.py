"""Episodes one at a time: into columns, out of a dataset, and datasets joined."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from ope_vpm.arrays import Array
from ope_vpm.logged.columns import action_column, number_column, observation_column
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.spaces import Space, same_length

ROW_COLUMNS = (*(field.name for field in fields(LoggedDataset)[:7]), "behaviour_log_prob")
"""The fields with one entry a row."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One episode of T steps, as most libraries hold it."""

    observations: Any
    """T states, or T + 1 where the state after the last step is known; mappings and tuples of such too."""
    actions: Any
    """T actions."""
    rewards: Any
    """T rewards."""
    terminated: bool = False
    """Whether the task ended with the last step."""
    truncated: bool = False
    """Whether a time limit or the logger stopped it there."""
    behaviour_log_prob: Any = None
    """T log-probabilities of the actions, if logged."""


def columns_of(episodes: Iterable[Episode | dict[str, Any]]) -> dict[str, Any]:
    """The columns that `LoggedDataset.from_arrays` takes, from whole episodes."""
    parts = [_columns(index, episode) for index, episode in enumerate(episodes)]
    if not parts:
        raise ValueError("there are no episodes: a dataset needs at least one")
    for index, part in enumerate(parts):
        for name in ("observations", "actions"):
            _same_kind(index, name, part[name], parts[0][name])
    given = [part["behaviour_log_prob"] is not None for part in parts]
    names = [name for name in parts[0] if name != "behaviour_log_prob" or all(given)]
    if any(given) and not all(given):
        raise ValueError(
            f"either all episodes or none must have behaviour_log_prob: episode {given.index(False)} has none"
        )
    columns = {name: np.concatenate([part[name] for part in parts]) for name in names}
    columns["episode"] = np.repeat(np.arange(len(parts)), [len(part["rewards"]) for part in parts])
    return columns


def take(data: LoggedDataset, episodes: npt.NDArray[np.intp], longest: int | None = None) -> LoggedDataset:
    """The given episodes, in the given order; none longer than `longest` steps, where that is given."""
    if len(episodes) == 0:
        raise ValueError(f"no episode is selected out of {data.n_episodes}: choose at least one")
    lengths = data.lengths[episodes] if longest is None else np.minimum(data.lengths[episodes], longest)
    starts = np.cumsum(lengths) - lengths
    rows: slice | Array = np.repeat(data.starts[episodes] - starts, lengths) + np.arange(lengths.sum())
    if (np.diff(episodes) == 1).all() and (longest is None or data.lengths[episodes].max() <= longest):
        # Neighbours stay views, so that a part of a memory map is still on disk.
        rows = slice(int(data.starts[episodes[0]]), int(data.starts[episodes[0]] + lengths.sum()))
    columns: dict[str, Any] = {name: _rows(getattr(data, name), rows) for name in ROW_COLUMNS}
    return LoggedDataset(
        **columns,
        starts=starts,
        from_reset=data.from_reset[episodes],
        observation_space=data.observation_space,
        action_space=data.action_space,
        encoding=data.encoding,
    )


def join(parts: Sequence[LoggedDataset]) -> LoggedDataset:
    """Datasets one after another; logged probabilities are kept where all of them have some."""
    if not parts:
        raise ValueError("there is nothing to concatenate: give at least one dataset")
    for index, part in enumerate(parts):
        for name in ("observations", "actions"):
            _same_kind(index, name, getattr(part, name), getattr(parts[0], name), "dataset")
    offsets = np.cumsum([0] + [len(part) for part in parts[:-1]])
    logged = all(part.behaviour_log_prob is not None for part in parts)
    names = [name for name in ROW_COLUMNS if name != "behaviour_log_prob" or logged]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return LoggedDataset(
        **columns,
        starts=np.concatenate([part.starts + offset for part, offset in zip(parts, offsets, strict=True)]),
        from_reset=np.concatenate([part.from_reset for part in parts]),
        observation_space=_common_space([part.observation_space for part in parts]),
        action_space=_common_space([part.action_space for part in parts]),
        encoding=parts[0].encoding if all(part.encoding is parts[0].encoding for part in parts) else None,
    )


def split(data: LoggedDataset) -> Iterable[Episode]:
    """The episodes of a dataset, with the state after the last step where it is known."""
    for first, last in zip(data.starts, data.ends, strict=True):
        rows = slice(first, last + 1)
        states = data.observations[rows]
        if data.next_known[last]:
            states = np.concatenate([states, data.next_observations[last : last + 1]])
        log_prob = None if data.behaviour_log_prob is None else data.behaviour_log_prob[rows]
        yield Episode(
            states,
            data.actions[rows],
            data.rewards[rows],
            bool(data.terminated[last]),
            bool(data.truncated[last]),
            log_prob,
        )


def _columns(index: int, given: Episode | dict[str, Any]) -> dict[str, Any]:
    """One episode's rows, checked; every error names the episode."""
    names = ", ".join(field.name for field in fields(Episode))
    try:
        episode = given if isinstance(given, Episode) else Episode(**given)
    except TypeError as error:
        raise ValueError(f"episode {index} must have some of the fields {names}: {error}") from error
    try:
        return _checked(episode)
    except (ValueError, TypeError) as error:
        raise type(error)(f"episode {index}: {error}") from error


def _checked(episode: Episode) -> dict[str, Any]:
    states = observation_column("observations", episode.observations)
    actions = action_column(episode.actions)
    steps = len(actions)
    if steps == 0:
        raise ValueError("actions are empty: an episode needs at least one step")
    if len(states) == steps + 1:
        states, following, known = states[:-1], states[1:], np.ones(steps, dtype=np.bool_)
    else:
        same_length("actions", actions, len(states))
        unknown = np.full_like(states[:1], np.nan if states.dtype.kind == "f" else -1)
        following = np.concatenate([states[1:], unknown])
        known = np.arange(steps) < steps - 1
    last = np.arange(steps) == steps - 1
    log_prob = episode.behaviour_log_prob
    return {
        "observations": states,
        "actions": actions,
        "rewards": number_column("rewards", episode.rewards, steps),
        "next_observations": following,
        "terminated": last & bool(episode.terminated),
        "truncated": last & bool(episode.truncated),
        "next_known": known,
        "behaviour_log_prob": None if log_prob is None else number_column("behaviour_log_prob", log_prob, steps),
    }


def _same_kind(index: int, name: str, column: Array, first: Array, what: str = "episode") -> None:
    if column.shape[1:] != first.shape[1:] or column.dtype.kind != first.dtype.kind:
        raise ValueError(
            f"{name} must be alike in every {what}: {what} {index} has {column.dtype} of shape "
            f"{column.shape}, {what} 0 has {first.dtype} of shape {first.shape}"
        )


def _common_space(given: list[Space | None]) -> Space | None:
    return given[0] if all(space == given[0] for space in given) else None


def _rows(column: Array | None, rows: slice | Array) -> Array | None:
    return None if column is None else column[rows]
