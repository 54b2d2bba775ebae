"""What a study is: cells to fill, a function that fills one for one seed, and how to show the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

Cell = dict[str, Any]
Row = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]

TUNING_SEEDS = "1000-1009"
"""The seeds on which our defaults were chosen; reported runs have seeds 0, 1, …, which nobody looked at before."""
RUNS = 10
"""The paper's number of runs."""
QUICK_RUNS = 2


@dataclass(frozen=True)
class Outcome:
    """What one run of one cell gives."""

    rows: list[Row]
    arrays: Arrays = field(default_factory=dict)
    """What a picture needs beyond the rows; kept for seed 0 only."""


@dataclass(frozen=True)
class Results:
    """Every run of a study."""

    rows: list[Row]
    """One for each line of the CSV: the cell, the seed, the method and its numbers."""
    arrays: dict[str, Arrays]
    """By cell, as `label` names it: the arrays of seed 0."""


@dataclass(frozen=True)
class Table:
    """A few columns of text, as printed."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = "mean ± standard error (runs)"


@dataclass(frozen=True)
class Study:
    """A figure of the paper, ready to run."""

    name: str
    title: str
    settings: dict[str, Any]
    """Everything besides cell and seed that decides a number; as JSON holds it."""
    cells: Sequence[Cell]
    run: Callable[[Cell, int], Outcome]
    """A module's own function, so that other processes can import it."""
    table: Callable[[Results], Table]
    draw: Callable[[Results], Figure]
    tuning_seeds: str = TUNING_SEEDS


def label(cell: Cell) -> str:
    """A cell's name, fit for a file."""
    return "-".join(f"{name}={value}" for name, value in cell.items())


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """The rows whose columns have the wanted values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def mean_and_error(rows: Sequence[Row], column: str) -> tuple[float, float]:
    """The mean of a column over runs, and its standard error (0 for a single run)."""
    values = np.array([row[column] for row in rows], dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean()), float(error)


def with_error(rows: Sequence[Row], column: str) -> str:
    """Mean ± standard error (number of runs), as text; nothing where there is no run."""
    if not rows:
        return ""
    mean, error = mean_and_error(rows, column)
    spread = f" ± {error:.2f}" if len(rows) > 1 else ""
    return f"{mean:.2f}{spread} ({len(rows)})"
