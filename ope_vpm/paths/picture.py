"""Pictures of an estimated stationary distribution."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.chain.estimate import TWO_SIDED
from ope_vpm.outside import check_place, write_whole
from ope_vpm.paths.stationary import BINS, StationaryDistribution
from ope_vpm.paths.timescales import ChapmanKolmogorov, Timescales


def draw_distribution(distribution: StationaryDistribution, name: str) -> Figure:
    """Draw the estimated stationary distribution over a histogram of the logged values.

    Args:
        distribution: what `stationary` returned.
        name: of the quantity, for the horizontal axis.
    """
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    x = np.asarray(distribution.estimate.transitions.x, dtype=np.float64).ravel()
    values, probabilities = distribution.values, distribution.probabilities
    halves = np.append(values - 0.5, values[-1] + 0.5)
    edges = halves if distribution.counts else np.histogram_bin_edges(x, bins=BINS)
    width = np.diff(edges)
    logged, _ = np.histogram(x, bins=edges)
    mean = float(distribution.mean)
    axes.bar(values, logged / logged.sum(), width=width * 0.9, color="0.8", label="logged")
    axes.step(edges, np.append(probabilities, probabilities[-1]), where="post", color="C3", label="long run")
    axes.axvline(mean, color="C3", linestyle=":", label=f"long-run mean {mean:.4g}")
    axes.set(xlabel=name, ylabel="probability")
    axes.legend(fontsize="small")
    return figure


def draw_timescales(found: Timescales) -> Figure:
    """Draw the implied timescales against the lag; below the grey line a process is over within one lag."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for number in range(found.times.shape[1]):
        axes.plot(found.lags, found.times[:, number], "o-", color=f"C{number}", label=f"process {number + 1}")
    axes.fill_between(found.lags, 0, found.lags, color="0.85", label="faster than the lag")
    axes.set(yscale="log", xlabel="lag (steps)", ylabel="implied timescale (steps)")
    axes.legend(fontsize="small")
    return figure


def draw_chapman_kolmogorov(found: ChapmanKolmogorov) -> Figure:
    """Draw, for both sets, the probability to be in it again as predicted by one lag and as counted over several."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for number, axes in enumerate(figure.subplots(1, 2, sharey=True)):
        time = found.lag * found.steps
        axes.plot(time, found.predicted[:, number], "o-", color="C3", label=f"predicted from lag {found.lag}")
        counted = found.counted[:, number]
        axes.errorbar(time, counted, yerr=TWO_SIDED * found.error[:, number], fmt="s--", color="C0", label="counted")
        axes.set(title=f"set {number + 1}", xlabel="steps")
        axes.set_ylim(0, 1.02)
    figure.axes[0].set_ylabel("probability to be there again")
    figure.axes[0].legend(fontsize="small")
    return figure


def check_picture(path: Path) -> None:
    """Refuse the name of a picture whose format is not known, or that could not be written."""
    if path.suffix.removeprefix(".").lower() not in Figure().canvas.get_supported_filetypes():
        raise ValueError(f"a picture's name must end in .png, .svg or .pdf: got {path.name!r}")
    check_place(path)


def write_picture(figure: Figure, path: Path) -> None:
    """Write a picture in the format that the file name ends in; on failure no partial file is left under that name."""
    check_picture(path)
    kind = path.suffix.removeprefix(".").lower()
    write_whole(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=120))
