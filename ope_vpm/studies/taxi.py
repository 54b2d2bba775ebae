"""Figure `fig:OPE`, left column: a Taxi policy's average reward from another policy's log; the true value is exact."""

from collections import Counter
from functools import cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ope_vpm.baselines.importance_sampling import StepWise, TrajectoryWise
from ope_vpm.baselines.liu import Liu2018
from ope_vpm.baselines.model import ModelBased
from ope_vpm.baselines.naive import Naive
from ope_vpm.envs import taxi
from ope_vpm.envs.taxi_bound import cramer_rao_bound
from ope_vpm.ope.estimator import ProblemEstimator
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.estimator import PAPER, VPMEstimator
from ope_vpm.policy import TablePolicy
from ope_vpm.studies.study import (
    Cell,
    Outcome,
    Results,
    Row,
    Rows,
    Study,
    Table,
    answer,
    curve,
    legend_below,
    panels,
    timed,
)

TARGET, BEHAVIOUR = 1000, 950
"""The paper's numbers of Q-learning iterations after which the target and the behaviour policy are taken."""
TRAJECTORIES, LENGTH, ALPHA = 200, 400, 0.0
"""The cell that all sweeps cross, with the behaviour policy itself; sizes in the middle of the sweeps."""
TRAJECTORY_SWEEP = (50, 100, 200, 400)
"""Numbers of trajectories; the paper's text does not list its own."""
LENGTH_SWEEP = (100, 200, 400, 800)
"""Lengths of trajectories, likewise."""
ALPHA_SWEEP = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Weights of the target in the behaviour, α·target + (1-α)·behaviour; at 1 the log would be on-policy."""
TUNING_SEEDS = "100-129"
"""The seeds on which the defaults for finite states were chosen."""
ON_POLICY_SEED = 10_000
"""Added to a run's seed, for trajectories of the target that are independent of the log."""

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
"""The estimators that are compared: ours, the paper's, and its baselines with and without a known behaviour."""
ON_POLICY, BOUND = "on-policy mean", "Cramér–Rao bound"
"""The two references: the error of running the target itself, and the least variance of an unbiased estimate."""
NAMES = (*METHODS, ON_POLICY, BOUND)
"""In the order of the table and the legend."""
AXES = {"trajectories": "number of trajectories", "length": "trajectory length", "alpha": "α: share of the target"}
"""The columns that vary, with their labels."""


def study(quick: bool) -> Study:
    """Return the study of three sweeps through one cell; the quick one has four small cells."""
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
    """Run all methods on one log."""
    target, truth = taxi.shipped(TARGET), exact_truth()
    data = taxi.simulate(behaviour(cell["alpha"]), cell["trajectories"], cell["length"], seed)
    found = {name: answer(estimator, Problem.pose(data, target)) for name, estimator in METHODS.items()}
    size = cell["trajectories"], cell["length"]
    own, seconds = timed(lambda: taxi.simulate(target, *size, seed + ON_POLICY_SEED))
    found[ON_POLICY] = {"value": float(own.rewards.mean()), "seconds": seconds}
    rows = [_row(name, row["value"], row["seconds"], truth) for name, row in found.items()]
    floor = cramer_rao_bound(target, behaviour(cell["alpha"]), *size)
    return Outcome([*rows, {"method": BOUND, "error": 0.0, "squared_error": floor, "seconds": 0.0}])


def behaviour(alpha: float) -> TablePolicy:
    """Return the policy that logs, α·target + (1-α)·behaviour."""
    return taxi.mixed(taxi.shipped(TARGET), taxi.shipped(BEHAVIOUR), alpha)


@cache
def exact_truth() -> float:
    """Return the target's exact average reward."""
    return taxi.exact_value(taxi.shipped(TARGET))


def _row(method: str, value: float, seconds: float, truth: float) -> Row:
    error = value - truth
    return {"method": method, "error": error, "squared_error": error**2, "seconds": seconds}


def log_mse(rows: Rows) -> tuple[float, float]:
    """Return log₁₀ of the mean squared error over runs, and its standard error by the delta method."""
    squares = np.array([row["squared_error"] for row in rows], dtype=float)
    mean = squares.mean()
    spread = squares.std(ddof=1) / np.sqrt(len(squares)) if len(squares) > 1 else 0.0
    return float(np.log10(mean)), float(spread / mean / np.log(10))


def table(results: Results) -> Table:
    """Make the table of log₁₀ of the mean squared error, with one line per cell."""
    lines = []
    for cell in results.rows.cells(*AXES):
        line = [f"{cell['trajectories']}x{cell['length']}", str(cell["alpha"])]
        for name in NAMES:
            rows = results.rows.where(method=name, **cell)
            middle, error = log_mse(rows)
            line.append(f"{middle:.2f} ± {error:.2f} ({len(rows)})" if name != BOUND else f"{middle:.2f}")
        lines.append(line)
    return Table(["log", "α", *NAMES], lines)


def draw(results: Results) -> Figure:
    """Draw the paper's three panels: error against trajectories, length and behaviour."""
    figure, axes = panels(1, 3, height=4.2)
    middle = {name: Counter(row[name] for row in results.rows).most_common(1)[0][0] for name in AXES}
    for axis, (name, text) in zip(axes, AXES.items(), strict=True):
        fixed = {other: value for other, value in middle.items() if other != name}
        _panel(axis, results.rows.where(**fixed), name)
        axis.set_xlabel(text)
    axes[0].set_ylabel("log₁₀ mean squared error")
    legend_below(figure)
    return figure


def _panel(axis: Axes, rows: Rows, name: str) -> None:
    for number, method in enumerate(NAMES):
        style = {"color": "black", "linestyle": ":"} if method == BOUND else {"color": f"C{number}", "marker": "."}
        curve(axis, rows, method, name, log_mse, **style)
    if name != "alpha":
        axis.set_xscale("log", base=2)
        at = sorted({row[name] for row in rows})
        axis.set_xticks(at, [str(value) for value in at])
