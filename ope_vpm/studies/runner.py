"""Studies by the names that `ope-vpm reproduce` takes: run on all cores, stored, resumed where they stopped, printed.

Rows are stored as CSV, arrays as NPZ; a failed write leaves the old file.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from ope_vpm.chain import StationaryWarning
from ope_vpm.optional import versions
from ope_vpm.outside import write_text, write_whole
from ope_vpm.progress import counting
from ope_vpm.studies.study import Arrays, Cell, Outcome, Results, Row, Rows, Study, label
from ope_vpm.suggestions import unknown

MODULES = {
    "queue": "queue",
    "sde": "sde",
    "phylogeny": "sde",
    "mcmc": "mcmc",
    "mcmc-evolution": "mcmc_evolution",
    "convergence": "convergence",
    "reacher": "control",
    "halfcheetah": "control",
    "ant": "control",
    "taxi": "taxi",
    "sepsis": "sepsis",
}
"""The module of each study."""
PAPERS = sorted(path.stem for path in (Path(__file__).parent / "papers").glob("*.toml"))
"""The papers of others whose figures are reproduced, one file each."""
MODULES |= dict.fromkeys(PAPERS, "papers.paper")
SHARED = ("control", "sde", "papers.paper")
"""The modules with several studies, whose `study` function takes the name first."""


def find_study(name: str, quick: bool, data: Path | None = None) -> Study:
    """Return a study by name.

    Args:
        name: such as "queue".
        quick: whether to return its small version, which is named "queue-quick" so that results do not mix.
        data: the file with a paper's own log, where it may not be part of this package.
    """
    if name not in MODULES:
        raise ValueError(unknown("figure", name, MODULES))
    module = import_module(f"ope_vpm.studies.{MODULES[name]}")
    if data is not None and name not in PAPERS:
        raise ValueError(f"only papers have a log of their own, {', '.join(PAPERS)}: {name} takes no data")
    own = {} if data is None else {"data": data}
    study: Study = module.study(name, quick, **own) if MODULES[name] in SHARED else module.study(quick)
    return replace(study, name=f"{name}-quick") if quick else study


def write_rows(path: Path, rows: Rows) -> None:
    """Write rows as a CSV file with the columns of the first row; no rows write no file."""
    if not rows:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_rows(path: Path) -> Rows:
    """Read the rows that `write_rows` wrote, with numbers as int or float; a missing file has no rows."""
    if not path.exists():
        return Rows()
    with path.open(newline="", encoding="utf-8") as file:
        return Rows({name: _value(text) for name, text in row.items()} for row in csv.DictReader(file))


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays to an NPZ file, creating its folder where it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))


def read_arrays(path: Path) -> Arrays:
    """Read the arrays that `write_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def print_table(study: Study, results: Results) -> None:
    """Print a study's table to the terminal."""
    table = study.table(results)
    shown = RichTable(title=f"{study.title}: {table.caption}")
    for number, column in enumerate(table.columns):
        shown.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        shown.add_row(*row)
    console = Console()
    if not console.is_terminal:  # files and pipes have no width to fit into
        console = Console(width=200)
    console.print(shown)


LIBRARIES = ("ope-vpm", "numpy", "scipy", "torch", "matplotlib")
"""The libraries whose versions are recorded: those that decide numbers or pictures."""
Job = tuple[Cell, int]
"""A cell and a seed."""


def reproduce(study: Study, runs: int, folder: Path, processes: int | None = None) -> Results:
    """Run what is missing of a study, and write NAME.csv, NAME.json, NAME.png and NAME.svg.

    Table and figure show every finished run, also those of an earlier call with more runs; after Ctrl-C they show the
    runs that are finished.

    Args:
        study: the study to run.
        runs: the number of runs of each cell, with seeds 0, 1, ….
        folder: where the files are written; finished runs in it are not run again.
        processes: how many run at a time; None: one per core.
    """
    if runs < 0:
        raise ValueError(f"runs must not be negative: got {runs}")
    folder.mkdir(parents=True, exist_ok=True)
    _same_settings(study, folder)
    jobs = [(cell, seed) for cell in study.cells for seed in range(runs)]
    finished = _finished(study, folder)
    todo = [job for job in jobs if _key(*job) not in finished]
    report = folder / f"{study.name}.json"
    new = bool(todo) or not report.exists()  # what is only drawn again keeps its date and versions
    if new:
        write_text(report, _report(study, Rows()))
    with suppress(KeyboardInterrupt):
        for (cell, seed), outcome in _progress(study, todo, len(jobs), processes):
            if outcome.arrays and seed == 0:
                write_arrays(_arrays_file(study, folder, cell), outcome.arrays)
            finished[_key(cell, seed)] = outcome.rows
            write_rows(folder / f"{study.name}.csv", _in_order(study, finished))
    rows = _in_order(study, finished)
    if not rows:
        raise ValueError(f"there is no finished run of {study.name} in {folder}: nothing to show yet")
    files = {label(cell): _arrays_file(study, folder, cell) for cell in study.cells}
    results = Results(rows, {name: read_arrays(file) for name, file in files.items() if file.exists()})
    if new:
        write_text(report, _report(study, rows))
    write_figure(study, results, folder)
    return results


def _run(study: Study, job: Job) -> tuple[Job, Outcome]:
    """Run one job, in a process of its own, and add its cell, seed and tuning seeds to its rows."""
    cell, seed = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StationaryWarning)  # with 50 rows a counted chain is often reducible
        outcome = study.run(cell, seed)
    rows = [{**cell, "seed": seed, **row, "tuning_seeds": study.tuning_seeds} for row in outcome.rows]
    return job, Outcome(rows, outcome.arrays)


def _progress(study: Study, todo: list[Job], total: int, processes: int | None) -> Iterator[tuple[Job, Outcome]]:
    """Yield jobs with their outcomes as they finish, and show a progress bar."""
    before = total - len(todo)
    with counting(study.title, total) as tell, joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        tell(before)
        workers = joblib.Parallel(n_jobs=processes or os.cpu_count() or 1, return_as="generator_unordered")
        results = workers(joblib.delayed(_run)(study, job) for job in todo)
        for number, result in enumerate(results, before + 1):
            yield result
            tell(number)


def _key(cell: Cell, seed: int) -> tuple[Any, ...]:
    return (*cell.values(), seed)


def _finished(study: Study, folder: Path) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows of each run that is already in the CSV file."""
    finished: dict[tuple[Any, ...], list[Row]] = {}
    for row in read_rows(folder / f"{study.name}.csv"):
        key = _key({name: row.get(name) for name in study.cells[0]}, row["seed"])
        finished.setdefault(key, []).append(row)
    return finished


def _in_order(study: Study, finished: dict[tuple[Any, ...], list[Row]]) -> Rows:
    """Return all rows in the order of cells and seeds, whatever order they finished in."""
    place = {tuple(cell.values()): number for number, cell in enumerate(study.cells)}
    order = sorted(finished, key=lambda key: (place.get(key[:-1], len(place)), key[-1]))
    return Rows(row for key in order for row in finished[key])


def _same_settings(study: Study, folder: Path) -> None:
    """Raise an error if the runs in the folder were made with other settings."""
    path = folder / f"{study.name}.json"
    if not path.exists() or not (folder / f"{study.name}.csv").exists():
        return
    before = json.loads(path.read_text())["settings"]
    if before != json.loads(json.dumps(study.settings)):
        raise ValueError(
            f"{path} was made with other settings, so its runs cannot be continued: "
            "give another --output, or delete the old results"
        )


def _report(study: Study, rows: Rows) -> str:
    """Return settings, seeds, versions and timings as JSON text."""
    methods = dict.fromkeys(row["method"] for row in rows)
    seconds = {name: rows.where(method=name).mean_and_error("seconds")[0] for name in methods}
    report = {
        "study": study.name,
        "title": study.title,
        "settings": study.settings,
        "seeds": {label(cell): sorted({row["seed"] for row in rows.where(**cell)}) for cell in study.cells},
        "tuning_seeds": study.tuning_seeds,
        "versions": versions(LIBRARIES),
        "mean_seconds_of_a_fit": seconds,
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) if rows else None,
    }
    return json.dumps(report, indent=2, ensure_ascii=False) + "\n"


def _arrays_file(study: Study, folder: Path, cell: Cell) -> Path:
    return folder / f"{study.name}-arrays" / f"{label(cell)}.npz"


def write_figure(study: Study, results: Results, folder: Path) -> None:
    """Draw a study, as NAME.png and NAME.svg in a folder."""
    figure = study.draw(results)

    def save(temporary: Path) -> None:
        figure.savefig(temporary, dpi=120, bbox_inches="tight")

    for ending in ("png", "svg"):
        write_whole(folder / f"{study.name}.{ending}", save)
