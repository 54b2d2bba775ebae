"""Figures `fig:toy_mcmc` and `fig:mcmc_mmd`: HMC from a uniform start, corrected after a few steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.chain import VPM, Transitions
from ope_vpm.chain.transitions import Floats
from ope_vpm.envs.potentials import LEAPFROG_STEP, POTENTIALS, uniform_points
from ope_vpm.mcmc import cells
from ope_vpm.studies.gaussian_model import GaussianModel
from ope_vpm.studies.plots import curve
from ope_vpm.studies.square import PAPER_NETWORK, TRUE_SAMPLE, Truth, heat_map, hmc_path, ratio_map, scatter
from ope_vpm.studies.square import true_density as density_map
from ope_vpm.studies.study import Arrays, Cell, Outcome, Results, Row, Study, Table, label, select, with_error

POINTS, QUICK_POINTS = 50_000, 5_000
MCMC_STEPS = (1, 2, 5, 10)
HOLD_OUT = 10_000
"""Fresh uniform points that the model-based opponent moves."""
BEFORE = "MCMC"
METHODS = (BEFORE, "VPM", "VPM (kernel)", "VPM (paper)", "model-based")


def study(quick: bool) -> Study:
    """Four potentials; quick: a tenth of the points and of the networks' steps."""
    points = QUICK_POINTS if quick else POINTS
    network = {**PAPER_NETWORK, "steps": 15} if quick else PAPER_NETWORK
    model = GaussianModel(steps=150) if quick else GaussianModel()
    settings = {
        "points": points,
        "leapfrog_step": LEAPFROG_STEP,
        "mcmc_steps": MCMC_STEPS,
        "true_sample": TRUE_SAMPLE,
        "VPM": {"rows_per_cell": cells.ROWS_PER_CELL, "partitions": cells.PARTITIONS, "steps": cells.STEPS},
        "VPM (kernel)": {},
        "VPM (paper)": network,
        "model-based": asdict(model) | {"hold_out": HOLD_OUT},
    }
    runner = partial(run, points=points, network=network, model=model)
    where = [{"potential": name} for name in POTENTIALS]
    return Study("mcmc", "Post-processing MCMC (fig:toy_mcmc, fig:mcmc_mmd)", settings, where, runner, table, draw)


def run(cell: Cell, seed: int, *, points: int, network: dict[str, Any], model: GaussianModel) -> Outcome:
    """After several MCMC steps: the sample as it is, and corrected; the networks after the first step only."""
    path = hmc_path(cell["potential"], points, max(MCMC_STEPS), seed)
    truth = Truth.draw(cell["potential"], seed)
    rows: list[Row] = []
    arrays: Arrays = {}

    def score(step: int, method: str, fit: Callable[[], tuple[Floats, Floats | None]]) -> tuple[Floats, Floats | None]:
        start = time.perf_counter()
        sample, weights = fit()
        seconds = round(time.perf_counter() - start, 3)
        distance = truth.log_mmd(sample, weights)
        rows.append({"mcmc_step": step, "method": method, "log_mmd": distance, "seconds": seconds})
        return sample, weights

    for step in MCMC_STEPS:
        data = Transitions(path[step - 1], path[step])
        score(step, BEFORE, lambda step=step: (path[step], None))  # type: ignore[misc]
        x, ratio = score(step, "VPM", lambda data=data: (data.x, cells.cell_ratio(data, seed=seed)))  # type: ignore[misc]
        if step == 1:
            score(step, "VPM (kernel)", lambda data=data: (data.x, VPM(solver="kernel", seed=seed).fit(data).weights))  # type: ignore[misc]
            fit = VPM(solver="neural", seed=seed, **network).fit
            score(step, "VPM (paper)", lambda data=data, fit=fit: (data.x, fit(data).weights))  # type: ignore[misc]
            rng = np.random.default_rng([seed, 1])
            start = uniform_points(HOLD_OUT, rng)
            moved, _ = score(step, "model-based", lambda data=data: (model.sample(data, start, seed), None))  # type: ignore[misc]
            assert ratio is not None
            arrays = _pictures(data, ratio, moved, rng)
    return Outcome(rows, arrays)


def _pictures(data: Transitions, ratio: Floats, moved: Floats, rng: np.random.Generator) -> Arrays:
    """What the figure shows of a run: 2000 points of each sample, and τ."""
    chosen = rng.choice(len(data), size=TRUE_SAMPLE, p=ratio / ratio.sum())
    return {
        "model": moved[:TRUE_SAMPLE].astype(np.float32),
        "resampled": data.x[chosen].astype(np.float32),
        "ratio": ratio_map(data, ratio),
    }


def table(results: Results) -> Table:
    """Every potential and MCMC step; networks after the first step."""
    lines = []
    for potential in POTENTIALS:
        for step in MCMC_STEPS:
            rows = select(results.rows, potential=potential, mcmc_step=step)
            found = [select(rows, method=method) for method in METHODS]
            lines.append([potential, str(step), *[with_error(part, "log_mmd") if part else "" for part in found]])
    return Table(["potential", "MCMC steps", *METHODS], lines)


def draw(results: Results) -> Figure:
    """The paper's columns (potential, model, VPM, estimated τ), and log MMD before and after correction."""
    figure = Figure(figsize=(13.5, 2.5 * len(POTENTIALS)), layout="constrained")
    axes = figure.subplots(len(POTENTIALS), 5, width_ratios=[1, 1, 1, 1, 1.5])
    for line, potential in zip(axes, POTENTIALS, strict=True):
        pictures = results.arrays[label({"potential": potential})]
        heat_map(line[0], density_map(potential))
        scatter(line[1], pictures["model"])
        scatter(line[2], pictures["resampled"])
        heat_map(line[3], pictures["ratio"])
        rows = select(results.rows, potential=potential)
        for method in METHODS:
            curve(line[4], rows, method, "mcmc_step", "log_mmd")
        line[4].set_ylabel("log MMD")
        line[0].set_ylabel(potential)
    for axis, title in zip(axes[0], ("potential", "model-based", "VPM", "estimated τ", "log MMD"), strict=True):
        axis.set_title(title)
    axes[-1][4].set_xlabel("MCMC steps")
    axes[0][4].legend(fontsize="x-small")
    return figure
