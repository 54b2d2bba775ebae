"""What `python -m benchmarks scale` runs in processes of their own: one function for each kind of row."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy import sparse

import ope_vpm as ov
from benchmarks._scale_logs import ACTION, IGNORED, files, finite_log, log, policies, system, written
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.ope.problem import Problem
from ope_vpm.ope.vpm.estimator import DRAWS, POWER, solve_factored
from ope_vpm.optional import library
from ope_vpm.policy import GaussianPolicy

FEATURES, STATE_FEATURES = 634, 418
"""The unit's features: 1 + 17 + 400 of the state, and 12 functions of the action times 1 and the 17 coordinates."""
BATCH = 4096
"""Rows of one matrix product."""
BATCHES = 7
"""Products of which the unit is the median, before a call and again after it."""
STATES = 10_000
"""States of the finite logs that are read in parts."""

Figures = dict[str, Any]


def call(rows: int, estimator: str, from_files: bool = False) -> Figures:
    """One call: its time in CPU seconds and in passes, its memory in MB, and its value."""
    (policy, *_) = policies()
    data = ov.scan_dataset(files(rows)).read() if from_files else log(rows)
    ov.evaluate(log(2000), policy, estimator, ignore=IGNORED)  # loads what is lazy
    unit, before = batch_seconds(), start_of_memory()
    start = time.process_time()
    value = ov.evaluate(data, policy, estimator, gamma=0.99, ignore=IGNORED)
    seconds, added = time.process_time() - start, peak_memory() - before
    whole = median(unit + batch_seconds()) * rows / BATCH
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "pass_seconds": round(whole, 2),
        "passes": round(seconds / whole, 2),
        "added_megabytes": round(added),
        "value": value.value,
        "standard_error": value.standard_error,
    }


def stream(rows: int) -> Figures:
    """One call on Parquet files that are read in parts: time, and the memory that it adds."""
    folder, (policy, *_) = files(rows), policies()
    ov.evaluate(log(2000), policy, "vpm", ignore=IGNORED)
    before, start, begun = start_of_memory(), time.process_time(), time.perf_counter()
    value = ov.evaluate(folder, policy, "vpm", gamma=0.99, ignore=IGNORED)
    seconds, wall = time.process_time() - start, time.perf_counter() - begun
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "wall_seconds": round(wall, 2),
        "rows_per_second": round(rows / seconds),
        "added_megabytes": round(peak_memory() - before),
        "value": value.value,
        "standard_error": value.standard_error,
    }


def on_ray(rows: int, workers: int) -> Figures:
    """One call on Ray with so many workers, after a first one that starts them."""
    from ope_vpm.logged.scan import THREADS as ONE_THREAD

    folder, (policy, *_) = files(rows), policies()
    runtime = {"env_vars": {**ONE_THREAD, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}}
    library("ray", "ray").init(
        num_cpus=workers, include_dashboard=False, log_to_driver=False, runtime_env=runtime, configure_logging=False
    )
    data = ov.scan_dataset(folder, backend="ray")
    ov.evaluate(data, policy, "naive", ignore=IGNORED)
    begun = time.perf_counter()
    value = ov.evaluate(data, policy, "vpm", gamma=0.99, ignore=IGNORED)
    return {"rows": rows, "wall_seconds": round(time.perf_counter() - begun, 2), "value": value.value}


def questions(rows: int, estimator: str, targets: int = 1, gammas: int = 1) -> Figures:
    """What each further policy or discount of one call costs, from calls with one of them and with all."""
    data, asked, discounts = log(rows), policies()[:targets], [0.99, 0.9, 0.95][:gammas]
    ov.evaluate(log(2000), asked[0], estimator, ignore=IGNORED)

    def seconds(some: list[Any], at: Any) -> float:
        start = time.process_time()
        ov.evaluate(data, some, estimator, gamma=at, ignore=IGNORED)
        return time.process_time() - start

    first = seconds(asked[:1], discounts[0])
    whole = seconds(asked, discounts if gammas > 1 else discounts[0])
    further = (whole - first) / (targets * gammas - 1)
    return {"first_seconds": round(first, 2), "further_seconds": round(further, 2), "ratio": round(further / first, 3)}


