"""Time and memory of `ov.evaluate` against the number of rows: `python -m benchmarks scale [--only NAME]… [--resume]`.

Times are CPU seconds of the process, on one thread unless said otherwise, and figures are ratios within one process, so
that a busy machine does not change them much. The unit is one float64 pass of matrix products over the rows, φᵀφ and
φᵀ(φ - φ') for the 634 features of a pair with 17-dimensional states and 6-dimensional actions: what moments in double
precision cannot do without.

Sections have rows, each measured in a process of its own and written to docs/results/scale.json when it is done, with a
picture of time and memory beside it. `--only streams` measures a section again, `--only streams/10000000` one row,
`--resume` what is missing, `--times 3` the median of three. All of it takes some 30 minutes of a quiet machine. A row
holds the version that it was measured with: docs/scale.md shows rows of 0.2.0 and later, others have none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ope_vpm.studies.study import panels

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "scale.json"
ROWS = 1_000_000
"""Rows of the log with continuous states that most figures are about."""
QUESTION_ROWS = 100_000
"""Rows of the log about which several policies or discounts are asked: it is all sample, where most of the cost is."""
SMALL = (5_000, 10_000)
"""Rows of logs on which somebody waits for the answer."""
LONG_ROWS = 120_000
"""Rows that are read in parts; how many passes that takes does not depend on their number."""
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)
"""Rows of the logs in the picture."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables by which BLAS libraries and torch take their number of threads."""
SLOW = ("dr",)
"""Sections that are measured only where they are named: `dr` fits networks, for minutes."""

Figures = dict[str, Any]


class Run(NamedTuple):
    """A function of `benchmarks._scale_runs` with its arguments."""

    function: str
    arguments: Figures
    unset: bool = False
    """Whether the number of threads is left as it comes."""


def sections(rows: int = ROWS) -> dict[str, dict[str, Run]]:
    """What is measured, by section and row.

    Args:
        rows: of the log that most figures are about.
    """
    few = min(rows, QUESTION_ROWS)
    return {
        "estimators": {name: Run("call", {"rows": rows, "estimator": name}) for name in ("vpm", "auto")},
        "dr": {"dr": Run("call", {"rows": rows, "estimator": "dr"})},
        "policies": {
            "auto": Run("questions", {"rows": few, "estimator": "auto", "targets": 3}),
            **{str(size): Run("questions", {"rows": size, "estimator": "auto", "targets": 3}) for size in SMALL},
        },
        "second_call": {str(size): Run("second_call", {"rows": size}) for size in SMALL},
        "twenty": {f"{jobs} at once": Run("twenty", {"rows": max(SMALL), "jobs": jobs}) for jobs in (1, 2)},
        "twenty_in_parts": {str(size): Run("twenty_in_parts", {"rows": size}) for size in (LONG_ROWS,)},
        "discounts": {"auto": Run("questions", {"rows": few, "estimator": "auto", "gammas": 3})},
        "threads": {"one": Run("small", {}), "unset": Run("small", {}, unset=True)},
        "finite": {str(10 * rows): Run("finite", {"rows": 10 * rows})},
        "finite_streams": {
            "in memory": Run("finite_stream", {"rows": rows, "in_memory": True}),
            **{str(k * rows): Run("finite_stream", {"rows": k * rows}) for k in (1, 3, 10, 30)},
        },
        "growth": {
            str(size): Run("call", {"rows": size, "estimator": "vpm"}) for size in GROWTH if size <= max(rows, 30_000)
        },
        "streams": {
            "in memory": Run("call", {"rows": rows, "estimator": "vpm", "from_files": True}),
            **{str(k * rows): Run("stream", {"rows": k * rows}) for k in (1, 10, 30)},
        },
        "ray": {str(workers): Run("on_ray", {"rows": 10 * rows, "workers": workers}) for workers in (1, 2)},
        "fqe_by_d3rlpy": {"auto": Run("peer", {"name": "against_d3rlpy"})},
        "fqe_by_torch": {"vpm": Run("peer", {"name": "against_torch"})},
    }


