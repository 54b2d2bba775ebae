"""Figure `fig:OPE`, left column: the average reward of a Taxi policy from another policy's log; the truth is exact."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ope_vpm.baselines.importance_sampling import StepWise, TrajectoryWise
from ope_vpm.baselines.liu import Liu2018
from ope_vpm.baselines.model import ModelBased
from ope_vpm.baselines.naive import Naive
from ope_vpm.envs import taxi
from ope_vpm.envs.taxi_bound import cramer_rao_bound
from ope_vpm.logged import LoggedDataset
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.estimator import PAPER, VPMEstimator
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.plots import panels
from ope_vpm.studies.study import Cell, Outcome, Results, Row, Study, Table, select

TARGET, BEHAVIOUR = 1000, 950
TRAJECTORIES, LENGTH, ALPHA = 200, 400, 0.0
TRAJECTORY_SWEEP = (50, 100, 200, 400)
LENGTH_SWEEP = (100, 200, 400, 800)
ALPHA_SWEEP = (0.0, 0.2, 0.4, 0.6, 0.8)
TUNING_SEEDS = "100-129"
ON_POLICY_SEED = 10_000
"""Added to a run's seed, for target trajectories independent of the log."""

METHODS: dict[str, ProblemEstimator] = {
    "VPM": VPMEstimator(),
    "VPM (paper)": VPMEstimator(preset="paper"),
    "Liu et al., behaviour known": Liu2018(behaviour="logged"),
    "Liu et al., cloned": Liu2018(),
    "WIST, cloned": TrajectoryWise(),
    "WISS, cloned": StepWise(),
    "model-based": ModelBased(),
    "model-based (paper)": ModelBased(method="simulate"),
    "logged mean": Naive(),
}
ON_POLICY, BOUND = "on-policy mean", "Cramér–Rao bound"
NAMES = (*METHODS, ON_POLICY, BOUND)
AXES = {"trajectories": "number of trajectories", "length": "trajectory length", "alpha": "α: share of the target"}


def study(quick: bool) -> Study:
    """Three sweeps through 200 trajectories of 400 steps of the behaviour itself; quick: four small cells."""
    middle = {"trajectories": TRAJECTORIES, "length": LENGTH, "alpha": ALPHA}
    sweeps = {"trajectories": TRAJECTORY_SWEEP, "length": LENGTH_SWEEP, "alpha": ALPHA_SWEEP}
    if quick:
        middle |= {"trajectories": 50, "length": 100}
        sweeps = {"trajectories": (50, 100), "length": (100, 200), "alpha": (0.0, 0.5)}
    cells: list[Cell] = []
    for name, values in sweeps.items():
        cells += [cell for value in values if (cell := middle | {name: value}) not in cells]
    settings = {"target": TARGET, "behaviour": BEHAVIOUR, "gamma": 1.0, "VPM (paper)": PAPER["tabular"]}
    return Study("taxi", "Taxi policy values (fig:OPE)", settings, cells, run, table, draw, TUNING_SEEDS)


def run(cell: Cell, seed: int) -> Outcome:
    """All methods on one log."""
    target, truth = taxi.shipped(TARGET), exact_truth()
    data = taxi.simulate(behaviour(cell["alpha"]), cell["trajectories"], cell["length"], seed)
    rows = [_row(name, *answer(estimator, data), truth) for name, estimator in METHODS.items()]
    start = time.perf_counter()
    own = taxi.simulate(target, cell["trajectories"], cell["length"], seed + ON_POLICY_SEED)
    rows.append(_row(ON_POLICY, float(own.rewards.mean()), time.perf_counter() - start, truth))
    floor = cramer_rao_bound(target, behaviour(cell["alpha"]), cell["trajectories"], cell["length"])
    return Outcome([*rows, {"method": BOUND, "error": 0.0, "squared_error": floor, "seconds": 0.0}])


def answer(estimator: ProblemEstimator, data: LoggedDataset) -> tuple[float, float]:
    """The value, and the seconds it took."""
    start = time.perf_counter()
    found = estimator.answer(Problem.pose(data, taxi.shipped(TARGET)))
    return found.value, time.perf_counter() - start


def behaviour(alpha: float) -> TablePolicy:
    """α·target + (1-α)·behaviour."""
    return taxi.mixed(taxi.shipped(TARGET), taxi.shipped(BEHAVIOUR), alpha)


@cache
def exact_truth() -> float:
    """The target's average reward."""
    return taxi.exact_value(taxi.shipped(TARGET))


def _row(method: str, value: float, seconds: float, truth: float) -> Row:
    error = value - truth
    return {"method": method, "error": error, "squared_error": error**2, "seconds": round(seconds, 4)}


def log_mse(rows: Sequence[Row]) -> tuple[float, float]:
    """The logarithm (base 10) of the mean squared error over runs, and its standard error to first order."""
    squares = np.array([row["squared_error"] for row in rows], dtype=float)
    mean = squares.mean()
    spread = squares.std(ddof=1) / np.sqrt(len(squares)) if len(squares) > 1 else 0.0
    return float(np.log10(mean)), float(spread / mean / np.log(10))


def table(results: Results) -> Table:
    """The logarithm of the mean squared error, every cell."""
    lines = []
    for cell in _cells(results):
        line = [f"{cell['trajectories']}x{cell['length']}", str(cell["alpha"])]
        for name in NAMES:
            rows = select(results.rows, method=name, **cell)
            middle, error = log_mse(rows)
            line.append(f"{middle:.2f} ± {error:.2f} ({len(rows)})" if name != BOUND else f"{middle:.2f}")
        lines.append(line)
    return Table(["log", "α", *NAMES], lines)


def draw(results: Results) -> Figure:
    """The paper's three panels."""
    figure, axes = panels(1, 3, height=4.2)
    middle = {name: Counter(row[name] for row in results.rows).most_common(1)[0][0] for name in AXES}
    for axis, (name, text) in zip(axes, AXES.items(), strict=True):
        fixed = {other: value for other, value in middle.items() if other != name}
        _panel(axis, select(results.rows, **fixed), name)
        axis.set_xlabel(text)
    axes[0].set_ylabel("log₁₀ mean squared error")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    return figure


def _panel(axis: Axes, rows: Sequence[Row], name: str) -> None:
    for number, method in enumerate(NAMES):
        chosen = select(rows, method=method)
        at = sorted({row[name] for row in chosen})
        points = [log_mse(select(chosen, **{name: value})) for value in at]
        style: dict[str, Any] = (
            {"color": "black", "linestyle": ":"} if method == BOUND else {"color": f"C{number}", "marker": "."}
        )
        axis.errorbar(at, [p[0] for p in points], yerr=[p[1] for p in points], capsize=2, label=method, **style)
    if name != "alpha":
        axis.set_xscale("log", base=2)
        at = sorted({row[name] for row in rows})
        axis.set_xticks(at, [str(value) for value in at])


def _cells(results: Results) -> list[Cell]:
    keys = dict.fromkeys(tuple(row[name] for name in AXES) for row in results.rows)
    return [dict(zip(AXES, key, strict=True)) for key in keys]