def second_call(rows: int, calls: int = 3) -> Figures:
    """A call of `auto` on a small log, and of vpm, when all is loaded, in units of vpm's solution alone; medians."""
    (policy, *_), data = policies(), log(rows)
    asked = {
        "auto": lambda: ov.evaluate(data, policy, "auto", gamma=0.99, ignore=IGNORED),
        "vpm": lambda: ov.evaluate(data, policy, "vpm", gamma=0.99, ignore=IGNORED),
        "core": lambda: solve_factored(
            Problem.pose(data, policy, gamma=0.99, ignore=IGNORED), None, None, POWER, DRAWS
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in asked}
    for call in range(calls + 1):
        for name, ask in asked.items():
            start = time.process_time()
            ask()
            seconds[name] += [time.process_time() - start] if call else []
    figures = {name: round(median(each), 3) for name, each in seconds.items()}
    return {"rows": rows, **figures, "auto in cores": round(figures["auto"] / figures["core"], 2)}


def twenty(rows: int, jobs: int, number: int = 20) -> Figures:
    """Twenty policies by `select`, raced and not, in calls of `ov.evaluate`: CPU time, and the time on the wall."""
    data, asked = log(rows), alike(number)
    first = next(iter(asked.values()))
    ov.evaluate(log(2000), first, "auto", ignore=IGNORED)
    figures: Figures = {"rows": rows, "jobs": jobs}
    times = {}
    for name, run in {
        "call": lambda: ov.evaluate(data, first, "auto", gamma=0.99, ignore=IGNORED),
        "raced": lambda: ov.select(data, asked, gamma=0.99, ignore=IGNORED, jobs=jobs),
        "all": lambda: ov.select(data, asked, gamma=0.99, ignore=IGNORED, jobs=jobs, race=False),
    }.items():
        start, begun = time.process_time(), time.perf_counter()
        found = run()
        times[name] = time.process_time() - start, time.perf_counter() - begun
        figures[f"{name}_seconds"], figures[f"{name}_wall_seconds"] = (round(each, 2) for each in times[name])
        if name == "raced":
            figures["answered in full"] = sum(not each.screened for each in found.candidates)
    for name in ("raced", "all"):
        figures[f"{name} in calls"] = round(times[name][0] / times["call"][0], 2)
    return figures


def alike(number: int) -> dict[str, Any]:
    """Controllers from the one that logs towards one with a gain and a half, by name."""
    _, _, gain = system()
    factors = np.linspace(1, 1.5, number)
    return {f"{k:.3f}": GaussianPolicy(lambda s, k=k: (s @ (k * gain), 0.5), action_dimension=ACTION) for k in factors}


def twenty_in_parts(rows: int, number: int = 20) -> Figures:
    """Twenty policies with few features on a log that is read in parts: passes over it, and the memory they add."""
    passes: list[float] = []
    parts = StreamedDataset.parts

    def counted(self: StreamedDataset, only: Any = None) -> Any:
        passes.append(1.0 if only is None else len(only) / self.count)
        return parts(self, only)

    folder, asked = files(rows), alike(number)
    StreamedDataset.parts = counted  # type: ignore[method-assign]
    figures: Figures = {"rows": rows, "policies": number}
    before = start_of_memory()
    for name, some in (("one", dict(list(asked.items())[:1])), ("all", asked)):
        passes.clear()
        start = time.process_time()
        ov.evaluate(folder, some, "auto", gamma=0.99, ignore=IGNORED, n_features=40)
        figures[f"{name}_passes"], figures[f"{name}_seconds"] = sum(passes), round(time.process_time() - start, 1)
        figures[f"{name}_added_megabytes"] = round(peak_memory() - before)
    return figures


def peer(name: str) -> Figures:
    """A comparison of `benchmarks._fqe_peers`."""
    from benchmarks import _fqe_peers

    figures: Figures = getattr(_fqe_peers, name)()
    return figures


def finite_stream(rows: int, in_memory: bool = False) -> Figures:
    """One call on finite states in Parquet files that are read in parts, or first into memory."""
    folder = written(rows, "finite", lambda size, seed: finite_log(size, STATES, seed)[0], 1_000_000)
    table = np.tile(np.array([0.4, 0.3, 0.2, 0.1]), (STATES, 1))
    data = ov.scan_dataset(folder).read() if in_memory else folder
    ov.evaluate(finite_log(10_000, 100, 0)[0], table, "vpm", gamma=0.99, ignore=IGNORED)  # loads what is lazy
    value, seconds, megabytes = _counted(data, table)
    return {
        "rows": rows,
        "seconds": round(seconds, 2),
        "rows_per_second": round(rows / seconds),
        "added_megabytes": round(megabytes),
        "value": value.value,
        "standard_error": value.standard_error,
    }


def finite(rows: int, actions: int = 4) -> Figures:
    """Run vpm on finite states in memory, 100 rows to each, in units of scipy's conversion of as many entries."""
    states = rows // 100
    data, (here, action, there) = finite_log(rows, states, 0)
    table = np.tile(np.array([0.4, 0.3, 0.2, 0.1]), (states, 1))
    ov.evaluate(data.select(slice(10)), table, "vpm", gamma=0.99, ignore=IGNORED)  # loads what is lazy
    counting, calls, ratios, megabytes = [], [], [], 0.0
    for _ in range(3):
        start = time.process_time()
        sparse.coo_array((np.ones(rows), (here * actions + action, there)), shape=(states * actions, states)).tocsr()
        counting.append(time.process_time() - start)
        value, seconds, added = _counted(data, table)
        calls.append(seconds)
        ratios.append(round(seconds / counting[-1], 1))
        megabytes = max(megabytes, added)
    return {
        "rows": rows,
        "seconds": round(median(calls), 2),
        "scipy_seconds": round(median(counting), 2),
        "ratio": median(ratios),
        "ratios": ratios,
        "added_megabytes": round(megabytes),
        "value": value.value,
    }


def _counted(data: Any, table: Any) -> tuple[ov.PolicyValue, float, float]:
    """What `vpm` says of a finite log, its CPU time, and the megabytes that it added."""
    before, start = start_of_memory(), time.process_time()
    value = ov.evaluate(data, table, "vpm", gamma=0.99, ignore=IGNORED)
    return value, time.process_time() - start, peak_memory() - before


def small() -> Figures:
    """The CPU seconds of vpm on 2000 rows, the median of five calls."""
    data, (policy, *_) = log(2000), policies()
    times = []
    for _ in range(6):
        start = time.process_time()
        ov.evaluate(data, policy, "vpm", gamma=0.99, ignore=IGNORED)
        times.append(time.process_time() - start)
    return {"seconds": round(median(times[1:]), 3)}  # the first call loads what is lazy


def batch_seconds() -> list[float]:
    """The CPU seconds of the unit on batches that are already there."""
    rng = np.random.default_rng(0)
    phi, change = rng.standard_normal((BATCH, FEATURES)), rng.standard_normal((BATCH, STATE_FEATURES))
    durations = []
    for _ in range(BATCHES):
        start = time.process_time()
        _ = phi.T @ phi, phi.T @ change
        durations.append(time.process_time() - start)
    return durations


def start_of_memory() -> float:
    """The memory of this process in MB; its peak is counted from here on, where the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return peak_memory()
    return _status("VmRSS")


def peak_memory() -> float:
    """The largest memory of this process in MB."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _status(name: str) -> float:
    """An entry of Linux's record of this process, in MB; 0 elsewhere."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)
