"""A disk that is full: the error names the file, and nothing half-written stays."""

import os
import subprocess
import sys

import pytest

SAVE = """
import resource, sys
from pathlib import Path
import numpy as np
from ope_vpm import LoggedDataset
from ope_vpm.outside import write_text

path, rows = Path(sys.argv[1]), 20_000
states, ended = np.random.default_rng(0).normal(size=(rows, 3)), np.arange(rows) % 1000 == 999
log = LoggedDataset.from_arrays(states, np.zeros(rows, dtype=int), np.ones(rows), None, ended)
path.write_bytes(b"as it was")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # less than a tenth of the columns
try:
    write_text(path, "a" * 100_000) if path.suffix == ".txt" else log.save(path)
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["log.npz", "log.parquet", "log.h5", "page.txt"])
def test_the_error_names_the_file_and_nothing_stays(tmp_path, name):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SAVE, str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines()[-1].startswith(f"{tmp_path / name} cannot be written, and nothing of it is left: ")
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_bytes() == b"as it was"
