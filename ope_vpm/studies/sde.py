"""Figure `fig:OUP`: where a diffusion is heading, from Euler–Maruyama particles on their way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import sqrt
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from ope_vpm.arrays import Floats
from ope_vpm.chain import VPM, Transitions
from ope_vpm.envs.double_well import DoubleWell
from ope_vpm.envs.ornstein_uhlenbeck import OrnsteinUhlenbeck
from ope_vpm.mcmc import cell_ratio
from ope_vpm.studies.distance import histogram, log_mmd, median_of_law
from ope_vpm.studies.plots import panels, shades
from ope_vpm.studies.study import Cell, Outcome, Results, Study, Table, select, with_error

PARTICLES = 1000
CHECKPOINTS = (100, 300, 500, 1000, 2000)
METHODS = ("EM", "VPM", "VPM (paper)")
LAG_SHARE = 0.1
"""Our pairs are a tenth of the path apart: one step of 0.001 hardly moves, and power steps count steps."""
TIMES = 10
"""How many times in the second half of the path our pairs start at; the first half's particles weigh little."""
OUR_VPM: dict[str, int] = {"rows_per_cell": 100, "partitions": 5, "steps": 300}
PAPER_VPM: dict[str, Any] = {
    "preset": "paper", "hidden": [64, 64], "steps": 50, "inner_steps": 10, "learning_rate": 5e-4,
}  # fmt: skip
PAPER_SHARE = 0.01
"""The paper trains on the most recent 1 % of the path."""
Sample = tuple[Floats, Floats | None]


@dataclass(frozen=True)
class Setting:
    """A process and its time step."""

    process: OrnsteinUhlenbeck | DoubleWell
    dt: float = 0.001

    def law(self) -> tuple[Floats, Floats]:
        """Cell centres along the line, and the stationary law on them."""
        if isinstance(self.process, DoubleWell):
            centres = np.linspace(-4, 4, 2001)
            return centres, self.process.cell_probabilities(centres)
        deviation = sqrt(self.process.variance)
        edges = np.linspace(min(-3, self.process.mu - 7 * deviation), max(4, self.process.mu + 7 * deviation), 2002)
        law = np.diff(norm.cdf(edges, self.process.mu, deviation))
        return (edges[1:] + edges[:-1]) / 2, law / law.sum()

    def path(self, steps: int, seed: int) -> Floats:
        """Particles evenly spaced over [0, 1], and every step after: shape (steps + 1, particles)."""
        rng = np.random.default_rng(seed)
        path = np.empty((steps + 1, PARTICLES))
        path[0] = np.linspace(0, 1, PARTICLES)
        for step in range(steps):
            path[step + 1] = self.process.euler_maruyama(path[step], self.dt, rng)
        return path


def _ou(mu: float, sigma: float, theta: float, dt: float = 0.001) -> tuple[str, Setting]:
    return f"μ={mu:g} σ={sigma:g} θ={theta:g}", Setting(OrnsteinUhlenbeck(mu, sigma, theta), dt)


SWEEPS = {
    "mean μ": [_ou(1, 2, 2), _ou(2, 2, 2), _ou(3, 2, 2)],
    "deviation σ": [_ou(2, 1, 2), _ou(2, 2, 2), _ou(2, 3, 2)],
    "strength θ": [_ou(2, 2, 1), _ou(2, 2, 2), _ou(2, 2, 3)],
    "double well": [("double well", Setting(DoubleWell()))],
}
PHYLOGENY = {
    "phylogeny studies": [_ou(0.618, 1.584, 3.85, 0.0005), _ou(0.661, 0.710, 8.837, 0.0005)],
}
QUICK_SETTINGS = ("μ=2 σ=2 θ=2", "μ=0.618 σ=1.584 θ=3.85")
SETTINGS = {name: setting for group in (SWEEPS | PHYLOGENY).values() for name, setting in group}


def study(quick: bool) -> Study:
    """Ornstein–Uhlenbeck in three sweeps, and the double well."""
    return sde_study("sde", "Solving SDEs (fig:OUP): log MMD", SWEEPS, quick)


