"""Figure `fig:queue`: the stationary distribution of a queue's length from single steps, against the closed form."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.arrays import Floats
from ope_vpm.chain import VPM, Transitions
from ope_vpm.envs.geo_queue import GeoQueue
from ope_vpm.studies.distance import log_kl_both_ways
from ope_vpm.studies.study import Cell, Outcome, Results, Study, Table, curve, panels, timed

SAMPLES, ARRIVAL, FINISH = 100, 0.8, 0.9
"""The paper's defaults (n, q_a, q_f)."""
SAMPLE_SWEEP = (50, 100, 200, 500, 1000, 2000, 5000)
"""Sample sizes from half the default to 50 times it; the paper's text does not list its own."""
FINISH_SWEEP = (0.82, 0.84, 0.86, 0.9, 0.94, 0.98)
"""Finish probabilities between the arrival probability 0.8, where no stationary distribution exists, and 1."""
PAPER_STEPS = 1000
"""The paper's number of closed-form power steps."""
SIMULATED_STEPS = 200
"""The length of the paper's model-based simulation."""

PAPER_VPM: dict[str, Any] = {"steps": PAPER_STEPS, "damping": "sqrt", "unseen": "restart", "classes": "all"}
"""The paper's recipe: closed-form updates with α = 1/√t and λ = 1, on all states, even those that do not lead to one
another."""
OUR_VPM: dict[str, Any] = {"pool_increments": True}
"""Our default for ordered states: each state's distribution of increments x' - x is shrunk towards the pooled one, with
the strength that maximises the likelihood."""
MODEL_SEED = 10_000
"""Added to a run's seed, for a simulation independent of the data."""

METHODS = ("VPM", "VPM (paper)", "model-based (exact)", "model-based (paper)")
"""In the order of the table and the legend."""
COLUMNS = {"log_kl_true_estimate": "log KL(true ‖ estimate)", "log_kl_estimate_true": "log KL(estimate ‖ true)"}
"""The columns of the CSV with their labels; the paper does not say which direction it reports, so there are both."""


def study(quick: bool) -> Study:
    """Return the study of 12 queues and sample sizes; the quick one has 4 of them."""
    cells = [{"samples": n, "finish": FINISH} for n in ((50, 100, 1000) if quick else SAMPLE_SWEEP)]
    finishes = (0.86,) if quick else FINISH_SWEEP
    cells += [{"samples": SAMPLES, "finish": finish} for finish in finishes if finish != FINISH]
    settings = {"arrival": ARRIVAL, "VPM (paper)": PAPER_VPM, "VPM": OUR_VPM, "simulated_steps": SIMULATED_STEPS}
    return Study("queue", "Queue lengths (fig:queue)", settings, cells, run, table, draw)


def run(cell: Cell, seed: int) -> Outcome:
    """Run all methods on one data set."""
    queue = GeoQueue(ARRIVAL, cell["finish"])
    data = queue.transitions(cell["samples"], seed)
    size = queue.bound + 1  # from B - 1 a queue can grow to B
    methods: dict[str, Callable[[], Floats]] = {
        "VPM": lambda: vpm_distribution(data, size, OUR_VPM),
        "VPM (paper)": lambda: vpm_distribution(data, size, PAPER_VPM),
        "model-based (exact)": lambda: propagated_distribution(data, size),
        "model-based (paper)": lambda: simulated_distribution(data, size, SIMULATED_STEPS, seed + MODEL_SEED),
    }
    truth = queue.stationary_distribution()
    rows = []
    for name, estimate in methods.items():
        found, seconds = timed(estimate)
        within = found[: queue.bound]
        scores = log_kl_both_ways(truth, within / within.sum())
        rows.append({"method": name} | dict(zip(COLUMNS, scores, strict=True)) | {"seconds": seconds})
    return Outcome(rows)


def vpm_distribution(data: Transitions, size: int, options: dict[str, Any]) -> Floats:
    """Return the stationary distribution over states 0, …, size - 1 that the finite-state solver estimates."""
    estimate = VPM(solver="tabular", **options).fit(data)
    return estimate.probabilities(range(size))


# -- The model-based opponents: a counted transition matrix, simulated or propagated


def counted_matrix(transitions: Transitions, size: int) -> Floats:
    """Return the counted estimate of 𝒯(x'|x); from a state without data the chain restarts from the data's states.

    Args:
        transitions: between states 0, …, size - 1.
        size: the number of states.
    """
    counts = np.zeros((size, size))
    np.add.at(counts, (transitions.x, transitions.x_next), 1.0)
    times = counts.sum(axis=1, keepdims=True)
    start = np.bincount(transitions.x, minlength=size) / len(transitions)
    return np.where(times > 0, counts / np.maximum(times, 1), start)


def simulated_distribution(transitions: Transitions, size: int, steps: int, seed: int) -> Floats:
    """Return the paper's model-based estimate: the share of visits to each state along one simulated trajectory.

    Args:
        transitions: between states 0, …, size - 1.
        size: the number of states.
        steps: the length of the trajectory.
        seed: of the simulation.
    """
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(counted_matrix(transitions, size), axis=1)
    state = int(rng.choice(transitions.x))
    visits = np.zeros(size)
    for uniform in rng.uniform(size=steps):
        state = min(int(np.searchsorted(cumulative[state], uniform, side="right")), size - 1)
        visits[state] += 1
    return visits / steps


def propagated_distribution(transitions: Transitions, size: int) -> Floats:
    """Return the strong model-based estimate: the distribution of the data's states after 2⁴⁰ steps of the matrix."""
    # the lazy chain has no period and the same stationary distribution
    kernel = (counted_matrix(transitions, size) + np.eye(size)) / 2
    for _ in range(40):
        kernel = kernel @ kernel
        kernel /= kernel.sum(axis=1, keepdims=True)  # against the growth of rounding errors
    return np.bincount(transitions.x, minlength=size) / len(transitions) @ kernel


def table(results: Results) -> Table:
    """Make the table of both directions of the divergence in every setting."""
    lines = [
        [*map(str, cell.values()), direction, *results.rows.where(**cell).by_method(METHODS, column)]
        for cell in results.rows.cells("samples", "finish")
        for column, direction in COLUMNS.items()
    ]
    return Table(["samples", "finish", "direction", *METHODS], lines)


def draw(results: Results) -> Figure:
    """Draw the paper's two panels, for both directions of the divergence."""
    figure, axes = panels(2, 2)
    for row, (column, direction) in enumerate(COLUMNS.items()):
        sweeps = {"samples": results.rows.where(finish=FINISH), "finish": results.rows.where(samples=SAMPLES)}
        for axis, (x, rows) in zip(axes[2 * row : 2 * row + 2], sweeps.items(), strict=True):
            for method in METHODS:
                curve(axis, rows, method, x, column)
            axis.set(xlabel={"samples": "number of samples", "finish": "finish probability"}[x], ylabel=direction)
            if x == "samples":
                axis.set_xscale("log")
    axes[0].legend(fontsize="small")
    return figure
