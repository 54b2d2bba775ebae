"""The tables of docs/control.md from the stored runs: `python -m benchmarks control_tables [--folder docs/results]`.

Numbers are geometric means, over informative cells with trajectories of full length, of RMSE in on-policy floors.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ope_vpm.envs.truth import GAMMA, LOGGED, stored_truth
from ope_vpm.studies.control_report import beats, cells_of, errors, floor, informative, rmse
from ope_vpm.studies.files import read_rows
from ope_vpm.studies.study import Cell, Results, select

TASKS = ("reacher", "halfcheetah", "ant")
METHODS = ("vpm", "auto", "dr", "fqe (linear)", "onestep", "naive", "liu", "model", "wist", "wiss")
VERDICTS = ("reliable", "caution", "unreliable")
LARGEST = 200
"""Trajectories of the logs on which the paper's preset was run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("docs/results"))
    folder = parser.parse_args().folder
    found: dict[tuple[float, str], list[float]] = defaultdict(list)
    below = 0
    for task in TASKS:
        results = Results(read_rows(folder / f"{task}.csv"), {})
        full = [cell for cell in cells_of(results) if cell["length"] == LOGGED[task]]
        for gamma in (1.0, GAMMA):
            cells = [cell for cell in full if cell["gamma"] == gamma]
            kept = [cell for cell in cells if informative(results, task, cell)]
            for method in METHODS:
                found[gamma, method] += (mine := [_floors(results, task, cell, method) for cell in kept])
                runs = {len({row["seed"] for row in select(results.rows, **cell, method=method)}) for cell in cells}
                print(f"{task:12} γ = {gamma:<4} {method:14} {_geometric(mine):6.2f}  runs {min(runs)}-{max(runs)}")
            wins = [beats(results, task, cell, "vpm") for cell in kept]
            below += sum(wins)
            print(f"  {len(kept)} of {len(cells)} cells informative; vpm below all of the paper's in {sum(wins)}")
            _about_naive(results, task, cells, kept)
            _coverage(results, task, cells)
            _preset(results, task, cells)
    for method in METHODS:
        at_one, discounted = found[1.0, method], found[GAMMA, method]
        every = [*at_one, *discounted]
        print(f"all {method:14} {_geometric(at_one):.2f} {_geometric(discounted):.2f} {_geometric(every):.2f}", end="")
        print(f"  of {len(every)} cells")
    print(f"vpm below all of the paper's baselines: {below} cells")


def _floors(results: Results, task: str, cell: Cell, method: str) -> float:
    return rmse(errors(results, task, cell, method)) / floor(task, cell)


def _geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _about_naive(results: Results, task: str, cells: list[Cell], kept: list[Cell]) -> None:
    lower = [_floors(results, task, cell, "vpm") < _floors(results, task, cell, "naive") for cell in kept]
    worst = max(_floors(results, task, cell, "auto") / _floors(results, task, cell, "naive") for cell in cells)
    print(f"  vpm below naive {np.mean(lower):.0%}; auto at most {worst:.2f} times naive")


def _coverage(results: Results, task: str, cells: list[Cell]) -> None:
    """How often the intervals of `auto` hold the truth, by verdict."""
    held: dict[str, list[bool]] = defaultdict(list)
    for cell in cells:
        truth = stored_truth(task).at(cell["gamma"], cell["length"]).value
        for row in select(results.rows, **cell, method="auto"):
            held[row["verdict"]].append(bool(row["low"] <= truth <= row["high"]))
    print("  auto covered:", *(f"{level} {sum(held[level])} of {len(held[level])}" for level in VERDICTS))


def _preset(results: Results, task: str, cells: list[Cell]) -> None:
    """The paper's recipe on the largest logs: floors, those of the default, mean error in floors, runs."""
    for cell in cells:
        mine = errors(results, task, cell, "vpm (paper)")
        if cell["trajectories"] == LARGEST and mine:
            bias, default = float(np.mean(mine)) / floor(task, cell), _floors(results, task, cell, "vpm")
            about = (
                f"{_floors(results, task, cell, 'vpm (paper)'):.1f} ({default:.1f}), bias {bias:+.1f}, {len(mine)} runs"
            )
            print(f"  preset='paper', behaviour {cell['behaviour']}: {about}")


if __name__ == "__main__":
    main()
