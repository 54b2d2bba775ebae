"""A paper as a study: what it published, ours of the same method, ours at its best; its TOML file says the rest."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from scipy.stats import spearmanr

from ope_vpm.arrays import Floats
from ope_vpm.ope.evaluate import evaluate
from ope_vpm.ope.inference.value import PolicyValue
from ope_vpm.studies.study import Cell, Outcome, Results, Row, Rows, Study, Table, panels, timed

FOLDER = Path(__file__).parent
MEASURES: dict[str, Callable[[Floats, Floats], float]] = {
    "value": lambda value, truth: float(value.mean()),
    "truth": lambda value, truth: float(truth.mean()),
    "MSE": lambda value, truth: float(np.mean((value - truth) ** 2)),
    "RMSE": lambda value, truth: float(np.mean((value - truth) ** 2)),
    "Spearman": lambda value, truth: float(spearmanr(value, truth)[0]),
    "regret": lambda value, truth: float(truth.max() - truth[value.argmax()]),
}
"""The score of one run over its policies; the root of "RMSE" is taken of the mean over runs."""
SAME = 1e-9
"""The relative error of a mean of runs that are all the same, but for rounding."""
LOWEST = ("MSE", "RMSE", "regret")
"""The scores of which the lowest is best, and is set in bold where somebody has one."""


@dataclass(frozen=True)
class Paper:
    """The contents of a paper's TOML file, field by field."""

    title: str
    reference: str
    """Authors, title, place and year."""
    source: str
    """The table, figure or file of the published figures."""
    protocol: str
    """The logs, the target and the runs, and what is not as in the paper."""
    run: str
    """The function that runs one cell, as module:function of the studies."""
    measures: list[str]
    """The columns, names of `MEASURES`; the first one is drawn."""
    cells: list[Cell]
    runs: str
    """How many runs the published figures and ours are of."""
    published: list[Row]
    """A cell's columns, "method", and published numbers by their measure; text stands as it is."""
    conclusions: list[str]
    missing: str
    """What could not be reproduced, and why."""
    page: dict[str, Any] = field(default_factory=dict)
    """What the page's table shows: the columns `by` which its rows are named, its `methods` and `measures`, and its
    `cells` by some of their columns; all cells, if they are not given."""
    data: str = ""
    """The file with the paper's own log, where there is one."""
    data_cells: list[Cell] = field(default_factory=list)
    """The cells that are about the paper's own log."""


