"""Stored runs of a study again, on the code as it is: `python -m benchmarks repeat --study sde --only method=VPM`.

Says how far the numbers moved, by method. A method of which every stored run was made again, and whose numbers moved,
has the new runs in the place of the old; of others, whose networks take hours, the first runs tell whether the stored
ones still hold. What was repeated, and by which version, is written to `docs/results/repeated.json`, which `benchmarks
tables` reads.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ope_vpm.outside import write_text
from ope_vpm.studies.runner import find_study, read_arrays, read_rows, reproduce, write_figure, write_rows
from ope_vpm.studies.study import Cell, Results, Row, Rows, Study, label

MEASURES = ("log_mmd", "log_kl_true_estimate", "residual", "error", "value")
"""The columns that are compared, the first that a study has."""
SAME = 1e-9
"""A number that moved by less, or by less than this share of it, is repeated."""
DECIDED = {
    *MEASURES,
    "log_kl_estimate_true",
    "mean_residual",
    "squared_error",
    "low",
    "high",
    "verdict",
    "seconds",
    "tuning_seeds",
}
"""The columns that a run decides; the others say which run it is."""


def chosen(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells whose columns have one of the wanted values, each written as column=value."""
    wanted: dict[str, set[str]] = {}
    for text in only:
        column, _, value = text.partition("=")
        wanted.setdefault(column, set()).add(value)
    return [cell for cell in cells if all(str(cell[column]) in values for column, values in wanted.items())]


def key(row: Row) -> tuple[Any, ...]:
    """The columns that tell which run a row belongs to."""
    told = DECIDED | {"tuning_seeds"}  # a remark
    return tuple(sorted((name, str(value)) for name, value in row.items() if name not in told))


def merged(stored: Rows, made: Rows) -> tuple[Rows, dict[str, dict[str, Any]]]:
    """The rows to store, and what is known of each method that was run again.

    Args:
        stored: the rows as they are.
        made: the rows of the code as it is, of some cells and runs.

    Returns:
        The rows, those of a method that was wholly made again and moved replaced; by method how many runs were made
        again, whether they are all, and the largest move.
    """
    new = {key(row): row for row in made}
    measure = next(name for name in MEASURES if name in stored[0])
    told, replaced = {}, set[str]()
    for method in dict.fromkeys(row["method"] for row in made):
        own = stored.where(method=method)
        both = [row for row in own if key(row) in new]
        moves = [abs(row[measure] - new[key(row)][measure]) for row in both]
        moved = any(move > SAME * max(1.0, abs(row[measure])) for move, row in zip(moves, both, strict=True))
        if len(both) == len(own) and moved:
            replaced.add(method)
        told[method] = {
            "runs": len({row["seed"] for row in both}),
            "all": len(both) == len(own),
            "rows": len(both),
            "replaced": method in replaced,
            "largest_move": float(np.max(moves, initial=0.0)),
            "median_move": float(np.median(moves)) if moves else 0.0,
        }
    return Rows(new[key(row)] if row["method"] in replaced else row for row in stored), told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="queue", help="the quickest one if not given")
    parser.add_argument("--only", action="append", default=[], metavar="COLUMN=VALUE")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--stored", type=Path, default=Path("docs/results"))
    parser.add_argument("--output", type=Path, default=Path("results/repeated"))
    asked = parser.parse_args()
    study = find_study(asked.study, quick=False)
    part = replace(study, cells=chosen(study.cells, asked.only), draw=lambda results: Figure())
    made = reproduce(part, asked.runs, asked.output, processes=1)
    rows, told = merged(read_rows(asked.stored / f"{study.name}.csv"), made.rows)
    replaced = [name for name, each in told.items() if each["replaced"]]
    if replaced:
        write_rows(asked.stored / f"{study.name}.csv", rows)
        _draw_again(study, rows, replaced, asked.output, asked.stored)
    path = asked.stored / "repeated.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    by = {name: {"version": version("ope-vpm"), **each} for name, each in told.items()}
    known[study.name] = known.get(study.name, {}) | by
    write_text(path, json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    for name, each in by.items():
        print(f"{study.name}, {name}: {each}")


def _draw_again(study: Study, rows: Rows, methods: Sequence[str], output: Path, stored: Path) -> None:
    """The study's picture with the new runs, and the new arrays of its methods beside the old."""
    for cell in study.cells:
        name = Path(f"{study.name}-arrays") / f"{label(cell)}.npz"
        if cell.get("method") in methods and (output / name).exists():
            shutil.copy(output / name, stored / name)
    files = {label(cell): stored / f"{study.name}-arrays" / f"{label(cell)}.npz" for cell in study.cells}
    arrays = {name: read_arrays(file) for name, file in files.items() if file.exists()}
    write_figure(study, Results(rows, arrays), stored)


if __name__ == "__main__":
    main()
