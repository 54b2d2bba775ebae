"""Time and memory of `ov.evaluate` against the number of rows: `python -m benchmarks scale [--rows N] [--only NAME]…`.

Times are CPU seconds of the process, on one thread unless said otherwise, and figures are ratios within one process, so
that a busy machine does not change them much. The unit is one float64 pass of matrix products over the rows, φᵀφ and
φᵀ(φ - φ') for the 634 features of a pair with 17-dimensional states and 6-dimensional actions: what moments in double
precision cannot do without. Results go to docs/results/scale.json, and a picture of time and memory beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

import ope_vpm as ov
from ope_vpm.logged.formats.table import to_table
from ope_vpm.optional import library
from ope_vpm.policy import GaussianPolicy
from ope_vpm.studies.plots import panels

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "scale.json"
STATE, ACTION, LENGTH = 17, 6, 200
"""The sizes of HalfCheetah's states and actions, and steps per episode."""
FEATURES, STATE_FEATURES = 634, 418
"""Of a pair: 1 + 17 + 400 of the state, and 12 functions of the action times 1 and the 17 coordinates."""
FILE_ROWS = 100_000
"""Rows of a Parquet file."""
LARGEST_STREAM = 10_000_000
"""Rows of the largest log that is read in parts."""
LARGEST_FINITE_STREAM = 30_000_000
"""The same of finite states, whose rows take a thousandth of the time."""
BATCH = 4096
"""Rows of one matrix product."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables by which BLAS libraries and torch take their number of threads."""
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
"""Rows of the logs in the picture; those above `--rows` are left out."""

Figures = dict[str, Any]


def main() -> None:
    options = _options()
    found: Figures = json.loads(RESULTS.read_text()) if RESULTS.exists() and options.only else {}
    for name, section in SECTIONS.items():
        if not options.only or name in options.only:
            found[name] = section(options.rows)
            print(name, json.dumps(found[name], indent=1), flush=True)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    if "growth" in found:
        draw(found["growth"], RESULTS.with_suffix(".png"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the largest log with continuous states")
    parser.add_argument("--only", action="append", choices=sorted(SECTIONS), help="measure this section only")
    return parser.parse_args()


def estimators(rows: int) -> Figures:
    """The whole call of three estimators, in passes of matrix products, with the memory that it adds."""
    return {name: _apart(_call, rows=rows, estimator=name) for name in ("vpm", "auto", "dr")}


def growth(rows: int) -> Figures:
    """Time and memory of vpm against rows, and the exponent of time over the larger half of the sizes."""
    sizes = [size for size in GROWTH if size <= rows]
    found = {str(size): _apart(_call, rows=size, estimator="vpm") for size in sizes}
    large = [size for size in sizes if size >= 100_000] or sizes
    seconds = [found[str(size)]["seconds"] for size in large]
    exponent = np.polyfit(np.log(large), np.log(seconds), 1)[0] if len(large) > 1 else None
    return {"vpm": found, "exponent": None if exponent is None else round(float(exponent), 3)}


def policies(rows: int) -> Figures:
    """The time of each further policy in one call, in units of the first one's."""
    return _apart(_questions, rows=rows, estimator="auto", policies=3)


def discounts(rows: int) -> Figures:
    """The time of each further discount in one call, in units of the first one's."""
    return _apart(_questions, rows=rows, estimator="auto", gammas=3)


def streams(rows: int) -> Figures:
    """Run vpm from Parquet files: its time in units of the same log in memory, and memory at three sizes."""
    memory = _apart(_call, rows=rows, estimator="vpm", files=True)
    sizes = [size for size in (rows, 3 * rows, 10 * rows) if size <= LARGEST_STREAM]
    found = {str(size): _apart(_stream, rows=size) for size in sizes}
    first = found[str(rows)]
    return {
        "in_memory_seconds": memory["seconds"],
        "ratio": round(first["seconds"] / memory["seconds"], 2),
        "apart_in_standard_errors": abs(first["value"] - memory["value"]) / memory["standard_error"],
        "parquet": found,
    }


def ray(rows: int) -> Figures:
    """The wall time of vpm from Parquet files on Ray, with one worker and with two."""
    found = {str(workers): _apart(_on_ray, rows=rows, workers=workers) for workers in (1, 2)}
    return {**found, "ratio": round(found["1"]["wall_seconds"] / found["2"]["wall_seconds"], 2)}


def finite(rows: int) -> Figures:
    """10 times as many rows, 100 to a state, in units of scipy's conversion of as many entries to rows."""
    return _apart(_finite, rows=10 * rows)


def finite_streams(rows: int) -> Figures:
    """Run vpm on finite states from Parquet files, 10⁴ states at three sizes: time, and the memory that it adds."""
    sizes = [size for size in (rows, 3 * rows, 10 * rows, 30 * rows) if size <= LARGEST_FINITE_STREAM]
    found = {str(size): _apart(_finite_stream, rows=size) for size in sizes}
    memory = _apart(_finite_stream, rows=rows, in_memory=True)
    apart = abs(found[str(rows)]["value"] - memory["value"])
    return {"in_memory": memory, "parquet": found, "apart": apart}


def fqe_by_d3rlpy(rows: int) -> Figures:
    """d3rlpy's FQE on its own greedy policy beside ours: see `benchmarks._fqe_peers`."""
    return _apart(_peer, name="against_d3rlpy")


def fqe_by_torch(rows: int) -> Figures:
    """A plain FQE in torch beside vpm: see `benchmarks._fqe_peers`."""
    return _apart(_peer, name="against_torch")


def threads(rows: int) -> Figures:
    """The CPU time of a log of 2000 rows with BLAS's threads as they come, in units of one thread's."""
    one, unset = (_apart(_small, unset=unset) for unset in (False, True))
    return {"one_thread": one, "unset": unset, "ratio": round(unset["seconds"] / one["seconds"], 2)}


SECTIONS: dict[str, Callable[[int], Figures]] = {
    "estimators": estimators,
    "policies": policies,
    "discounts": discounts,
    "threads": threads,
    "finite": finite,
    "finite_streams": finite_streams,
    "streams": streams,
    "ray": ray,
    "growth": growth,
    "fqe_by_d3rlpy": fqe_by_d3rlpy,
    "fqe_by_torch": fqe_by_torch,
}


def _apart(function: Callable[..., Figures], *, unset: bool = False, **arguments: Any) -> Figures:
    """What a function of this file returns in a process of its own, on one thread unless threads are left unset."""
    code = (
        f"import json; from benchmarks.scale import {function.__name__} as run; print(json.dumps(run(**{arguments})))"
    )
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    if not unset:
        environment |= dict.fromkeys(THREADS, "1")
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, text=True, stdout=subprocess.PIPE, env=environment
    )
    figures: Figures = json.loads(printed.stdout.splitlines()[-1])
    return figures


def _call(rows: int, estimator: str, files: bool = False) -> Figures:
    """One call: its time in CPU seconds and in passes, its memory in MB, and its value."""
    (policy, *_) = _policies()
    data = ov.scan_dataset(_files(rows)).read() if files else _log(rows)
    ov.evaluate(_log(2000), policy, estimator, ignore=IGNORED)  # loads what is lazy
    unit, before = _pass_seconds(rows), _start_of_memory()
    start = time.process_time()
    value = ov.evaluate(data, policy, estimator, gamma=0.99, ignore=IGNORED)
    seconds = time.process_time() - start
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "pass_seconds": round(unit, 2),
        "passes": round(seconds / unit, 2),
        "added_megabytes": round(_peak_memory() - before),
        "value": value.value,
        "standard_error": value.standard_error,
    }