def sde_study(name: str, title: str, groups: dict[str, list[tuple[str, Setting]]], quick: bool) -> Study:
    """A study with one panel for each group of settings."""
    names = list(dict.fromkeys(setting for group in groups.values() for setting, _ in group))
    shown = [setting for setting in names if setting in QUICK_SETTINGS] if quick else names
    settings = {
        "particles": PARTICLES,
        "checkpoints": CHECKPOINTS,
        "dt": {setting: SETTINGS[setting].dt for setting in shown},
        "VPM": OUR_VPM | {"lag": f"{LAG_SHARE} of the path", "times": TIMES, "window": "second half"},
        "VPM (paper)": PAPER_VPM | {"data": f"the last {PAPER_SHARE} of the path, lag 1"},
    }
    cells = [{"method": method, "setting": setting} for method in METHODS for setting in shown]
    return Study(name, title, settings, cells, run, table, partial(draw, groups=groups))


def run(cell: Cell, seed: int) -> Outcome:
    """One method along one path."""
    setting = SETTINGS[cell["setting"]]
    centres, law, width = _truth(cell["setting"])
    path = setting.path(max(CHECKPOINTS), seed)
    estimators: dict[str, Callable[[Floats, int], Sample]] = {"EM": last, "VPM": lagged, "VPM (paper)": recent}
    rows = []
    for steps in CHECKPOINTS:
        start = time.perf_counter()
        points, weights = estimators[cell["method"]](path[: steps + 1], seed)
        seconds = round(time.perf_counter() - start, 4)
        distance = log_mmd(histogram(points, weights, centres), law, centres, width)
        rows.append({"em_steps": steps, "log_mmd": distance, "seconds": seconds})
    return Outcome(rows)


@cache
def _truth(name: str) -> tuple[Floats, Floats, float]:
    """Cell centres, the law on them and its median distance; sorting all distances takes a while."""
    centres, law = SETTINGS[name].law()
    return centres, law, median_of_law(centres, law)


def last(path: Floats, seed: int) -> Sample:
    """Euler–Maruyama as it is: the particles where they are now."""
    return path[-1], None


def lagged(path: Floats, seed: int) -> Sample:
    """Our default: pairs some way apart from the second half of the path, and VPM on cells."""
    steps = len(path) - 1
    lag = max(1, round(LAG_SHARE * steps))
    times = np.linspace((steps - lag) // 2, steps - lag, TIMES).astype(int)
    data = Transitions(path[times].ravel(), path[times + lag].ravel())
    return data.x[:, 0], cell_ratio(data, seed=seed, **OUR_VPM)


def recent(path: Floats, seed: int) -> Sample:
    """The paper's recipe: single steps of the most recent 1 % of the path, and the network."""
    kept = path[-max(1, round(PAPER_SHARE * (len(path) - 1))) - 1 :]
    data = Transitions(kept[:-1].ravel(), kept[1:].ravel())
    return data.x[:, 0], VPM(solver="neural", seed=seed, **PAPER_VPM).fit(data).weights


def table(results: Results) -> Table:
    """Every setting and checkpoint."""
    lines = []
    for setting in dict.fromkeys(row["setting"] for row in results.rows):
        for steps in CHECKPOINTS:
            rows = select(results.rows, setting=setting, em_steps=steps)
            scores = [with_error(select(rows, method=method), "log_mmd") for method in METHODS]
            lines.append([setting, str(steps), *scores])
    return Table(["setting", "EM steps", *METHODS], lines)


def draw(results: Results, groups: dict[str, list[tuple[str, Setting]]]) -> Figure:
    """One panel for each parameter: log MMD along the path."""
    figure, axes = panels(1, len(groups))
    for axis, (title, group) in zip(axes, groups.items(), strict=True):
        names = [name for name, _ in group if select(results.rows, setting=name)]
        for number, name in enumerate(names):
            shades(axis, select(results.rows, setting=name), METHODS, ("em_steps", "log_mmd"), number, name)
        axis.set_title(title)
        axis.set_xlabel("EM steps")
        axis.legend(fontsize=6)
    axes[0].set_ylabel("log MMD")
    return figure
