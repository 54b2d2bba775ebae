"""Values as a picture of matplotlib: an interval and a dot per estimate, beside the logged mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.inference.value import EpisodeReturn, PolicyValue
from ope_vpm.ope.reporting.words import by_name, leads, logged_lead, unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ope_vpm.ope.questions.compare import Comparison
    from ope_vpm.ope.questions.distribution import Distribution
    from ope_vpm.ope.questions.sensitivity import Sensitivity

COLOURS = {"reliable": "#2e9e63", "caution": "#c98500", "unreliable": "#d1493f"}
"""Those of the page."""
LINE = 0.45
"""Inches of height per estimate: room for its name."""


def plot(values: Any, data: LoggedDataset | None = None, ax: Axes | None = None) -> Axes:
    """One line per estimate: its 95 % interval and its value, by the colour of its verdict.

    Args:
        values: what `evaluate` returned.
        data: the log that was evaluated; with it, a dashed line shows what was logged.
        ax: where to draw; a new figure by default.
    """
    named: Mapping[str, PolicyValue] = by_name(values)
    ax = ax or _axes(len(named))
    first = next(iter(named.values()))
    shown = leads(named, next(iter(named)))
    for place, lead in enumerate(shown.values()):
        _estimate(ax, place, lead)
    logged = logged_lead(first, data)
    if logged is not None:
        ax.axvline(logged, color="0.4", linestyle="--", linewidth=1, label="logged")
        ax.legend(frameon=False)
    ax.set_yticks(range(len(shown)), labels=list(shown))
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlabel("return of an episode" if first.per == "episode" else unit(first.gamma))
    return ax


def plot_difference(found: Comparison, ax: Axes | None = None) -> Axes:
    """The difference of two policies: its 95 % interval and its value, by the colour of its verdict, beside 0."""
    ax = ax or _axes(1)
    _estimate(ax, 0, found)
    ax.axvline(0, color="0.4", linestyle="--", linewidth=1)
    ax.set_yticks([0], labels=["new less old"])
    ax.set_xlabel("return of an episode" if found.per == "episode" else unit(found.new.gamma))
    return ax


def plot_cdf(found: Distribution, ax: Axes | None = None) -> Axes:
    """The CDF of the return with its band, its mean, and the worst tenth."""
    ax = ax or _axes()
    at = np.unique(found.sample.returns)
    colour = COLOURS[found.verdict]
    ax.fill_between(at, *found.band(at), step="post", color=colour, alpha=0.25, linewidth=0, label="95 % band")
    ax.step(at, found.cdf(at), where="post", color=colour)
    ax.axvline(found.mean, color="0.4", linestyle="--", linewidth=1, label="mean")
    ax.axvline(found.cvar(0.1), color="0.4", linestyle=":", linewidth=1, label="mean of the worst tenth")
    ax.set(xlabel=found.what, ylabel="probability of no more than that")
    ax.legend(frameon=False)
    return ax


def plot_bounds(found: Sensitivity, ax: Axes | None = None) -> Axes:
    """Bounds of a value under hidden causes, by how much these multiply the odds of an action."""
    ax = ax or _axes()
    ax.fill_between(found.grid, found.lower, found.upper, color=COLOURS["caution"], alpha=0.25, linewidth=0)
    ax.axhline(found.value, color=COLOURS["caution"], label="if nothing is hidden")
    ax.axhline(found.logged, color="0.4", linestyle="--", linewidth=1, label="logged")
    tips = found.tipping()
    if tips is not None:
        ax.axvline(tips, color="0.4", linestyle=":", linewidth=1, label="from here on the order is not known")
    ax.set(
        xlabel="odds ratio of hidden causes",
        ylabel="return of an episode" if found.per == "episode" else "value per step",
    )
    ax.legend(frameon=False)
    return ax


def plot_epochs(epochs: Sequence[tuple[int, float, float, float]], chosen: int, ax: Axes | None = None) -> Axes:
    """The estimated value of each epoch of a training run over its 95 % interval, and the epoch that was chosen.

    Args:
        epochs: number, value, and both ends of the interval of each.
        chosen: the number of one of them.
        ax: where to draw; a new figure by default.
    """
    ax = ax or _axes()
    (at, values, low, high), colour = zip(*epochs, strict=True), COLOURS["reliable"]
    ax.fill_between(at, low, high, color=colour, alpha=0.25, linewidth=0, label="95 % interval")
    ax.plot(at, values, "o-", color=colour)
    ax.axvline(chosen, color="0.4", linestyle=":", linewidth=1, label=f"chosen: epoch {chosen}")
    ax.set_xlabel("epoch")
    ax.set_ylabel("value per step")
    ax.legend(frameon=False)
    return ax


def _axes(lines: int | None = None) -> Axes:
    """A new figure, with room for some lines, or for a curve."""
    import matplotlib.pyplot as plt

    height = 3.6 if lines is None else 1.2 + LINE * lines
    return plt.subplots(figsize=(6.4, height), layout="constrained")[1]


def _estimate(ax: Axes, place: int, found: PolicyValue | EpisodeReturn | Comparison) -> None:
    """A bar for the interval and a dot for the value, in the colour of the verdict."""
    colour = COLOURS[found.verdict]
    if found.interval is not None:
        ax.plot(found.interval, [place, place], color=colour, linewidth=4, alpha=0.5, solid_capstyle="butt")
    if np.isfinite(found.value):
        ax.plot([found.value], [place], "o", color=colour)
