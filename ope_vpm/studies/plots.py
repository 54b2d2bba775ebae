"""Parts that the studies' figures share: panels, and curves with error bars in one style per method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ope_vpm.studies.study import Row, mean_and_error, select

Score = Callable[[Sequence[Row]], tuple[float, float]]
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


def curve(axes: Axes, rows: Sequence[Row], method: str, x: str, y: str | Score, **style: Any) -> None:
    """Draw a score of a method's runs against a column, with standard errors.

    Args:
        axes: to draw on.
        rows: of the results.
        method: the method whose rows are drawn.
        x: the column of the horizontal axis.
        y: the column that is averaged, or a function from the rows at one place to a score and its standard error.
        style: further arguments of matplotlib's `errorbar`.
    """
    chosen = select(rows, method=method)
    if not chosen:
        return
    at = sorted({row[x] for row in chosen})
    score = partial(mean_and_error, column=y) if isinstance(y, str) else y
    means, errors = zip(*(score(select(chosen, **{x: value})) for value in at), strict=True)
    look: dict[str, Any] = {"markersize": 4, "linewidth": 1.4, "label": method} | STYLES.get(method, {}) | style
    axes.errorbar(at, means, yerr=errors if any(errors) else None, capsize=2, **look)


def legend_below(figure: Figure) -> None:
    """Put the legend of the first panel below all of them."""
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
