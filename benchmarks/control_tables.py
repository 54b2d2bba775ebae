"""The tables of note 005 from the stored runs: `python -m benchmarks control_tables [--folder docs/results]`.

Numbers are geometric means, over informative cells with trajectories of full length, of RMSE in on-policy floors.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ope_vpm.envs.bullet import LOGGED, stored_truth
from ope_vpm.envs.truth import GAMMA
from ope_vpm.studies.control_report import beats, cells_of, errors, floor, informative, rmse
from ope_vpm.studies.runner import read_rows
from ope_vpm.studies.study import Cell, Results

TASKS = {"reacher": "Reacher", "halfcheetah": "HalfCheetah", "ant": "Ant"}
OURS = {"vpm": "vpm", "auto": "auto", "dr": "dr", "fqe (linear)": "LSTD-Q", "onestep": "onestep", "naive": "naive"}
"""The columns of the main table, with their headings."""
PAPERS = ("liu", "model", "wist", "wiss", "vpm")
"""The columns of the table beside the paper's baselines."""
VERDICTS = ("reliable", "caution", "unreliable")
LARGEST = 200
"""Trajectories of the logs on which the paper's preset was run."""


@dataclass(frozen=True)
class Part:
    """The runs of one task at one discount."""

    task: str
    gamma: float
    results: Results

    @property
    def label(self) -> str:
        """Its name in the tables."""
        return f"{TASKS[self.task]}, γ = {self.gamma:g}"

    @property
    def cells(self) -> list[Cell]:
        """The logs with trajectories of full length."""
        found = [cell for cell in cells_of(self.results) if cell["gamma"] == self.gamma]
        return [cell for cell in found if cell["length"] == LOGGED[self.task]]

    @property
    def informative(self) -> list[Cell]:
        """Those of them in which the logged mean is off."""
        return [cell for cell in self.cells if informative(self.results, self.task, cell)]

    def floors(self, cell: Cell, method: str) -> float:
        """The RMSE of a method in a cell, in floors."""
        return rmse(errors(self.results, self.task, cell, method)) / floor(self.task, cell)

    def all_floors(self, method: str) -> list[float]:
        """Floors of every informative cell."""
        return [self.floors(cell, method) for cell in self.informative]

    def runs(self, method: str) -> str:
        """How many runs its cells have: "10", or "9, 10" where they differ."""
        counts = {len({row["seed"] for row in self.results.rows.where(**c, method=method)}) for c in self.cells}
        return ", ".join(map(str, sorted(counts)))

    def covered(self, method: str) -> dict[str, list[bool]]:
        """Whether each interval of a method holds the truth, by verdict."""
        held: dict[str, list[bool]] = defaultdict(list)
        for cell in self.cells:
            truth = stored_truth(self.task).at(cell["gamma"], cell["length"]).value
            for row in self.results.rows.where(**cell, method=method):
                held[row["verdict"]].append(bool(row["low"] <= truth <= row["high"]))
        return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("docs/results"))
    folder = parser.parse_args().folder
    results = {task: Results(read_rows(folder / f"{task}.csv")) for task in TASKS}
    parts = [Part(task, gamma, results[task]) for task in TASKS for gamma in (1.0, GAMMA)]
    _summary(parts)
    for method in ("auto", "dr", "fqe (linear)"):
        _coverage(parts, method)
    _beside_paper(parts)
    _preset(parts)
    for task in TASKS:
        _cells(task, results[task])


def _print(columns: Iterable[str], rows: Iterable[Sequence[str]]) -> None:
    heads = list(columns)
    lines = [heads, ["---"] * len(heads), *rows]
    print("\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")


