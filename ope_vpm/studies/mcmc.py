"""Figures `fig:toy_mcmc` and `fig:mcmc_mmd`: HMC from a uniform start, corrected by VPM after a few steps.

The model-based opponent is the paper's for continuous states: x' ~ N(m(x), 0.1²) with a network m, applied repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.arrays import Floats
from ope_vpm.chain import VPM, Transitions
from ope_vpm.envs.potentials import LEAPFROG_STEP, POTENTIALS, uniform_sample
from ope_vpm.mcmc import cells
from ope_vpm.optional import torch
from ope_vpm.studies.distance import (
    PAPER_NETWORK,
    TRUE_SAMPLE,
    Truth,
    heat_map,
    hmc_path,
    ratio_map,
    scatter,
    true_density,
)
from ope_vpm.studies.study import Arrays, Cell, Outcome, Results, Study, Table, curve, label, timed

DEVIATION = 0.1
"""The fixed standard deviation of the paper's transition model."""


@dataclass(frozen=True)
class GaussianModel:
    """A Gaussian transition model, with the settings of the paper's appendix."""

    hidden: tuple[int, ...] = (128, 128, 128, 128)
    """The sizes of the hidden layers."""
    steps: int = 1500
    """Training steps: as many as VPM's network has, 150 power steps of 10."""
    batch_size: int = 1000
    """Rows per training step."""
    learning_rate: float = 5e-4
    """Adam's step size."""
    applications: int = 100
    """How often the model is applied to reach its stationary distribution."""

    def sample(self, transitions: Transitions, start: Floats, seed: int) -> Floats:
        """Fit the network to the transitions, then move every state of `start` by 100 steps of the model."""
        rng = np.random.default_rng(seed)
        network = self._fit(transitions, rng)
        states = torch.from_numpy(start).float()
        with torch.no_grad():
            for _ in range(self.applications):
                noise = torch.from_numpy(rng.standard_normal(states.shape)).float()
                states = network(states) + DEVIATION * noise
        return states.double().numpy()

    def _fit(self, transitions: Transitions, rng: np.random.Generator) -> torch.nn.Sequential:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            network = _network([transitions.dimension, *self.hidden, transitions.dimension])
        x, x_next = (torch.from_numpy(np.array(part)).float() for part in (transitions.x, transitions.x_next))
        # β₁ = 0.5 in all experiments of the paper; β₂ is Adam's default
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate, (0.5, 0.999), fused=True)
        for _ in range(self.steps):
            rows = torch.from_numpy(rng.integers(len(x), size=self.batch_size))
            loss = torch.nn.functional.mse_loss(network(x[rows]), x_next[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        return network


def _network(sizes: list[int]) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for width, next_width in pairwise(sizes):
        layers += [torch.nn.Linear(width, next_width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


MCMC_STEPS = (1, 2, 5, 10)
"""The numbers of MCMC steps after which the sample is corrected; the paper's text does not list its own."""
HOLD_OUT = 10_000
"""The uniform sample, independent of the data, that the model-based opponent moves. A round number."""
METHODS = ("MCMC", "VPM", "model-based", "VPM (paper)")
"""The cheap ones come first, so that they are finished when a run is stopped early."""
AT_EVERY_STEP = ("MCMC", "VPM")
"""The methods that are run after each number of MCMC steps; the others train networks, and run after the first only."""
Sample = tuple[Floats, Floats | None]
"""A sample, and its weights; None: equal weights."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of the study that its quick version reduces."""

    points: int = 50_000
    """The number of transitions; the paper's. The name is a key of stored results."""
    network_steps: int = 150
    """The paper's number of power steps."""
    model: GaussianModel = field(default_factory=GaussianModel)
    """The model-based opponent."""


QUICK = Sizes(points=3_000, network_steps=15, model=GaussianModel(steps=150))
"""Small enough for the quick version to end within a minute on two cores."""


def study(quick: bool) -> Study:
    """Return the study of four potentials and four methods."""
    sizes = QUICK if quick else Sizes()
    settings = {
        **asdict(sizes),
        "leapfrog_step": LEAPFROG_STEP,
        "mcmc_steps": MCMC_STEPS,
        "true_sample": TRUE_SAMPLE,
        "hold_out": HOLD_OUT,
        "VPM": {"rows_per_cell": cells.ROWS_PER_CELL, "partitions": cells.PARTITIONS, "steps": cells.STEPS},
        "VPM (paper)": PAPER_NETWORK,
    }
    where = [{"method": method, "potential": name} for method in METHODS for name in POTENTIALS]
    title = "Post-processing MCMC (fig:toy_mcmc, fig:mcmc_mmd): log MMD"
    return Study("mcmc", title, settings, where, partial(run, sizes=sizes), table, draw)


def run(cell: Cell, seed: int, sizes: Sizes) -> Outcome:
    """Run one method on one potential, after one or several MCMC steps.

    Every method has the same transitions and the same true sample in a run of the same seed.
    """
    steps = MCMC_STEPS if cell["method"] in AT_EVERY_STEP else MCMC_STEPS[:1]
    path = hmc_path(cell["potential"], sizes.points, max(steps), seed)
    truth = Truth.draw(cell["potential"], seed)
    rows = []
    arrays: Arrays = {}
    for step in steps:
        data = Transitions(path[step - 1], path[step])
        (sample, weights), seconds = timed(partial(estimators(sizes)[cell["method"]], data, seed))
        rows.append({"mcmc_step": step, "log_mmd": truth.log_mmd(sample, weights), "seconds": seconds})
        if step == 1:
            arrays = pictures(cell["method"], data, sample, weights)
    return Outcome(rows, arrays)


def estimators(sizes: Sizes) -> dict[str, Callable[[Transitions, int], Sample]]:
    """Return each method as a function of transitions and seed that returns a sample with its weights."""

    def uncorrected(data: Transitions, seed: int) -> Sample:
        return data.x_next, None

    def on_cells(data: Transitions, seed: int) -> Sample:
        return data.x, cells.cell_ratio(data, seed=seed)

    def network(data: Transitions, seed: int) -> Sample:
        options = PAPER_NETWORK | {"steps": sizes.network_steps}
        return data.x, VPM(solver="neural", seed=seed, **options).fit(data).weights

    def model_based(data: Transitions, seed: int) -> Sample:
        start = uniform_sample(HOLD_OUT, np.random.default_rng([seed, 1]))
        return sizes.model.sample(data, start, seed), None

    return {"MCMC": uncorrected, "VPM": on_cells, "model-based": model_based, "VPM (paper)": network}


def pictures(method: str, data: Transitions, sample: Floats, weights: Floats | None) -> Arrays:
    """Return what the figure shows of a run: 2000 states drawn by weight, and a map of τ where the method has one."""
    probabilities = None if weights is None else weights / weights.sum()
    chosen = np.random.default_rng(0).choice(len(sample), size=TRUE_SAMPLE, p=probabilities)
    arrays: Arrays = {"sample": sample[chosen].astype(np.float32)}
    if weights is not None:
        arrays["ratio"] = ratio_map(data, weights)
    return arrays if method in ("VPM", "VPM (paper)", "model-based") else {}


def table(results: Results) -> Table:
    """Make the table of log MMD, with one line per potential and number of MCMC steps."""
    lines = [
        [name, str(step), *results.rows.where(potential=name, mcmc_step=step).by_method(METHODS, "log_mmd")]
        for name in POTENTIALS
        for step in MCMC_STEPS
    ]
    return Table(["potential", "MCMC steps", *METHODS], lines)


def draw(results: Results) -> Figure:
    """Draw the paper's columns (potential, model, VPM, estimated τ), and log MMD before and after correction."""
    figure = Figure(figsize=(13.5, 2.5 * len(POTENTIALS)), layout="constrained")
    axes = figure.subplots(len(POTENTIALS), 5, width_ratios=[1, 1, 1, 1, 1.5])
    for line, potential in zip(axes, POTENTIALS, strict=True):
        shown = {name: results.arrays[label({"method": name, "potential": potential})] for name in METHODS[1:3]}
        heat_map(line[0], true_density(potential))
        scatter(line[1], shown["model-based"]["sample"])
        scatter(line[2], shown["VPM"]["sample"])
        heat_map(line[3], shown["VPM"]["ratio"])
        rows = results.rows.where(potential=potential)
        for method in METHODS:
            curve(line[4], rows, method, "mcmc_step", "log_mmd")
        line[4].set_ylabel("log MMD")
        line[0].set_ylabel(potential)
    for axis, title in zip(axes[0], ("potential", "model-based", "VPM", "estimated τ", "log MMD"), strict=True):
        axis.set_title(title)
    axes[-1][4].set_xlabel("MCMC steps")
    axes[0][4].legend(fontsize="x-small")
    return figure
