"""Open Bandit: logged clicks of a fashion shop, as the `obp` package and its authors publish them.

A campaign is a folder with `CAMPAIGN.csv`, one shown item a row, and `item_context.csv`, one item a row. Each row is an
episode of one step: a context comes, one item is shown, it is clicked or not.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from gymnasium import spaces

from ope_vpm.arrays import Array
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats.csv import read_columns
from ope_vpm.logged.formats.files import Options, require

ITEMS = "item_context.csv"
"""The file beside a log that lists the items."""
COLUMNS = ("timestamp", "item_id", "position", "click", "propensity_score")
"""The columns of every log; features of the user follow."""
USER = "user_feature_"
"""How the columns with categories of the user begin."""


def matches(source: Path) -> bool:
    """Whether this is a campaign's folder, or a CSV file with the columns of one."""
    if source.is_dir():
        return (source / ITEMS).is_file() and any(map(matches, _logs(source)))
    with source.open("rb") as file:
        header = file.readline(4096).decode("utf-8", errors="replace")
    return set(COLUMNS) <= set(header.split(","))


def read(path: Path, options: Options) -> LoggedDataset:
    """Rows in the order of time, each an episode that ends with its click or without.

    A context is the position (0, 1, 2) and the user's categories, numbered in the order of their labels in the file;
    `columns={"observations": "position"}` takes other columns. Actions are items, rewards clicks, and the logarithms of
    the logged propensities are the behaviour's.
    """
    log = _log_of(path)
    table = dict(read_columns(log))
    require(log, COLUMNS, table)
    order = np.argsort(table["timestamp"], kind="stable")
    table = {name: column[order] for name, column in table.items()}
    propensity = table["propensity_score"]
    if not ((propensity > 0) & (propensity <= 1)).all():
        raise ValueError(f"propensities of {log} must be probabilities above 0: got {propensity.min()}")
    return LoggedDataset.from_arrays(
        _observations(log, table, options.columns or {}),
        table["item_id"],
        table["click"],
        terminated=np.ones(len(order), dtype=np.bool_),
        behaviour_log_prob=np.log(propensity),
        observation_space=options.observation_space,
        action_space=options.action_space or spaces.Discrete(_items(log, table["item_id"])),
    )


def _logs(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("*.csv") if file.name != ITEMS and file.is_file())


def _log_of(path: Path) -> Path:
    """The log itself: the file, or the only one of its kind in a folder."""
    logs = [file for file in _logs(path) if matches(file)] if path.is_dir() else [path]
    if len(logs) != 1:
        raise ValueError(f"{path} must hold one Open Bandit log beside {ITEMS}: it holds {len(logs)}")
    return logs[0]


def _observations(log: Path, table: Mapping[str, Array], columns: Mapping[str, str | Sequence[str]]) -> Array:
    """The context: the columns that were asked for, or position and user; one column alone is a plain state."""
    others = sorted(set(columns) - {"observations"})
    if others:
        raise ValueError(f"of an Open Bandit log only observations can be mapped: columns maps {', '.join(others)}")
    asked = columns.get("observations", ["position", *(name for name in table if name.startswith(USER))])
    chosen = [asked] if isinstance(asked, str) else list(asked)
    require(log, chosen, table, "columns maps observations to them")
    parts = [_numbers(name, table[name]) for name in chosen]
    return parts[0] if isinstance(asked, str) else np.stack(parts, axis=1)


def _numbers(name: str, column: Array) -> Array:
    """Positions counted from 0, categories by the order of their labels, numbers as they are."""
    if column.dtype.kind == "U" or name == "position":
        return np.unique(column, return_inverse=True)[1].astype(np.int64)
    return column


def _items(log: Path, shown: Array) -> int:
    """How many items there are: as listed beside the log, or else as shown."""
    listed = log.with_name(ITEMS)
    if not listed.is_file():
        return int(shown.max()) + 1
    items = read_columns(listed)
    require(listed, ("item_id",), items)
    return int(items["item_id"].max()) + 1
