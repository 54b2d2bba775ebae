"""The time to import a d3rlpy .h5 file of a million rows, relative to the time h5py takes to read the same arrays."""

from __future__ import annotations

import tempfile
from pathlib import Path

import h5py
import numpy as np

from benchmarks._timing import fastest
from ope_vpm import load_dataset

ROWS, LENGTH = 1_000_000, 1000
"""The size of the D4RL data sets: a million steps in episodes of 1000."""
LIMIT = 3.0
"""The aim for the ratio: checking and joining the episodes may cost twice as much as reading them."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.h5"
        write(path)
        plain, ours = fastest(lambda: read_plainly(path)), fastest(lambda: load_dataset(path))
    print(f"import_h5: {ROWS} rows: h5py {plain:.2f} s, load_dataset {ours:.2f} s, ratio {ours / plain:.2f}")
    if ours / plain > LIMIT:
        raise SystemExit(f"import_h5: the ratio must not be above {LIMIT}")


def write(path: Path) -> None:
    """Write a file in the layout of d3rlpy 2.1, with the dimensions of MuJoCo's HalfCheetah."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["columns"] = ["observations", "actions", "rewards", "terminated"]
        file["num_episodes"] = ROWS // LENGTH
        for number in range(ROWS // LENGTH):
            file[f"observations_{number}"] = rng.normal(size=(LENGTH, 17)).astype(np.float32)
            file[f"actions_{number}"] = rng.normal(size=(LENGTH, 6)).astype(np.float32)
            file[f"rewards_{number}"] = rng.normal(size=(LENGTH, 1)).astype(np.float32)
            file[f"terminated_{number}"] = number % 2 == 0
        file["version"] = "2.1"


def read_plainly(path: Path) -> None:
    with h5py.File(path, "r") as file:
        for name in file:
            file[name][()]


if __name__ == "__main__":
    main()
