"""The memory of a kernel fit: 5 million memory-mapped rows of 10 numbers may add at most 500 MB to the process."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import ope_vpm as ov

ROWS, COLUMNS, LIMIT = 5_000_000, 10, 500
"""x and x' are 400 MB of float32; the limit of 500 MB added was set with the kernel solver's aims (note 003)."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("x.npy", "x_next.npy")]
        writer = multiprocessing.get_context("spawn").Process(target=write, args=(paths,))
        writer.start()  # a process of its own: what it maps must not count as ours
        writer.join()
        small = np.random.default_rng(0).normal(size=(100, 2))
        ov.VPM(n_features=64).fit(ov.Transitions(small, small[::-1]))  # loads what is lazy
        before, start = peak(), time.perf_counter()
        x, x_next = (np.load(path, mmap_mode="r") for path in paths)
        estimate = ov.VPM(n_features=64).fit(ov.Transitions(x, x_next))
        added = peak() - before
    print(f"memory: {ROWS} rows: {added:.0f} MB added (at most {LIMIT}), {time.perf_counter() - start:.0f} s")
    print(estimate.diagnostics)
    if added > LIMIT:
        raise SystemExit(f"memory: more than {LIMIT} MB")


def write(paths: list[Path]) -> None:
    """Write transitions of a stable linear chain to two files, in chunks."""
    rng = np.random.default_rng(0)
    files = [np.lib.format.open_memmap(path, "w+", np.float32, (ROWS, COLUMNS)) for path in paths]
    for begin in range(0, ROWS, 100_000):
        x = rng.normal(size=(100_000, COLUMNS))
        files[0][begin : begin + 100_000] = x
        files[1][begin : begin + 100_000] = 0.7 * x + 0.3 + 0.5 * rng.normal(size=x.shape)


def peak() -> float:
    """Return the largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