def _stream(rows: int) -> Figures:
    """One call on Parquet files that are read in parts: time, and the memory that it adds."""
    folder, (policy, *_) = _files(rows), _policies()
    ov.evaluate(_log(2000), policy, "vpm", ignore=IGNORED)
    before, start, begun = _start_of_memory(), time.process_time(), time.perf_counter()
    value = ov.evaluate(folder, policy, "vpm", gamma=0.99, ignore=IGNORED)
    seconds, wall = time.process_time() - start, time.perf_counter() - begun
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "wall_seconds": round(wall, 2),
        "rows_per_second": round(rows / seconds),
        "added_megabytes": round(_peak_memory() - before),
        "value": value.value,
        "standard_error": value.standard_error,
    }


def _on_ray(rows: int, workers: int) -> Figures:
    """One call on Ray with so many workers, after a first one that starts them."""
    from ope_vpm.logged.ray_stream import THREADS as ONE_THREAD

    folder, (policy, *_) = _files(rows), _policies()
    runtime = {"env_vars": {**ONE_THREAD, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
    library("ray", "ray").init(
        num_cpus=workers, include_dashboard=False, log_to_driver=False, runtime_env=runtime, configure_logging=False
    )
    data = ov.scan_dataset(folder, backend="ray")
    ov.evaluate(data, policy, "naive", ignore=IGNORED)
    begun = time.perf_counter()
    value = ov.evaluate(data, policy, "vpm", gamma=0.99, ignore=IGNORED)
    return {"rows": rows, "wall_seconds": round(time.perf_counter() - begun, 2), "value": value.value}


def _files(rows: int) -> Path:
    """The log in Parquet files of 10⁵ rows in row groups of 20 000, made once."""
    return _written(rows, "scale", _log, FILE_ROWS)


def _written(rows: int, name: str, log: Callable[[int, int], ov.LoggedDataset], file_rows: int) -> Path:
    """A folder of Parquet files with so many rows each, made once."""
    folder = Path(tempfile.gettempdir()) / f"ope-vpm-{name}-{rows}"
    if not (folder / "done").exists():
        folder.mkdir(exist_ok=True)
        for number, first in enumerate(range(0, rows, file_rows)):
            part = log(min(file_rows, rows - first), number)
            columns = {name: np.ascontiguousarray(column) for name, column in to_table(part).items()}
            table = library("pyarrow", "parquet").table(columns)
            path = folder / f"part-{number}.parquet"
            library("pyarrow.parquet", "parquet").write_table(table, path, row_group_size=20_000)
        (folder / "done").touch()
    return folder


def _questions(rows: int, estimator: str, policies: int = 1, gammas: int = 1) -> Figures:
    """What each further policy or discount of one call costs, from calls with one of them and with all."""
    data, targets, discounts = _log(rows), _policies()[:policies], [0.99, 0.9, 0.95][:gammas]
    ov.evaluate(_log(2000), targets[0], estimator, ignore=IGNORED)

    def seconds(some: list[Any], at: Any) -> float:
        start = time.process_time()
        ov.evaluate(data, some, estimator, gamma=at, ignore=IGNORED)
        return time.process_time() - start

    first = seconds(targets[:1], discounts[0])
    whole = seconds(targets, discounts if gammas > 1 else discounts[0])
    further = (whole - first) / (policies * gammas - 1)
    return {"first_seconds": round(first, 2), "further_seconds": round(further, 2), "ratio": round(further / first, 3)}


def _peer(name: str) -> Figures:
    """A comparison of `benchmarks._fqe_peers`."""
    from benchmarks import _fqe_peers

    figures: Figures = getattr(_fqe_peers, name)()
    return figures


def _finite_stream(rows: int, in_memory: bool = False, states: int = 10_000) -> Figures:
    """One call on finite states in Parquet files that are read in parts, or first into memory."""
    folder = _written(rows, "finite", lambda size, seed: _finite_log(size, states, seed)[0], 1_000_000)
    table = np.tile(np.array([0.4, 0.3, 0.2, 0.1]), (states, 1))
    data = ov.scan_dataset(folder).read() if in_memory else folder
    ov.evaluate(_finite_log(10_000, 100, 0)[0], table, "vpm", gamma=0.99, ignore=IGNORED)  # loads what is lazy
    value, seconds, megabytes = _counted(data, table)
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds),
        "added_megabytes": round(megabytes),
        "value": value.value,
        "standard_error": value.standard_error,
    }


