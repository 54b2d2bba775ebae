"""Figure `fig:OUP`: a diffusion's stationary distribution, from Euler–Maruyama particles that have not reached it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from math import sqrt
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr

from ope_vpm.arrays import Floats
from ope_vpm.chain import VPM, Transitions
from ope_vpm.envs.diffusions import DoubleWell, OrnsteinUhlenbeck
from ope_vpm.mcmc import cell_ratio
from ope_vpm.studies.distance import histogram, log_mmd, median_distance_of_draws
from ope_vpm.studies.study import Cell, Outcome, Results, Study, Table, curve, panels, timed

PARTICLES = 1000
"""The paper's number of particles for the phylogeny studies; it does not say how many the others have."""
CHECKPOINTS = (100, 300, 500, 1000, 2000)
"""The numbers of Euler–Maruyama steps at which methods are compared: from far away to near the stationary distribution
for the paper's default process."""
METHODS = ("EM", "VPM", "VPM (paper)")
"""The uncorrected particles, our default, and the paper's recipe."""
LAG_SHARE = 0.1
"""The lag of our pairs as a share of the path: within one step of 0.001 a particle hardly moves, and 50 power steps of
such pairs advance the time by 0.05. A quarter and a half of the path were tried and not kept (note 004)."""
TIMES = 10
"""The number of starting times of our pairs, all in the second half of the path; those of the first half were tried and
brought no gain (note 004). With 1000 particles this makes 10 000 pairs."""
OUR_VPM: dict[str, Any] = {"rows_per_cell": 30, "partitions": 5, "steps": None}
"""The settings of `cell_ratio`, chosen on other diffusions (`python -m benchmarks cells`): with 100, 50, 30, 25 and 15
rows in a cell the mean log MMD is -2.84, -2.94, -3.00, -2.99 and -2.99; 11 partitions instead of 5 and 300 power steps
instead of the fixed point gain nothing and take two and ten times as long."""
TUNING_SEEDS = "100-103 of five other diffusions"
PAPER_VPM: dict[str, Any] = {
    "preset": "paper", "hidden": [64, 64], "steps": 50, "inner_steps": 10, "learning_rate": 5e-4,
}  # fmt: skip
"""The settings of the paper's appendix."""
PAPER_SHARE = 0.01
"""The paper trains on the most recent 1 % of the path."""
Sample = tuple[Floats, Floats | None]
"""A sample, and its weights; None: equal weights."""


@dataclass(frozen=True)
class Setting:
    """A process and its time step."""

    process: OrnsteinUhlenbeck | DoubleWell
    """The diffusion."""
    dt: float = 0.001
    """The Euler–Maruyama time step; the paper's, except for the phylogeny studies."""

    def stationary_distribution(self) -> tuple[Floats, Floats]:
        """Return the centres of cells along the line, and the stationary probability of each cell."""
        if isinstance(self.process, DoubleWell):
            centres = np.linspace(-4, 4, 2001)
            return centres, self.process.cell_probabilities(centres)
        deviation = sqrt(self.process.variance)
        edges = np.linspace(min(-3, self.process.mu - 7 * deviation), max(4, self.process.mu + 7 * deviation), 2002)
        probabilities = np.diff(ndtr((edges - self.process.mu) / deviation))
        return (edges[1:] + edges[:-1]) / 2, probabilities / probabilities.sum()

    def path(self, steps: int, seed: int) -> Floats:
        """Simulate particles from evenly spaced starts in [0, 1], as in the paper; shape (steps + 1, particles)."""
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
"""The paper's default (2, 2, 2) with each parameter one lower and one higher, and a process that the paper does not
have, with two modes and no closed form."""
PHYLOGENY = {"phylogeny studies": [_ou(0.618, 1.584, 3.85, 0.0005), _ou(0.661, 0.710, 8.837, 0.0005)]}
"""The parameters of Beaulieu et al. (2012) and Santana et al. (2012), and the paper's time step for them."""
STUDIES = {
    "sde": ("Solving SDEs (fig:OUP): log MMD", SWEEPS),
    "phylogeny": ("Phylogeny studies (fig:OUP d): log MMD", PHYLOGENY),
}
QUICK_SETTINGS = ("μ=2 σ=2 θ=2", "μ=0.618 σ=1.584 θ=3.85")
"""The first setting of each of the two studies, for their quick versions."""
SETTINGS = {name: setting for group in (SWEEPS | PHYLOGENY).values() for name, setting in group}
"""All settings by name."""


