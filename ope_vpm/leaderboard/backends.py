"""Where jobs run: processes of this machine, or a Ray cluster. Both yield results as they finish."""

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from ope_vpm.leaderboard.compute import compute_group
from ope_vpm.leaderboard.jobs import Job, Result
from ope_vpm.leaderboard.workers import prepare
from ope_vpm.logged.scan import THREADS, start_ray
from ope_vpm.optional import library
from ope_vpm.suggestions import unknown

BACKENDS = ("loky", "ray")
RETRIES = 3
"""How often Ray tries a group again whose node or process died; each try starts a process, which takes seconds."""
DIED = "WorkerDied: the process that ran this cell ended without an answer (out of memory?)"

Group = Sequence[Job]
"""Jobs with the same data, policy and γ."""
Answers = Iterator[tuple[Job, Result]]


class Waiting:
    """Groups to run: what was put back first, then the others, taken one by one."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._others = iter(groups)
        self._back: deque[Group] = deque()

    def take(self) -> Group | None:
        """The next group; None where there is none."""
        return self._back.popleft() if self._back else next(self._others, None)

    def put_back(self, group: Group) -> None:
        """Jobs that a worker has left for later."""
        if group:
            self._back.append(group)


def run(
    groups: Iterable[Group],
    *,
    backend: str = "loky",
    workers: int | None = None,
    address: str | None = None,
    folder: str | None = None,
) -> Answers:
    """Every job with its result, in the order in which they finish.

    Args:
        groups: what to compute, see `grouped`; taken one by one, when a worker is free.
        backend: "loky" for processes of this machine, "ray" for a cluster.
        workers: how many groups at once; as many as there are cores, if not given.
        address: of the Ray cluster, as `ray.init` takes it; without it RAY_ADDRESS, or one is started on this machine.
        folder: where slow data are kept, see `Shared`.
    """
    check(backend, workers)
    if backend == "ray":
        return _ray(groups, None if address else folder, workers, address)  # other machines have other disks
    return _loky(groups, folder, workers or os.cpu_count() or 1)


def check(backend: str, workers: int | None) -> None:
    """Refuse, before anything is made, a backend that is not there."""
    if backend not in BACKENDS:
        raise ValueError(unknown("backend", backend, BACKENDS))
    if workers is not None and workers < 1:
        raise ValueError(f"there must be at least one job at a time: got {workers}")
    if backend == "ray":
        library("ray", "ray")


def _loky(groups: Iterable[Group], folder: str | None, workers: int) -> Answers:
    """If a process dies, the jobs that were under way run again one by one, to find the one that kills it.

    First in groups of one on all workers, then, what was under way at a death again, each alone.
    """
    fallen = yield from _through(groups, folder, workers)
    suspects = fallen if workers == 1 else (yield from _through(((job,) for job in fallen), folder, workers))
    alone = Waiting((job,) for job in suspects)
    while last := (yield from _pool(alone, folder, 1, 1)):
        yield last[0], Result(last[0].key, error=DIED)


def _through(
    groups: Iterable[Group], folder: str | None, workers: int
) -> Generator[tuple[Job, Result], None, list[Job]]:
    """Run all groups, in new processes after each death; returns the jobs that were under way at one."""
    waiting, fallen = Waiting(groups), []
    while under_way := (yield from _pool(waiting, folder, workers, 2 * workers)):  # one more each: nobody waits for us
        fallen += under_way
    return fallen


def _pool(
    waiting: Waiting, folder: str | None, workers: int, at_once: int
) -> Generator[tuple[Job, Result], None, list[Job]]:
    """Run groups until none is left or a process dies; returns the jobs that were under way then."""
    executor = ProcessPoolExecutor(max_workers=workers, env=THREADS, initializer=prepare, initargs=(os.getpid(),))
    running: dict[Future[list[Result]], Group] = {}
    try:
        while True:
            while len(running) < at_once and (group := waiting.take()) is not None:
                running[executor.submit(compute_group, group, folder)] = group
            if not running:
                return []
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                results = future.result()
                yield from _matched(running.pop(future), results, waiting)
    except BrokenProcessPool:
        return [job for group in running.values() for job in group]
    finally:
        executor.shutdown(wait=True, kill_workers=True)


def _matched(group: Group, results: Sequence[Result], waiting: Waiting) -> Answers:
    """The jobs of a group beside their results; those that have none wait again."""
    waiting.put_back(group[len(results) :])
    yield from zip(group, results, strict=False)


def _ray(groups: Iterable[Group], folder: str | None, workers: int | None, address: str | None) -> Answers:
    """Plain tasks, which outlive the node they ran on; jobs of a group that dies again and again run singly."""
    ray = library("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        _start_ray(ray, workers, address)
    task = ray.remote(max_retries=RETRIES, num_cpus=1)(compute_group)
    waiting, running = Waiting(groups), dict[Any, Group]()
    try:
        while True:
            at_once = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
            while len(running) < 2 * at_once and (group := waiting.take()) is not None:
                running[task.remote(group, folder)] = group
            if not running:
                return
            for reference in ray.wait(list(running), num_returns=1)[0]:
                yield from _ray_answers(ray, reference, running.pop(reference), waiting)
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if ours:
            ray.shutdown()


def _start_ray(ray: Any, workers: int | None, address: str | None) -> None:
    address = address or os.environ.get("RAY_ADDRESS")
    cores = {} if address else {"num_cpus": workers or os.cpu_count()}
    # Without "local" Ray would join whatever cluster was started last on this machine.
    start_ray(ray, address=address or "local", **cores)


def _ray_answers(ray: Any, reference: Any, group: Group, waiting: Waiting) -> Answers:
    """A group's results; if every try ended with its process, its jobs wait singly, and a single one has failed."""
    ends = ray.exceptions
    try:
        results: list[Result] = ray.get(reference)
    except (ends.WorkerCrashedError, ends.NodeDiedError, ends.OutOfMemoryError, ends.ObjectLostError):
        if len(group) == 1:
            yield group[0], Result(group[0].key, error=DIED)
        else:
            for job in group:
                waiting.put_back((job,))
        return
    yield from _matched(group, results, waiting)
