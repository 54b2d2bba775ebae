"""Figure `fig:mcmc_evolve`: the estimated ratio after 10, 20, 30 and 150 power steps."""

from functools import partial
from itertools import product

from matplotlib.figure import Figure

from ope_vpm.arrays import Floats
from ope_vpm.chain import VPM, Transitions
from ope_vpm.envs.potentials import POTENTIALS
from ope_vpm.mcmc import cell_ratio
from ope_vpm.studies.distance import PAPER_NETWORK, Truth, heat_map, hmc_path, ratio_map
from ope_vpm.studies.study import Arrays, Cell, Outcome, Results, Study, Table, label, timed

POWER_STEPS = (10, 20, 30, 150)
"""The paper's numbers of power steps."""
METHODS = ("VPM", "VPM (paper)")
"""Our default on cells, and the paper's network."""


def study(quick: bool) -> Study:
    """Return the study of four potentials; the quick one has fewer transitions, and fewer steps of the network."""
    transitions = 3_000 if quick else 50_000
    network_steps = POWER_STEPS[:2] if quick else POWER_STEPS
    paper = PAPER_NETWORK | {"steps": network_steps}
    settings = {"points": transitions, "power_steps": POWER_STEPS, "VPM (paper)": paper}  # the keys of stored results
    cells = [{"method": method, "potential": name} for method in METHODS for name in POTENTIALS]
    title = "Evolution of the ratio (fig:mcmc_evolve): log MMD"
    runner = partial(run, transitions=transitions, network_steps=network_steps)
    return Study("mcmc-evolution", title, settings, cells, runner, table, draw)


def run(cell: Cell, seed: int, transitions: int, network_steps: tuple[int, ...]) -> Outcome:
    """Run one method on one potential: its ratio after each number of power steps, always from the same start."""
    x, x_next = hmc_path(cell["potential"], transitions, 1, seed)
    data = Transitions(x, x_next)
    truth = Truth.draw(cell["potential"], seed)
    rows = []
    arrays: Arrays = {}
    for steps in POWER_STEPS if cell["method"] == "VPM" else network_steps:
        ratio, seconds = timed(partial(_ratio, cell["method"], data, steps, seed))
        rows.append({"power_steps": steps, "log_mmd": truth.log_mmd(data.x, ratio), "seconds": seconds})
        arrays[f"ratio-{steps}"] = ratio_map(data, ratio)
    return Outcome(rows, arrays)


def _ratio(method: str, data: Transitions, steps: int, seed: int) -> Floats:
    """Estimate τ at each row by some power steps.

    With the same seed, a network trained for fewer steps is an earlier state of the one trained for more.
    """
    if method == "VPM":
        return cell_ratio(data, steps=steps, seed=seed)
    return VPM(solver="neural", seed=seed, **PAPER_NETWORK | {"steps": steps}).fit(data).weights


def table(results: Results) -> Table:
    """Make the table of log MMD, with one line per potential and method and one column per number of power steps."""
    lines = []
    for potential, method in product(POTENTIALS, METHODS):
        rows = results.rows.where(potential=potential, method=method)
        scores = [rows.where(power_steps=steps).text("log_mmd") for steps in POWER_STEPS]
        lines.append([potential, method, *scores])
    return Table(["potential", "method", *[f"{steps} power steps" for steps in POWER_STEPS]], lines)


def draw(results: Results) -> Figure:
    """Draw the paper's four columns for our default on the left and for the paper's network on the right."""
    shown = [(method, steps) for method in METHODS for steps in POWER_STEPS]
    figure = Figure(figsize=(2.1 * len(shown), 2.2 * len(POTENTIALS)), layout="constrained")
    axes = figure.subplots(len(POTENTIALS), len(shown))
    for line, potential in zip(axes, POTENTIALS, strict=True):
        for axis, (method, steps) in zip(line, shown, strict=True):
            maps = results.arrays.get(label({"method": method, "potential": potential}), {})
            axis.axis("off") if f"ratio-{steps}" not in maps else heat_map(axis, maps[f"ratio-{steps}"])
        line[0].set_ylabel(potential)
    for axis, (method, steps) in zip(axes[0], shown, strict=True):
        axis.set_title(f"{method}\n{steps} steps", fontsize="small")
    return figure
