"""Tables and figures of the control studies: errors in units of the on-policy floor, and which cells are informative.

The floor of a cell is the standard error of an on-policy mean of as many trajectories. A cell is one log and discount.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ope_vpm.envs.bullet import LOGGED, stored_truth
from ope_vpm.studies.study import Cell, Results, Rows, Table, panels

OURS = ("vpm", "auto", "dr", "fqe (linear)")
"""The methods whose summaries are printed."""
OPPONENTS = ("naive", "wist", "wiss", "model", "liu")
"""The baselines of the paper's figure, and the logged mean."""
INFORMATIVE = 1.3
"""A cell is informative where the logged mean's error is above this many floors; below, the behaviour is as good as the
target, and no method can be told from another. Prototype runs of Reacher at α ≤ 0.5 were within this."""
STYLES: dict[str, dict[str, Any]] = {
    "vpm": {"color": "C3", "marker": "o"},
    "auto": {"color": "C3", "marker": "*", "linestyle": ":"},
    "dr": {"color": "C6", "marker": "h"},
    "fqe (linear)": {"color": "C9", "marker": "d"},
    "vpm (paper)": {"color": "C1", "marker": "s", "linestyle": "--"},
    "liu": {"color": "C4", "marker": "D"},
    "model": {"color": "C0", "marker": "^"},
    "wiss": {"color": "C2", "marker": "v"},
    "wist": {"color": "C8", "marker": "<"},
    "onestep": {"color": "C5", "marker": "P"},
    "naive": {"color": "C7", "marker": "x"},
}
"""A colour and a marker for each method, in the order of the table, so that figures of three tasks can be compared."""


def errors(results: Results, task: str, cell: Cell, method: str, seeds: set[int] | None = None) -> list[float]:
    """Return estimate minus true value for each run of a method in a cell.

    Args:
        results: of the study.
        task: the name of the task.
        cell: the columns that identify a log and a discount.
        method: the name of the method.
        seeds: the runs to include; None: all.
    """
    truth = stored_truth(task).at(cell["gamma"], cell["length"]).value
    rows = results.rows.where(**cell, method=method)
    return [row["value"] - truth for row in rows if seeds is None or row["seed"] in seeds]


def conditional_errors(results: Results, cell: Cell, method: str) -> list[float]:
    """Return estimate minus the true value given the logged initial states, for each run of a method in a cell."""
    own = {name: cell[name] for name in ("trajectories", "length", "gamma")}
    truths = {row["seed"]: row["value"] for row in results.rows.where(**own, method="conditional truth")}
    rows = results.rows.where(**cell, method=method)
    return [row["value"] - truths[row["seed"]] for row in rows if row["seed"] in truths]


def rmse(values: Sequence[float]) -> float:
    """Return the root mean square of some errors: NaN if there are none, infinite if a run has no finite value."""
    if len(values) == 0:
        return float("nan")
    return float(np.sqrt(np.mean(np.square(np.where(np.isfinite(values), values, np.inf)))))


def floor(task: str, cell: Cell) -> float:
    """Return the floor of a cell: the standard error of an on-policy mean of as many trajectories."""
    return float(stored_truth(task).at(cell["gamma"], cell["length"]).deviation / np.sqrt(cell["trajectories"]))


def informative(results: Results, task: str, cell: Cell) -> bool:
    """Return whether the logged mean's error is more than 1.3 times that of an on-policy mean."""
    return rmse(errors(results, task, cell, "naive")) > INFORMATIVE * floor(task, cell)


def cells_of(results: Results) -> list[Cell]:
    """Return every log and discount that was evaluated."""
    logged = Rows(row for row in results.rows if row["methods"] != "truth")
    return logged.cells("behaviour", "trajectories", "length", "gamma")


def beats(results: Results, task: str, cell: Cell, method: str) -> bool:
    """Return whether a method has a lower error than every opponent, each compared on the runs that it has."""
    for other in OPPONENTS:
        rows = results.rows.where(**cell, method=other)
        if rows:
            seeds = {row["seed"] for row in rows}
            if not rmse(errors(results, task, cell, method, seeds)) < rmse(errors(results, task, cell, other)):
                return False
    return True


def tied_lowest(results: Results, task: str, cell: Cell, method: str) -> bool:
    """Return whether no other method's squared errors are lower by two standard errors of the paired difference."""
    own = {row["seed"]: row["value"] for row in results.rows.where(**cell, method=method)}
    truth = stored_truth(task).at(cell["gamma"], cell["length"]).value
    for other in STYLES:
        rows = [row for row in results.rows.where(**cell, method=other) if row["seed"] in own]
        if other == method or len(rows) < 3:
            continue
        worse = np.array([(own[row["seed"]] - truth) ** 2 - (row["value"] - truth) ** 2 for row in rows])
        if worse.mean() > 2 * worse.std(ddof=1) / np.sqrt(len(worse)):
            return False
    return True


