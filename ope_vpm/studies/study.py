"""What a study is: a grid of cells, a function that runs one cell for one seed, and how to show the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

Cell = dict[str, Any]
"""The settings that vary within a study, by name."""
Row = dict[str, Any]
"""One line of results, by column."""
Arrays = dict[str, npt.NDArray[Any]]
"""Arrays by name."""
Made = TypeVar("Made")

TUNING_SEEDS = "1000-1009"
"""The seeds on which our defaults were chosen; reported runs have seeds 0, 1, …, which no choice has seen."""
RUNS = 10
"""The paper's number of runs."""
QUICK_RUNS = 2
"""The fewest with a standard error, for `--quick`."""


@dataclass(frozen=True)
class Outcome:
    """The results of one run of one cell."""

    rows: list[Row]
    """Lines of the CSV file, without the cell's own columns."""
    arrays: Arrays = field(default_factory=dict)
    """What a figure needs beyond the rows; stored for seed 0 only."""


@dataclass(frozen=True)
class Results:
    """The results of all runs of a study."""

    rows: list[Row]
    """The lines of the CSV file: the cell, the seed, the method and its numbers."""
    arrays: dict[str, Arrays]
    """The arrays of seed 0, by the cell's `label`."""


@dataclass(frozen=True)
class Table:
    """A table of text, as it is printed."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = "mean ± standard error (runs)"


@dataclass(frozen=True)
class Study:
    """A figure of the paper, ready to run."""

    name: str
    title: str
    settings: dict[str, Any]
    """Everything besides cell and seed that decides the numbers, as values that JSON can hold."""
    cells: Sequence[Cell]
    """The cells, in the order in which they are run and shown."""
    run: Callable[[Cell, int], Outcome]
    """Runs one cell for one seed. A function of a module, so that other processes can import it."""
    table: Callable[[Results], Table]
    """Makes the printed table."""
    draw: Callable[[Results], Figure]
    """Makes the figure."""
    tuning_seeds: str = TUNING_SEEDS
    """The seeds on which the study's settings were chosen."""


def label(cell: Cell) -> str:
    """Return a cell's name, fit for a file name."""
    return "-".join(f"{name}={value}" for name, value in cell.items())


def timed(compute: Callable[[], Made]) -> tuple[Made, float]:
    """Return what a function returns, and the seconds that it took."""
    start = time.perf_counter()
    return compute(), round(time.perf_counter() - start, 4)


def select(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Return the rows whose columns have the wanted values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def cells_in(rows: Sequence[Row], *columns: str) -> list[Cell]:
    """Return the distinct values of some columns, in the order of the rows."""
    distinct = dict.fromkeys(tuple(row[name] for name in columns) for row in rows)
    return [dict(zip(columns, values, strict=True)) for values in distinct]


def mean_and_error(rows: Sequence[Row], column: str) -> tuple[float, float]:
    """Return the mean of a column over runs, and its standard error (0 for a single run)."""
    values = np.array([row[column] for row in rows], dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean()), float(error)


def with_error(rows: Sequence[Row], column: str) -> str:
    """Return "mean ± standard error (number of runs)" of a column as text, or empty text where there is no run."""
    if not rows:
        return ""
    mean, error = mean_and_error(rows, column)
    spread = f" ± {error:.2f}" if len(rows) > 1 else ""
    return f"{mean:.2f}{spread} ({len(rows)})"


def by_method(rows: Sequence[Row], methods: Sequence[str], column: str) -> list[str]:
    """Return the text of `with_error` for each method."""
    return [with_error(select(rows, method=method), column) for method in methods]
