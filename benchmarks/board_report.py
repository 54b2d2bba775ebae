"""Time, memory and size of a leaderboard's report against the number of its cells, from stores of drawn results.

Ten times as many cells should take ten times as long: the exponent of time is printed, from one run on one machine.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from math import log10
from pathlib import Path

import numpy as np

from ope_vpm.leaderboard.document import DETAILED
from ope_vpm.leaderboard.jobs import plan
from ope_vpm.leaderboard.output import write_board
from ope_vpm.leaderboard.records import Board
from ope_vpm.leaderboard.runner import STORE
from ope_vpm.leaderboard.store import Store
from tests.leaderboard.boards import drawn_result, drawn_suite

SHAPES = {
    "many runs": ({"settings": 2, "policies": 5, "estimators": 10}, (100, 1000, 10_000)),
    "many settings": ({"runs": 10, "policies": 1, "estimators": 10}, (100, 1000)),
}
"""What stays and what grows: 10⁴, 10⁵ and 10⁶ cells by runs, 10⁴ and 10⁵ by settings of ten runs."""
ASKED = "asked at 100 000 cells: at most 10 s and 15 MB"
"""The aim that the leaderboard was given, printed beside the figures."""


def main() -> None:
    for shape, (fixed, sizes) in SHAPES.items():
        seconds: dict[int, float] = {}
        for size in sizes:
            growing = "settings" if "runs" in fixed else "runs"
            arguments = [f"{name}={value}" for name, value in {**fixed, growing: size}.items()]
            code = f"from benchmarks.board_report import measure; measure({', '.join(arguments)})"
            printed = subprocess.run([sys.executable, "-c", code], check=True, text=True, stdout=subprocess.PIPE).stdout
            cells, loading, writing, page, memory = printed.split()
            seconds[int(cells)] = float(loading) + float(writing)
            print(
                f"{shape}: {int(cells):9,} cells: loaded in {loading} s, written in {writing} s, "
                f"page {page} MB, {memory} MB of memory",
                flush=True,
            )
        (small, first), *_, (large, last) = seconds.items()
        print(f"{shape}: time grows as cells^{log10(last / first) / log10(large / small):.2f}; {ASKED}")


def measure(**shape: int) -> None:
    """Print the number of cells, a core's seconds to load and to write, the page's size and the memory in MB."""
    suite = drawn_suite(**shape)
    jobs, rng = plan(suite), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / STORE)
        with store.writing() as connection:
            for job in jobs:
                connection.execute(
                    "insert into cells values (?, ?, ?, ?, ?, ?)", store.row(job, drawn_result(job, rng))
                )
        start = time.process_time()
        board = Board(suite, jobs, store.load((job.key for job in jobs), lean=len(jobs) > DETAILED))
        loaded = time.process_time()
        write_board(board, Path(folder), "benchmark")
        written = time.process_time()
        page = os.path.getsize(Path(folder) / "index.html") / 1e6
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(len(jobs) - len(board.references), f"{loaded - start:.1f} {written - loaded:.1f} {page:.1f} {memory:.0f}")


if __name__ == "__main__":
    main()
