"""A stationary law, drawn."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.paths.stationary import BINS, StationaryLaw


def draw_law(law: StationaryLaw, name: str) -> Figure:
    """The estimated law beside what was logged."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    x = np.asarray(law.estimate.transitions.x, dtype=np.float64).ravel()
    halves = np.append(law.values - 0.5, law.values[-1] + 0.5)
    edges = halves if law.counts else np.histogram_bin_edges(x, bins=BINS)
    width = np.diff(edges)
    logged, _ = np.histogram(x, bins=edges)
    axes.bar(law.values, logged / logged.sum(), width=width * 0.9, color="0.8", label="logged")
    axes.step(edges, np.append(law.probabilities, law.probabilities[-1]), where="post", color="C3", label="long run")
    axes.axvline(float(law.mean), color="C3", linestyle=":", label=f"long-run mean {float(law.mean):.4g}")
    axes.set_xlabel(name)
    axes.set_ylabel("probability")
    axes.legend(fontsize="small")
    return figure


def write_picture(figure: Figure, path: Path) -> None:
    """Write a picture in one piece; its ending says the format."""
    kind = path.suffix.removeprefix(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise ValueError(f"a picture's name must end in .png, .svg or .pdf: got {path.name!r}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}")
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        figure.savefig(file, format=kind, dpi=120)
    os.replace(file.name, path)
