"""Parts that the studies' figures share: panels, and curves with error bars in one style per method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ope_vpm.studies.study import Row, mean_and_error, select

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


def curve(axes: Axes, rows: Sequence[Row], method: str, x: str, y: str, **style: Any) -> None:
    """Draw the mean of a column over runs against another column, with standard errors.

    Args:
        axes: to draw on.
        rows: of the results.
        method: the method whose rows are drawn.
        x: the column of the horizontal axis.
        y: the column that is averaged.
        style: further arguments of matplotlib's `errorbar`.
    """
    chosen = select(rows, method=method)
    if not chosen:
        return
    at = sorted({row[x] for row in chosen})
    found = [mean_and_error(select(chosen, **{x: value}), y) for value in at]
    means, errors = zip(*found, strict=True)
    look: dict[str, Any] = {"markersize": 4, "linewidth": 1.4, "label": method} | STYLES.get(method, {}) | style
    axes.errorbar(at, means, yerr=errors, capsize=2, **look)


def shades(
    axes: Axes, rows: Sequence[Row], methods: Sequence[str], columns: tuple[str, str], number: int, setting: str
) -> None:
    """Draw the curves of all methods in one setting; settings differ by line style, methods by colour.

    Args:
        axes: to draw on.
        rows: of the results in that setting.
        methods: the methods to draw.
        columns: of the horizontal and the vertical axis.
        number: of the setting, which decides its line style.
        setting: the setting's name, for the legend.
    """
    for method in methods:
        style = {"linestyle": ("-", "--", ":")[number % 3], "label": f"{method}, {setting}"}
        curve(axes, rows, method, *columns, **style)
