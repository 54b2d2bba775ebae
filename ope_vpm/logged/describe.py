"""The description of a dataset by a few numbers."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.outside import printable


@dataclass(frozen=True)
class Range:
    """The spread of some numbers; NaN and infinite ones are left out."""

    smallest: float
    mean: float
    largest: float

    def __str__(self) -> str:
        return f"{self.smallest:.6g} … {self.largest:.6g} (mean {self.mean:.6g})"


@dataclass(frozen=True)
class Description:
    """Counts, returns, lengths and ranges of a dataset."""

    steps: int
    episodes: int
    terminated: int
    """Episodes that ended in the task."""
    truncated: int
    """Episodes that were cut."""
    next_unknown: int
    """Rows whose next state was not logged."""
    initial_states: int
    lengths: Range
    returns: Range
    rewards: Range
    observations: tuple[Range, ...]
    """One a column."""
    actions: tuple[Range, ...]
    """One a column."""
    n_actions: int | None
    columns: tuple[str, ...] | None = None
    """The names of the columns of observations, where the dataset came from a table."""
    names: tuple[str, ...] | None = None
    """The names of the discrete actions, where the dataset came from a table."""

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.steps} steps in {self.episodes} episodes",
            f"ends: {self.terminated} terminated, {self.truncated} truncated, "
            f"{self.next_unknown} rows without a next state",
            f"initial states: {self.initial_states}",
            f"episode length: {self.lengths}",
            f"episode return: {self.returns}",
            f"reward: {self.rewards}",
            *_lines("observation", self.observations, names=self.columns),
            *([self._discrete()] if self.n_actions else _lines("action", self.actions)),
        ]
        return "\n".join(map(printable, lines))

    def _discrete(self) -> str:
        named = "" if self.names is None else f" ({', '.join(self.names)})"
        return f"actions: {self.n_actions} discrete{named}"


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is a finding of its own
def describe(data: LoggedDataset) -> Description:
    """Count and measure a dataset."""
    found = described(
        data, int((~data.next_known).sum()), range_of(data.rewards), _ranges(data.observations), _ranges(data.actions)
    )
    if data.encoding is None:
        return found
    actions = data.encoding.actions
    names = None if actions is None else tuple(map(str, actions))
    return replace(found, columns=data.encoding.features, names=names)


def described(
    data: Any, next_unknown: int, rewards: Range, observations: tuple[Range, ...], actions: tuple[Range, ...]
) -> Description:
    """The description of a log whose rows were measured already.

    Args:
        data: the log, which is asked about episodes alone.
        next_unknown: its rows without a known next state.
        rewards: the spread of the rewards.
        observations: the spread of each column.
        actions: the spread of each column.
    """
    table = data.table
    return Description(
        steps=len(data),
        episodes=data.n_episodes,
        terminated=int(table.terminated.sum()),
        truncated=int((table.truncated & ~table.terminated).sum()),
        next_unknown=next_unknown,
        initial_states=int(data.from_reset.sum()),
        lengths=range_of(data.lengths),
        returns=range_of(data.returns),
        rewards=rewards,
        observations=observations,
        actions=actions,
        n_actions=data.n_actions,
    )


def range_of(values: Array) -> Range:
    """The spread of some numbers."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return Range(float("nan"), float("nan"), float("nan"))
    return Range(float(finite.min()), float(finite.mean(dtype=np.float64)), float(finite.max()))


def _ranges(column: Array) -> tuple[Range, ...]:
    return tuple(range_of(values) for values in column.reshape(len(column), -1).T)


def _lines(name: str, ranges: tuple[Range, ...], most: int = 12, names: tuple[str, ...] | None = None) -> list[str]:
    lines = [
        f"{f'{name} {index}' if names is None else names[index]}: {values}"
        for index, values in enumerate(ranges[:most])
    ]
    return lines + ([f"… and {len(ranges) - most} more columns"] if len(ranges) > most else [])
