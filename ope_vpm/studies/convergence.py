"""The convergence theorem as an experiment: the residual of the damped power iteration against its number of steps.

The iteration is μ_t = (1-α_t)μ_{t-1} + α_t 𝒯̂μ_{t-1} on the default queue, where 𝒯̂μ is the histogram of a fresh sample
of x' with x ~ μ: unbiased, with noise ‖ε‖² of about 1/samples. The theorem bounds E_R‖μ_R - 𝒯μ_R‖² for α_t = 1/√t and
P(R = k) ∝ α_k(1-α_k).
"""

from functools import partial

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.arrays import Floats
from ope_vpm.chain.monitor import Schedule, inverse_square_root
from ope_vpm.envs.geo_queue import GeoQueue
from ope_vpm.studies.study import Cell, Outcome, Results, Rows, Study, Table, curve, panels, timed

STEPS, QUICK_STEPS = 10_000, 1_000
"""Damped by 1/√t, 10 000 steps amount to about 200 undamped ones, which this queue needs to forget its start."""
NOISE_LEVELS = (100, 1_000, 10_000, 0)
"""The number of samples per step; 0: the exact operator."""
METHODS: dict[str, Schedule] = {"damped": inverse_square_root, "undamped": lambda step: 1.0}
"""The damping α_t of the theorem, and no damping for comparison."""
SHOWN_STEPS = 25
"""How many steps are kept for the figure, equally spaced on its logarithmic axis. A round number."""


def study(quick: bool) -> Study:
    """Return the study of four noise levels, with and without damping; the quick one has fewer steps."""
    steps = QUICK_STEPS if quick else STEPS
    settings = {"steps": steps, "queue": "arrival 0.8, finish 0.9", "damped": "1/√t", "undamped": "1"}
    cells = [{"method": method, "samples_a_step": samples} for method in METHODS for samples in NOISE_LEVELS]
    title = "Convergence of the damped iteration (thm:convergence)"
    return Study("convergence", title, settings, cells, partial(run, steps=steps), table, draw)


def run(cell: Cell, seed: int, steps: int) -> Outcome:
    """Run one noise level and damping: the squared residual of the iterate, and its mean over R, at some steps."""
    (residual, weight), seconds = timed(partial(iterate, cell, seed, steps))
    total = np.cumsum(weight)
    mean = np.divide(np.cumsum(weight * residual), total, out=residual.copy(), where=total > 0)
    shown = np.unique(np.geomspace(1, steps, SHOWN_STEPS).astype(int))
    rows = [
        {"step": int(t), "residual": residual[t - 1], "mean_residual": mean[t - 1], "seconds": seconds} for t in shown
    ]
    return Outcome(rows)


def iterate(cell: Cell, seed: int, steps: int) -> tuple[Floats, Floats]:
    """Return ‖μ_t - 𝒯μ_t‖² and α_t(1-α_t) for t = 1, …, steps, starting from the uniform distribution."""
    kernel, rng = GeoQueue().kernel(), np.random.default_rng(seed)
    alphas = np.array([METHODS[cell["method"]](step) for step in range(1, steps + 1)])
    mu = np.full(len(kernel), 1 / len(kernel))
    residual = np.empty(steps)
    for step, alpha in enumerate(alphas):
        moved = mu @ kernel
        if cell["samples_a_step"]:
            moved = rng.multinomial(cell["samples_a_step"], moved / moved.sum()) / cell["samples_a_step"]
        mu = (1 - alpha) * mu + alpha * moved
        residual[step] = np.sum((mu - mu @ kernel) ** 2)
    return residual, alphas * (1 - alphas)


def slope(results: Results, samples: int) -> float:
    """Return the exponent of t with which the mean residual falls, over the last tenfold increase of t."""
    rows = results.rows.where(method="damped", samples_a_step=samples)
    last = max(row["step"] for row in rows)
    steps = sorted({row["step"] for row in rows if row["step"] >= last / 10})
    means = [rows.where(step=step).mean_and_error("mean_residual")[0] for step in steps]
    return float(np.polyfit(np.log(steps), np.log(means), 1)[0])


def table(results: Results) -> Table:
    """Make the table of residuals after all steps, with one line per noise level."""
    lines = []
    last = max(row["step"] for row in results.rows)
    for samples in NOISE_LEVELS:
        rows = results.rows.where(samples_a_step=samples, step=last)
        damped, undamped = (rows.where(method=method) for method in METHODS)
        scores = [(damped, "mean_residual"), (damped, "residual"), (undamped, "residual")]
        numbers = [f"{part.mean_and_error(column)[0]:.2e}" if part else "" for part, column in scores]
        lines.append([str(samples) if samples else "exact", *numbers, f"{slope(results, samples):.2f}"])
    columns = ["samples per step", "damped, mean over R", "damped, last", "undamped, last", "power of t (mean over R)"]
    return Table(columns, lines)


def without_error(rows: Rows, column: str) -> tuple[float, float]:
    """Return the mean of a column over runs, to be drawn without its standard error."""
    return rows.mean_and_error(column)[0], 0.0


def draw(results: Results) -> Figure:
    """Draw the mean over R with a line ∝ t^-1/2, and the last iterates with and without damping."""
    figure, axes = panels(1, 2, width=5)
    for number, samples in enumerate(NOISE_LEVELS):
        name = f"{samples} samples per step" if samples else "exact operator"
        for axis, method, column in (
            (axes[0], "damped", "mean_residual"),
            (axes[1], "damped", "residual"),
            (axes[1], "undamped", "residual"),
        ):
            line, known = ("-", name) if method == "damped" else (":", None)
            rows, score = results.rows.where(samples_a_step=samples), partial(without_error, column=column)
            curve(axis, rows, method, "step", score, linestyle=line, color=f"C{number}", label=known)
    every = np.array(sorted({row["step"] for row in results.rows}), dtype=float)
    # the factor 3e-4 only places the line beside the curves
    axes[0].loglog(every, 3e-4 * every**-0.5, "k--", linewidth=1, label="t$^{-1/2}$")
    axes[0].set_title("mean over R, α = 1/√t")
    axes[1].set_title("last iterate: α = 1/√t (solid), α = 1 (dotted)")
    for axis in axes:
        axis.set(xlabel="power steps t", xscale="log", yscale="log")
    axes[1].set_ylim(1e-13, None)
    axes[0].set_ylabel("‖μ - Tμ‖²")
    axes[0].legend(fontsize="x-small")
    return figure