def _counted(data: Any, table: Any) -> tuple[ov.PolicyValue, float, float]:
    """What `vpm` says of a finite log, its CPU time, and the megabytes that it added."""
    before, start = _start_of_memory(), time.process_time()
    value = ov.evaluate(data, table, "vpm", gamma=0.99, ignore=IGNORED)
    return value, time.process_time() - start, _peak_memory() - before


def _finite_log(rows: int, states: int, seed: int, actions: int = 4) -> tuple[ov.LoggedDataset, tuple[Any, Any, Any]]:
    """Episodes whose steps go to one of ten neighbours; and the columns s, a and s'."""
    rng = np.random.default_rng(seed)
    length = 1000
    state = np.empty((rows // length, length + 1), dtype=np.int64)
    state[:, 0] = rng.integers(states, size=len(state))
    action = rng.integers(actions, size=(len(state), length))
    for t in range(length):
        state[:, t + 1] = (state[:, t] + action[:, t] + rng.integers(-3, 4, size=len(state))) % states
    ends = np.zeros(action.shape, dtype=np.bool_)
    ends[:, -1] = True
    here, there, action = state[:, :-1].ravel(), state[:, 1:].ravel(), action.ravel()
    rewards = (here % 7 + action).astype(np.float64)
    data = ov.LoggedDataset.from_arrays(here, action, rewards, there, truncated=ends.ravel())
    return data, (here, action, there)


def _finite(rows: int, actions: int = 4) -> Figures:
    """Run vpm on finite states in memory, 100 rows to each."""
    states = rows // 100
    data, (here, action, there) = _finite_log(rows, states, 0)
    table = np.tile(np.array([0.4, 0.3, 0.2, 0.1]), (states, 1))
    counting = []
    for _ in range(3):
        start = time.process_time()
        sparse.coo_array((np.ones(rows), (here * actions + action, there)), shape=(states * actions, states)).tocsr()
        counting.append(time.process_time() - start)
    ov.evaluate(data.select(slice(10)), table, "vpm", gamma=0.99, ignore=IGNORED)  # loads what is lazy
    value, seconds, megabytes = _counted(data, table)
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "scipy_seconds": round(median(counting), 2),
        "ratio": round(seconds / median(counting), 1),
        "added_megabytes": round(megabytes),
        "value": value.value,
    }


def _small() -> Figures:
    """The CPU seconds of vpm on 2000 rows, the median of five calls."""
    data, (policy, *_) = _log(2000), _policies()
    times = []
    for _ in range(6):
        start = time.process_time()
        ov.evaluate(data, policy, "vpm", gamma=0.99, ignore=IGNORED)
        times.append(time.process_time() - start)
    return {"seconds": round(median(times[1:]), 3)}  # the first call loads what is lazy


IGNORED = ("flags-confused", "one-row-off")
"""Findings of the doctor that logs of episodes cut at one length may bring."""


def _log(rows: int, seed: int = 0) -> ov.LoggedDataset:
    """Episodes of a stable linear system under a noisy linear controller, in float32 as simulators log them."""
    rng = np.random.default_rng(seed)
    episodes = max(rows // LENGTH, 1)
    drift, push, gain = _system()
    states = np.empty((episodes, LENGTH + 1, STATE), dtype=np.float32)
    actions = np.empty((episodes, LENGTH, ACTION), dtype=np.float32)
    states[:, 0] = rng.standard_normal((episodes, STATE))
    for t in range(LENGTH):
        actions[:, t] = states[:, t] @ gain + 0.5 * rng.standard_normal((episodes, ACTION))
        states[:, t + 1] = states[:, t] @ drift + actions[:, t] @ push + 0.3 * rng.standard_normal((episodes, STATE))
    ends = np.zeros((episodes, LENGTH), dtype=np.bool_)
    ends[:, -1] = True
    here, there = states[:, :-1].reshape(-1, STATE), states[:, 1:].reshape(-1, STATE)
    taken = actions.reshape(-1, ACTION)
    rewards = here[:, 0].astype(np.float64) - 0.1 * np.square(taken, dtype=np.float64).sum(axis=1)
    return ov.LoggedDataset.from_arrays(here, taken, rewards, there, truncated=ends.ravel())


def _system() -> tuple[Any, Any, Any]:
    """The matrices of the system and of the controller that logs."""
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.standard_normal((STATE, STATE)))[0]
    return 0.8 * rotation, 0.2 * rng.standard_normal((ACTION, STATE)), 0.1 * rng.standard_normal((STATE, ACTION))


def _policies() -> list[GaussianPolicy]:
    """Three Gaussian controllers near to the one that logs, one shifted, one with another gain, one less noisy."""
    _, _, gain = _system()
    choices = ((gain, 0.1, 0.5), (1.2 * gain, 0.0, 0.5), (gain, 0.0, 0.45))
    return [
        GaussianPolicy(lambda s, k=k, shift=shift, std=std: (s @ k + shift, std), action_dimension=ACTION)
        for k, shift, std in choices
    ]


def _pass_seconds(rows: int) -> float:
    """The CPU seconds of the unit on that many rows, from the median of seven batches that are already there."""
    rng = np.random.default_rng(0)
    phi, change = rng.standard_normal((BATCH, FEATURES)), rng.standard_normal((BATCH, STATE_FEATURES))
    durations = []
    for _ in range(7):
        start = time.process_time()
        _ = phi.T @ phi, phi.T @ change
        durations.append(time.process_time() - start)
    return median(durations) * rows / BATCH


def _start_of_memory() -> float:
    """The memory of this process in MB; its peak is counted from here on, where the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak_memory()
    return _status("VmRSS")


def _peak_memory() -> float:
    """The largest memory of this process in MB."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _status(name: str) -> float:
    """An entry of Linux's record of this process, in MB; 0 elsewhere."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


def draw(figures: Figures, path: Path) -> None:
    """Draw time and memory against rows."""
    figure, (left, right) = panels(1, 2)
    measured = list(figures["vpm"].values())
    rows = [each["rows"] for each in measured]
    left.loglog(rows, [each["seconds"] for each in measured], "C3o-", label="vpm")
    left.loglog(rows, [each["pass_seconds"] for each in measured], "C7--", label="one float64 pass")
    left.set(xlabel="rows", ylabel="CPU seconds", title="time")
    left.legend()
    right.loglog(rows, [max(each["added_megabytes"], 1) for each in measured], "C3o-")
    right.set(xlabel="rows", ylabel="MB added", title="memory beside the log")
    for suffix in (path.suffix, ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)