def _summary(parts: Sequence[Part]) -> None:
    rows = []
    for part in parts:
        kept, cells = part.informative, part.cells
        lower = np.mean([part.floors(cell, "vpm") < part.floors(cell, "naive") for cell in kept])
        worst = max(part.floors(cell, "auto") / part.floors(cell, "naive") for cell in cells)
        means = [f"{_geometric(part.all_floors(method)):.2f}" for method in OURS]
        about = f"{len(kept)} of {len(cells)}"
        rows.append([part.label, part.runs("auto"), about, *means, f"{lower:.0%}", f"{worst:.2f}"])
    for label, chosen in (("γ = 1", (1.0,)), (f"γ = {GAMMA:g}", (GAMMA,)), ("all", (1.0, GAMMA))):
        every = {m: [f for part in parts if part.gamma in chosen for f in part.all_floors(m)] for m in OURS}
        means = [f"{_geometric(every[method]):.2f}" for method in OURS]
        rows.append([label, "", str(len(every["vpm"])), *means, "", ""])
    heads = ["", "runs", "informative cells", *OURS.values(), "vpm below naive", "auto, most times naive"]
    _print(heads, rows)


def _coverage(parts: Sequence[Part], method: str) -> None:
    print(f"\nintervals of {method} that hold the truth, by verdict")
    rows, total = [], defaultdict[str, list[bool]](list)
    for part in parts:
        held = part.covered(method)
        for level in VERDICTS:
            total[level] += held[level]
        rows.append([part.label, *_counts(held)])
    _print(["", "all", *VERDICTS], [*rows, ["all", *_counts(total)]])


def _counts(held: dict[str, list[bool]]) -> list[str]:
    every = [each for level in VERDICTS for each in held[level]]
    return [f"{sum(each)} of {len(each)}" for each in (every, *(held[level] for level in VERDICTS))]


def _beside_paper(parts: Sequence[Part]) -> None:
    rows, won = [], []
    for task, name in TASKS.items():
        both = [part for part in parts if part.task == task]
        kept = [(part, cell) for part in both for cell in part.informative]
        won.append([beats(part.results, task, cell, "vpm") for part, cell in kept])
        means = [" / ".join(f"{_geometric(part.all_floors(method)):.2g}" for part in both) for method in PAPERS]
        rows.append([name, *means, f"{sum(won[-1])} of {len(won[-1])}"])
    _print(["γ = 1 / 0.99", *PAPERS, "vpm below all of them and naive"], rows)
    print(f"vpm below all of the paper's baselines: {sum(map(sum, won))} of {sum(map(len, won))} cells")


def _preset(parts: Sequence[Part]) -> None:
    """The paper's recipe on the largest logs: floors, those of the default, mean error in floors, runs."""
    for part in parts:
        cells = [cell for cell in part.cells if cell["trajectories"] == LARGEST]
        own = [errors(part.results, part.task, cell, "vpm (paper)") for cell in cells]
        paper = " / ".join(f"{part.floors(cell, 'vpm (paper)'):.2g}" for cell in cells)
        default = " / ".join(f"{part.floors(cell, 'vpm'):.2g}" for cell in cells)
        bias = ", ".join(
            f"{np.mean(each) / floor(part.task, cell):+.1f}" for each, cell in zip(own, cells, strict=True)
        )
        behaviours = " / ".join(str(cell["behaviour"]) for cell in cells)
        print(f"preset='paper', {part.label}, {behaviours}: {paper} ({default}), bias {bias}, {len(own[0])} runs")


def _cells(task: str, results: Results) -> None:
    print(f"\n{task}")
    rows = []
    order = {gamma: number for number, gamma in enumerate((1.0, GAMMA))}
    cells = [cell for cell in cells_of(results) if results.rows.where(**cell, method="vpm")]
    cells.sort(key=lambda cell: (str(cell["behaviour"]), cell["trajectories"], cell["length"], order[cell["gamma"]]))
    for cell in cells:
        part = Part(task, cell["gamma"], results)
        size = str(cell["trajectories"])
        if cell["length"] != LOGGED[task]:
            size += f" × {cell['length']}"
        means = [f"{part.floors(cell, method):.1f}" for method in OURS]
        means[0] += "" if informative(results, task, cell) else " *"
        rows.append([str(cell["behaviour"]), f"{cell['gamma']:g}", size, f"{floor(task, cell):.4f}", *means])
    _print(["behaviour", "γ", "trajectories", "floor", *OURS.values()], rows)


if __name__ == "__main__":
    main()