def main() -> None:
    options = _options()
    known = sections(options.rows)
    found: Figures = json.loads(RESULTS.read_text()) if RESULTS.exists() and (options.only or options.resume) else {}
    for section, row in chosen(known, options.only, found if options.resume else {}):
        figures = medians([measured(known[section][row]) for _ in range(options.times)])
        found.setdefault(section, {})[row] = figures
        found["ratios"] = ratios(found)
        print(f"{section}/{row}", json.dumps(figures), flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print("ratios", json.dumps(found.get("ratios", {}), indent=1))
    if "growth" in found:
        draw(found, RESULTS.with_suffix(".png"))


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the log that most figures are about")
    parser.add_argument("--only", action="append", metavar="SECTION[/ROW]", help=f"one of {', '.join(sections())}")
    parser.add_argument("--times", type=int, default=1, help="measurements of which a row has the medians")
    parser.add_argument("--resume", action="store_true", help="measure what is not in the results yet")
    options = parser.parse_args(words)
    unknown = [name for name in options.only or () if name.split("/")[0] not in sections()]
    if unknown:
        parser.error(f"there is no section {unknown[0]!r}: they are {', '.join(sections())}")
    return options


def chosen(known: dict[str, dict[str, Run]], only: Sequence[str] | None, done: Figures) -> list[tuple[str, str]]:
    """The rows to measure, as pairs of a section and a row.

    Args:
        known: all of them.
        only: sections, or rows as "section/row"; None: all sections but the slow ones.
        done: figures that are there already.
    """
    every = [(section, row) for section, rows in known.items() for row in rows]
    if only:
        wanted = [(s, r) for s, r in every if s in only or f"{s}/{r}" in only]
    else:
        wanted = [(s, r) for s, r in every if s not in SLOW]
    return [(s, r) for s, r in wanted if r not in done.get(s, {})]


def measured(run: Run) -> Figures:
    """What a function of `benchmarks._scale_runs` returns in a process of its own."""
    code = (
        f"import json; from benchmarks._scale_runs import {run.function} as run; "
        f"print(json.dumps(run(**{run.arguments})))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    if not run.unset:
        environment |= dict.fromkeys(THREADS, "1")
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, text=True, stdout=subprocess.PIPE, env=environment
    )
    figures: Figures = json.loads(printed.stdout.splitlines()[-1])
    return figures


def medians(measurements: Sequence[Figures]) -> Figures:
    """The median of each number, and the version; what is no number is that of the first measurement."""
    middle = {
        name: median(each[name] for each in measurements) if isinstance(first, int | float) else first
        for name, first in measurements[0].items()
    }
    return {**middle, "version": version("ope-vpm")}


def ratios(found: Figures) -> Figures:
    """The figures that compare rows with one another, as far as these were measured."""
    figures: Figures = {}
    threads, ray, streams = (found.get(name, {}) for name in ("threads", "ray", "streams"))
    if len(threads) == 2:
        figures["threads unset ÷ one"] = round(threads["unset"]["seconds"] / threads["one"]["seconds"], 2)
    if len(ray) == 2:
        figures["one Ray worker ÷ two"] = round(ray["1"]["wall_seconds"] / ray["2"]["wall_seconds"], 2)
    parts = {int(row): each for row, each in streams.items() if row.isdigit()}
    if "in memory" in streams and parts:
        memory, first = streams["in memory"], parts[min(parts)]
        figures["parquet ÷ in memory"] = round(first["seconds"] / memory["seconds"], 2)
        apart = abs(first["value"] - memory["value"]) / memory["standard_error"]
        figures["parquet and memory apart, in standard errors"] = apart
    grown = {int(row): each["seconds"] for row, each in found.get("growth", {}).items() if row.isdigit()}
    figures |= {
        f"exponent of time from {low} rows": exponent({n: t for n, t in grown.items() if n >= low})
        for low in (10_000, 100_000)
        if sum(n >= low for n in grown) > 1
    }
    if len(parts) > 1:
        figures["exponent of time in parts"] = exponent({n: each["seconds"] for n, each in parts.items()})
    return figures


def exponent(seconds: dict[int, float]) -> float:
    """The slope of log time against log rows."""
    slope = np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]
    return round(float(slope), 3)


def draw(found: Figures, path: Path) -> None:
    """Draw time and memory against rows, in memory and in parts."""
    figure, (left, right) = panels(1, 2)
    measured = list(found["growth"].values())
    parts = [each for row, each in found.get("streams", {}).items() if row.isdigit()]
    rows, streamed = [each["rows"] for each in measured], [each["rows"] for each in parts]
    left.loglog(rows, [each["seconds"] for each in measured], "C3o-", label="vpm")
    left.loglog(rows, [each["pass_seconds"] for each in measured], "C7--", label="one float64 pass")
    right.loglog(rows, [max(each["added_megabytes"], 1) for each in measured], "C3o-", label="vpm")
    if parts:
        left.loglog(streamed, [each["seconds"] for each in parts], "C0s-", label="vpm from Parquet")
        right.loglog(streamed, [max(each["added_megabytes"], 1) for each in parts], "C0s-", label="vpm from Parquet")
    left.set(xlabel="rows", ylabel="CPU seconds", title="time")
    left.legend()
    right.set(xlabel="rows", ylabel="MB added", title="memory beside the log")
    right.legend()
    for suffix in (path.suffix, ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)
