"""Where jobs run: processes of this machine, or a Ray cluster. Both yield results as they finish."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from ope_vpm.leaderboard.jobs import Job, Result, compute
from ope_vpm.leaderboard.words import unknown
from ope_vpm.optional import library

BACKENDS = ("loky", "ray")
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""One thread a job: jobs fill the cores better than threads of one job do."""
RETRIES = 5
"""How often Ray tries a job again whose node or process died."""
DIED = "WorkerDied: the process that ran this cell ended without an answer (out of memory?)"


def run(
    jobs: Iterable[Job],
    *,
    backend: str = "loky",
    workers: int | None = None,
    address: str | None = None,
    folder: str | None = None,
) -> Iterator[tuple[Job, Result]]:
    """Every job with its result, in the order in which they finish.

    Args:
        jobs: what to compute; taken one by one, when a worker is free.
        backend: "loky" for processes of this machine, "ray" for a cluster.
        workers: how many jobs at once; as many as there are cores, if not given.
        address: of the Ray cluster, as `ray.init` takes it; None starts one on this machine.
        folder: where slow data are kept, see `compute`.
    """
    check(backend, workers)
    if backend == "ray":
        return _ray(iter(jobs), None if address else folder, workers, address)  # other machines have other disks
    return _loky(iter(jobs), folder, workers or os.cpu_count() or 1)


def check(backend: str, workers: int | None) -> None:
    """Refuse, before anything is made, a backend that is not there."""
    if backend not in BACKENDS:
        raise ValueError(unknown("backend", backend, BACKENDS))
    if workers is not None and workers < 1:
        raise ValueError(f"there must be at least one job at a time: got {workers}")
    if backend == "ray":
        library("ray", "ray")


def _loky(jobs: Iterator[Job], folder: str | None, workers: int) -> Iterator[tuple[Job, Result]]:
    """If a process dies, the jobs that were under way run again, one at a time: the one that kills it is found."""
    suspects: list[Job] = []
    while fallen := (yield from _pool(jobs, folder, workers, 2 * workers)):  # one more each: nobody waits for us
        suspects += fallen
    alone = iter(suspects)
    while fallen := (yield from _pool(alone, folder, 1, 1)):
        yield fallen[0], Result(fallen[0].key, error=DIED)


def _pool(
    jobs: Iterator[Job], folder: str | None, workers: int, at_once: int
) -> Generator[tuple[Job, Result], None, list[Job]]:
    """Run jobs until none is left or a process dies; returns those that were under way then."""
    executor = ProcessPoolExecutor(max_workers=workers, env=THREADS, initializer=_prepare)
    running: dict[Future[Result], Job] = {}
    try:
        while True:
            while len(running) < at_once and (job := next(jobs, None)) is not None:
                running[executor.submit(compute, job, folder)] = job
            if not running:
                return []
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                result = future.result()
                yield running.pop(future), result
    except BrokenProcessPool:
        return list(running.values())
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _prepare() -> None:
    """One thread; and Ctrl-C is for the parent to answer."""
    import signal

    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _ray(
    jobs: Iterator[Job], folder: str | None, workers: int | None, address: str | None
) -> Iterator[tuple[Job, Result]]:
    """Plain tasks, which outlive the node they ran on."""
    ray = library("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        cores = {} if address else {"num_cpus": workers or os.cpu_count()}
        path = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        ray.init(
            address=address,
            runtime_env={"env_vars": THREADS | path},
            log_to_driver=False,
            include_dashboard=False,
            **cores,
        )
    task = ray.remote(max_retries=RETRIES, num_cpus=1)(compute)
    running: dict[Any, Job] = {}
    try:
        while True:
            at_once = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
            while len(running) < 2 * at_once and (job := next(jobs, None)) is not None:
                running[task.remote(job, folder)] = job
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            for reference in done:
                job = running.pop(reference)
                yield job, _ray_result(ray, reference, job)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if ours:
            ray.shutdown()


def _ray_result(ray: Any, reference: Any, job: Job) -> Result:
    try:
        result: Result = ray.get(reference)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError):
        return Result(job.key, error=DIED)
    return result
