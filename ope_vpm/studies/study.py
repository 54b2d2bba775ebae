"""What a study is, a grid of cells and a function that runs one for a seed, and the parts of its tables and figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem

Cell = dict[str, Any]
"""The settings that vary within a study, by name."""
Row = dict[str, Any]
"""One line of results, by column."""


class Rows(list[Row]):
    """Lines of results."""

    def where(self, **wanted: Any) -> Rows:
        """Return the rows whose columns have the wanted values."""
        return Rows(row for row in self if all(row[name] == value for name, value in wanted.items()))

    def cells(self, *columns: str) -> list[Cell]:
        """Return the distinct values of some columns, in the order of the rows."""
        distinct = dict.fromkeys(tuple(row[name] for name in columns) for row in self)
        return [dict(zip(columns, values, strict=True)) for values in distinct]

    def mean_and_error(self, column: str) -> tuple[float, float]:
        """Return the mean of a column over runs, and its standard error (0 for a single run)."""
        values = np.array([row[column] for row in self], dtype=float)
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        return float(values.mean()), float(error)

    def text(self, column: str) -> str:
        """Return "mean ± standard error (number of runs)" of a column, or empty text where there is no run."""
        if not self:
            return ""
        mean, error = self.mean_and_error(column)
        spread = f" ± {error:.2f}" if len(self) > 1 else ""
        return f"{mean:.2f}{spread} ({len(self)})"

    def by_method(self, methods: Sequence[str], column: str) -> list[str]:
        """Return the text of a column for each method."""
        return [self.where(method=method).text(column) for method in methods]


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

    rows: Rows
    """The lines of the CSV file: the cell, the seed, the method and its numbers."""
    arrays: dict[str, Arrays] = field(default_factory=dict)
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


def answer(estimator: ProblemEstimator, problem: Problem) -> Row:
    """Return the value, the ends of its interval (NaN without one), the verdict and the seconds."""
    found, seconds = timed(lambda: estimator.answer(problem))
    low, high = found.interval or (float("nan"), float("nan"))
    return {"value": found.value, "low": low, "high": high, "verdict": found.verdict, "seconds": seconds}


Score = Callable[[Rows], tuple[float, float]]
"""From the runs at one place to a number and its standard error."""
STYLES: dict[str, dict[str, Any]] = {
    "VPM": {"color": "C3", "marker": "o"},
    "VPM (paper)": {"color": "C1", "marker": "s", "linestyle": "--"},
    "model-based (exact)": {"color": "C0", "marker": "^"},
    "model-based (paper)": {"color": "C9", "marker": "v", "linestyle": "--"},
    "model-based": {"color": "C0", "marker": "^", "linestyle": "none"},
    "VPM (kernel)": {"color": "C2", "marker": "D"},
    "MCMC": {"color": "C7", "marker": "x"},
    "EM": {"color": "C7", "marker": "x"},
}
"""A method looks the same in all figures: VPM warm, model-based ones blue, uncorrected samples grey."""


def panels(rows: int, columns: int, height: float = 3.2, width: float = 4.2) -> tuple[Figure, list[Axes]]:
    """Make a figure without touching matplotlib's global state, and return it with its axes in reading order."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(np.ravel(axes))


def curve(axes: Axes, rows: Rows, method: str, x: str, y: str | Score, **style: Any) -> None:
    """Draw a score of a method's runs against a column, with standard errors.

    Args:
        axes: to draw on.
        rows: of the results.
        method: the method whose rows are drawn.
        x: the column of the horizontal axis.
        y: the column that is averaged, or a function from the rows at one place to a score and its standard error.
        style: further arguments of matplotlib's `errorbar`.
    """
    chosen = rows.where(method=method)
    if not chosen:
        return
    at = sorted({row[x] for row in chosen})
    score = methodcaller("mean_and_error", y) if isinstance(y, str) else y
    means, errors = zip(*(score(chosen.where(**{x: value})) for value in at), strict=True)
    look: dict[str, Any] = {"markersize": 4, "linewidth": 1.4, "label": method} | STYLES.get(method, {}) | style
    axes.errorbar(at, means, yerr=errors if any(errors) else None, capsize=2, **look)


def legend_below(figure: Figure) -> None:
    """Put the legend of the first panel below all of them."""
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