def read(name: str) -> Paper:
    """Read a paper's file."""
    return Paper(**tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8")))


def study(name: str, quick: bool, data: Path | None = None) -> Study:
    """A paper as a study; the quick one has its last cell.

    Args:
        name: the name of its file.
        quick: whether a small version is asked for.
        data: the file with the paper's own log, which its own cells need.
    """
    paper = read(name)
    cells = paper.cells[-1:] if quick else [*paper.data_cells * (data is not None), *paper.cells]
    run_cell = partial(run, paper.run, None if data is None else str(data))
    parts = partial(table, paper), partial(draw, paper)
    return Study(name, paper.title, {"run": paper.run}, cells, run_cell, *parts, tuning_seeds="none")


def run(where: str, data: str | None, cell: Cell, seed: int) -> Outcome:
    """Run all methods on one log."""
    module, _, function = where.partition(":")
    rows: list[Row] = getattr(import_module(f"ope_vpm.studies.{module}"), function)(cell, seed, data)
    return Outcome(rows)


def answers(
    data: Any, policies: Mapping[str, Any], truths: Mapping[str, float], methods: Mapping[str, Any], **question: Any
) -> list[Row]:
    """The returns, intervals and verdicts of estimators about policies, one row each.

    Args:
        data: the log.
        policies: the targets by name.
        truths: their true values, on the scale of a return, or of one reward where `per_step`.
        methods: by the name in the table, an estimator, or one with its settings and the log's own `data`.
        question: what `evaluate` is told beside them; `per_step` asks for values on the scale of one reward.
    """
    rows, per_step = [], question.pop("per_step", False)
    for method, chosen in methods.items():
        estimator, settings = chosen if isinstance(chosen, tuple) else (chosen, {})
        asked = question | settings
        log, targets = asked.pop("data", data), asked.pop("policies", policies)
        ask: Callable[[], Any] = partial(evaluate, log, dict(targets), estimator, **asked)
        found, seconds = timed(ask)
        each = seconds / len(targets)
        rows += [_row(method, name, truths[name], found[name], per_step, each) for name in targets]
    return rows


def _row(method: str, policy: str, truth: float, found: PolicyValue, per_step: bool, seconds: float) -> Row:
    told = per_step or found.gamma < 1 or found.episode_return is not None
    value = (found.value if per_step else found.as_return()) if told else np.nan
    low, high = (found.interval if per_step else found.return_interval) or (np.nan, np.nan)
    verdict = (found.verdict if per_step else found.return_verdict) or "none"
    return number(method, policy, truth, value, seconds) | {"low": low, "high": high, "verdict": verdict}


def number(method: str, policy: str, truth: float, value: float, seconds: float = 0.0) -> Row:
    """The row of a number that comes without interval and verdict."""
    plain = {"method": method, "policy": policy, "truth": float(truth), "value": float(value)}
    return {**plain, "low": np.nan, "high": np.nan, "verdict": "", "seconds": round(seconds, 4)}


def measured(rows: Rows, measure: str) -> tuple[float, float, int]:
    """A score's mean over runs, its standard error, and the number of runs; a run that lacks a value is left out."""
    scores = []
    for seed in sorted({row["seed"] for row in rows}):
        own = rows.where(seed=seed)
        value, truth = (np.array([row[name] for row in own], dtype=float) for name in ("value", "truth"))
        if np.isfinite(value).all():
            scores.append(MEASURES[measure](value, truth))
    mean = float(np.mean(scores)) if scores else np.nan
    error = float(np.std(scores, ddof=1) / len(scores) ** 0.5) if len(scores) > 1 else 0.0
    if measure == "RMSE":
        mean, error = mean**0.5, error / (2 * mean**0.5) if mean > 0 else 0.0
    return mean, error, len(scores)


def table(paper: Paper, results: Results) -> Table:
    """Every cell and method: published figures beside ours, intervals that hold the truth, verdicts."""
    columns = [
        name
        for measure in paper.measures
        for name in ([f"{measure}, published", "ours"] if _is_told(paper, measure) else [measure])
    ]
    head = [*paper.cells[0], "method", *columns, "intervals that hold", "reliable / caution / unreliable"]
    lines = [line for cell in results.rows.cells(*paper.cells[0]) for line in _lines(paper, cell, results.rows)]
    return Table(head, lines, "mean ± standard error over runs")


def _lines(paper: Paper, cell: Cell, rows: Rows) -> list[list[str]]:
    own, told = rows.where(**cell), _told(paper, cell)
    found = {method: own.where(method=method) for method in [*told, *dict.fromkeys(row["method"] for row in own)]}
    scores = {(method, name): measured(some, name) for method, some in found.items() for name in paper.measures}
    lowest = {name: np.nanmin([scores[method, name][0] for method in found]) for name in paper.measures}
    lines = []
    for method, some in found.items():
        line = [*map(str, cell.values()), method]
        for name in paper.measures:
            mean, error, runs = scores[method, name]
            best = name in LOWEST and bool(some) and mean == lowest[name]
            published = [_number(told.get(method, {}).get(name))] * _is_told(paper, name)
            line += [*published, _ours(mean, error, runs, best, some)]
        lines.append([*line, _held(some), _verdicts(some)])
    return lines


def _is_told(paper: Paper, measure: str) -> bool:
    """Whether anything was published by a measure."""
    return any(measure in row for row in paper.published)


def _told(paper: Paper, cell: Cell) -> dict[str, Row]:
    """The published rows of a cell, by method."""
    here = [row for row in paper.published if all(row.get(name) == value for name, value in cell.items())]
    return {row["method"]: row for row in here}


def _number(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def _ours(mean: float, error: float, runs: int, best: bool, rows: Rows) -> str:
    if not rows:
        return ""
    if runs == 0:
        return "none"
    asked = len({row["seed"] for row in rows})
    spread = f" ± {error:.1g}" if error > SAME * abs(mean) else ""
    text = f"{mean:.3g}" if spread else f"{mean:.4g}"
    return (f"**{text}**" if best else text) + spread + (f" ({runs} of {asked} runs)" if runs < asked else "")


def _held(rows: Rows) -> str:
    known = [row for row in rows if np.isfinite(row["low"])]
    held = sum(row["low"] <= row["truth"] <= row["high"] for row in known)
    return f"{held} of {len(known)}" if known else ""


def _verdicts(rows: Rows) -> str:
    counts = [sum(row["verdict"] == word for row in rows) for word in ("reliable", "caution", "unreliable")]
    return " / ".join(map(str, counts)) if any(counts) else ""


def draw(paper: Paper, results: Results) -> Figure:
    """The first measure, one panel a cell: published figures as rings, ours as dots with standard errors."""
    cells = results.rows.cells(*paper.cells[0])
    figure, axes = panels(-(-len(cells) // 2), min(len(cells), 2), height=3.0, width=5.2)
    for axis, cell in zip(axes, cells, strict=False):
        _panel(axis, paper, cell, results.rows)
        named = (value if isinstance(value, str) else f"{name} {value}" for name, value in cell.items())
        axis.set_title(", ".join(named), fontsize="small")
    for axis in axes[len(cells) :]:
        axis.set_axis_off()
    return figure


def _panel(axis: Axes, paper: Paper, cell: Cell, rows: Rows) -> None:
    own, told, measure = rows.where(**cell), _told(paper, cell), paper.measures[0]
    methods = list(dict.fromkeys([*told, *(row["method"] for row in own)]))
    for place, method in enumerate(methods):
        mean, error, runs = measured(own.where(method=method), measure)
        if runs:
            axis.errorbar(mean, -place, xerr=error, fmt="o", color="C3", capsize=2)
        if published := told.get(method, {}).get(measure):
            axis.plot(
                float(str(published).split()[0]), -place, "o", color="black", markerfacecolor="none", markersize=9
            )
    if measure == "value":
        axis.axvline(np.mean([row["truth"] for row in own]), color="black", linestyle=":")
        axis.xaxis.set_major_locator(MaxNLocator(5))
    else:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_yticks([-place for place in range(len(methods))], methods, fontsize=7)
    axis.tick_params(axis="x", labelsize=8)
    axis.set_xlabel(f"{measure}: published (ring), ours (dot)", fontsize="small")