def study(name: str, quick: bool) -> Study:
    """Return a study with one panel per group of settings.

    Args:
        name: "sde" for the paper's process in three sweeps and the double well, "phylogeny" for its phylogeny studies.
        quick: whether to keep only `QUICK_SETTINGS`.
    """
    title, groups = STUDIES[name]
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
    return Study(name, title, settings, cells, run, table, partial(draw, groups=groups), TUNING_SEEDS)


def run(cell: Cell, seed: int) -> Outcome:
    """Run one method at every checkpoint along one path."""
    setting = SETTINGS[cell["setting"]]
    centres, probabilities, width = _truth(cell["setting"])
    path = setting.path(max(CHECKPOINTS), seed)
    estimators: dict[str, Callable[[Floats, int], Sample]] = {"EM": last, "VPM": lagged, "VPM (paper)": recent}
    rows = []
    for steps in CHECKPOINTS:
        (sample, weights), seconds = timed(partial(estimators[cell["method"]], path[: steps + 1], seed))
        distance = log_mmd(histogram(sample, weights, centres), probabilities, centres, width)
        rows.append({"em_steps": steps, "log_mmd": distance, "seconds": seconds})
    return Outcome(rows)


@cache
def _truth(name: str) -> tuple[Floats, Floats, float]:
    """Return cell centres, their probabilities and the kernel width; cached, since sorting all distances is slow."""
    centres, probabilities = SETTINGS[name].stationary_distribution()
    return centres, probabilities, median_distance_of_draws(centres, probabilities)


def last(path: Floats, seed: int) -> Sample:
    """Return the uncorrected Euler–Maruyama sample: the particles at the end of the path."""
    return path[-1], None


def lagged(path: Floats, seed: int) -> Sample:
    """Return our default's weighted sample: lagged pairs from the second half of the path, weighted by VPM on cells."""
    data = lagged_pairs(path)
    return data.x[:, 0], cell_ratio(data, seed=seed, **OUR_VPM)


def lagged_pairs(path: Floats) -> Transitions:
    """Return pairs a tenth of the path apart, from its second half."""
    steps = len(path) - 1
    lag = max(1, round(LAG_SHARE * steps))
    times = np.linspace((steps - lag) // 2, steps - lag, TIMES).astype(int)
    return Transitions(path[times].ravel(), path[times + lag].ravel())


def recent(path: Floats, seed: int) -> Sample:
    """Return the paper's weighted sample: single steps of the most recent 1 % of the path, weighted by the network."""
    kept = path[-max(1, round(PAPER_SHARE * (len(path) - 1))) - 1 :]
    data = Transitions(kept[:-1].ravel(), kept[1:].ravel())
    return data.x[:, 0], VPM(solver="neural", seed=seed, **PAPER_VPM).fit(data).weights


def table(results: Results) -> Table:
    """Make the table of log MMD, with one line per setting and checkpoint."""
    lines = [
        [cell["setting"], str(steps), *results.rows.where(**cell, em_steps=steps).by_method(METHODS, "log_mmd")]
        for cell in results.rows.cells("setting")
        for steps in CHECKPOINTS
    ]
    return Table(["setting", "EM steps", *METHODS], lines)


def draw(results: Results, groups: dict[str, list[tuple[str, Setting]]]) -> Figure:
    """Draw log MMD along the path, with one panel per parameter."""
    figure, axes = panels(1, len(groups))
    for axis, (title, group) in zip(axes, groups.items(), strict=True):
        names = [name for name, _ in group if results.rows.where(setting=name)]
        for number, name in enumerate(names):
            for method in METHODS:
                style = {"linestyle": ("-", "--", ":")[number % 3], "label": f"{method}, {name}"}
                curve(axis, results.rows.where(setting=name), method, "em_steps", "log_mmd", **style)
        axis.set(title=title, xlabel="EM steps")
        axis.legend(fontsize=6)
    axes[0].set_ylabel("log MMD")
    return figure