def summary(results: Results, task: str, method: str) -> dict[str, float]:
    """Summarise one method over the cells with trajectories of full length.

    The numbers are over the informative cells: the geometric mean of RMSE/floor, and the shares of cells in which the
    method's RMSE is below all opponents', below the logged mean's, and not significantly above any method's. Only
    `worst_of_naive`, the largest multiple of the logged mean's RMSE, is over all cells.
    """
    full = [cell for cell in cells_of(results) if cell["length"] == LOGGED[task]]
    cells = [cell for cell in full if informative(results, task, cell)]

    def times_naive(cell: Cell) -> float:
        return rmse(errors(results, task, cell, method)) / rmse(errors(results, task, cell, "naive"))

    ratios = [rmse(errors(results, task, cell, method)) / floor(task, cell) for cell in cells]
    return {
        "cells": len(full),
        "informative": len(cells),
        "geometric_mean": float(np.exp(_mean([np.log(ratio) for ratio in ratios]))),
        "below_all": _mean([beats(results, task, cell, method) for cell in cells]),
        "below_naive": _mean([times_naive(cell) < 1 for cell in cells]),
        "tied_lowest": _mean([tied_lowest(results, task, cell, method) for cell in cells]),
        "worst_of_naive": max(map(times_naive, full), default=float("nan")),
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def table(task: str, results: Results) -> Table:
    """Make the table of RMSE as a multiple of the on-policy floor, with one line per cell."""
    lines = []
    for cell in cells_of(results):
        base = floor(task, cell)
        shown = [_cell(errors(results, task, cell, method), base) for method in STYLES]
        given = rmse(conditional_errors(results, cell, "vpm")) / base
        mark = "" if informative(results, task, cell) else "uninformative"
        size = [str(cell[name]) for name in ("behaviour", "gamma", "trajectories", "length")]
        lines.append([*size, f"{base:.4f}", *shown, f"{given:.2f}", mark])
    there = {row["method"] for row in results.rows}
    notes = [_in_words(method, summary(results, task, method)) for method in OURS if method in there]
    columns = ["behaviour", "gamma", "trajectories", "length", "floor", *STYLES, "vpm given s₀", ""]
    return Table(columns, lines, "\n".join(["RMSE as a multiple of the on-policy floor (runs)", *notes]))


def _in_words(method: str, found: dict[str, float]) -> str:
    if not found["informative"]:
        return f"{method}: in none of {found['cells']:.0f} cells is the logged mean off by enough to tell methods apart"
    return (
        f"{method}: {found['geometric_mean']:.2f} floors over {found['informative']:.0f} informative cells of "
        f"{found['cells']:.0f}; below all opponents in {found['below_all']:.0%}, "
        f"below naive in {found['below_naive']:.0%}, not beaten in {found['tied_lowest']:.0%}; "
        f"at most {found['worst_of_naive']:.2f} times naive"
    )


def draw(task: str, results: Results) -> Figure:
    """Draw log MSE against trajectories, length and α, for both discounts; the dashed line is the on-policy mean."""
    gammas = sorted({cell["gamma"] for cell in cells_of(results)}, reverse=True)
    figure, axes = panels(len(gammas), 3)
    cells = cells_of(results)
    longest, most = max(cell["length"] for cell in cells), max(cell["trajectories"] for cell in cells)
    middle: list[dict[str, Any]] = [
        {"x": "trajectories", "behaviour": 1.0, "length": longest},
        {"x": "length", "behaviour": 1.0, "trajectories": most},
        {"x": "behaviour", "trajectories": most, "length": longest},
    ]
    for row, gamma in enumerate(gammas):
        for column, panel in enumerate(middle):
            fixed = {name: value for name, value in panel.items() if name != "x"} | {"gamma": gamma}
            chosen = [cell for cell in cells if all(cell[name] == value for name, value in fixed.items())]
            _panel(axes[3 * row + column], results, task, chosen, str(panel["x"]))
            axes[3 * row + column].set_title(f"γ = {gamma}", fontsize="small")
    axes[0].set_ylabel("log₁₀ MSE")
    axes[2].legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _panel(axes: Axes, results: Results, task: str, cells: Sequence[Cell], x: str) -> None:
    cells = sorted(cells, key=lambda cell: (isinstance(cell[x], str), cell[x]))  # numbers, then "mix"
    places = [str(cell[x]) for cell in cells]
    for method in STYLES:
        scores = [rmse(errors(results, task, cell, method)) ** 2 for cell in cells]
        known = [(place, np.log10(score)) for place, score in zip(places, scores, strict=True) if 0 < score < np.inf]
        if known:
            look: dict[str, Any] = {"markersize": 4, "linewidth": 1.2, "label": _label(results, method)} | STYLES[
                method
            ]
            axes.plot(*zip(*known, strict=True), **look)
    base = [2 * np.log10(floor(task, cell)) for cell in cells]
    axes.plot(places, base, "k--", linewidth=1, label="on-policy mean")
    axes.set_xlabel({"trajectories": "number of trajectories", "length": "length", "behaviour": "behaviour α"}[x])


def _label(results: Results, method: str) -> str:
    """Return a method's legend entry, which says where there is only one run: a single error may be small by luck."""
    once = len({row["seed"] for row in results.rows.where(method=method)}) == 1
    return f"{method}, one run" if once else method


def _cell(values: Sequence[float], base: float) -> str:
    return f"{rmse(values) / base:.2f} ({len(values)})" if len(values) else ""
