"""A log in parts on a Ray cluster: the same function of the same parts, in tasks, and their results merged.

Plain tasks are tried again on another node when theirs dies (actors and pools of them are not). A task takes a run of
parts, reads them where it runs, and sends back one merged result, so that what travels does not grow with the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ope_vpm.logged.episode_marks import EpisodeMarks, find_episodes, marks
from ope_vpm.logged.episode_table import EpisodeTable
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.parquet_stream import TableSource
from ope_vpm.logged.merging import Result, merged
from ope_vpm.logged.source import Source
from ope_vpm.logged.streamed import StreamedDataset, head_of
from ope_vpm.optional import library

RETRIES = 3
"""How often a task is tried again after its process or its node died."""
TASKS_PER_CORE = 4
"""Runs of parts for each core: a node that dies loses one run in four, and the last task keeps few cores waiting."""
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A task has one core."""


@dataclass(frozen=True, eq=False)
class RayDataset(StreamedDataset):
    """A streamed log whose passes run as tasks of Ray; where Ray is not running yet, one is started here."""

    def total(
        self, function: Callable[..., Result], *settings: Any, title: str = "reading", only: Sequence[int] | None = None
    ) -> Result:
        """As `StreamedDataset.total`, by tasks; their results are merged in a tree, by tasks as well."""
        ray = started()
        local = StreamedDataset(self.source, self.table, self.head, None, self.facts, self.part_rows, self.charge)
        log, asked = ray.put(local), ray.put((function, settings))
        task = ray.remote(max_retries=RETRIES, num_cpus=1)(_run)
        numbers = np.asarray(range(self.count) if only is None else only)
        if len(numbers) == 0:
            raise ValueError("the log is empty: it needs at least one step")
        runs = np.array_split(numbers, min(len(numbers), most_tasks(ray)))
        waiting = [task.remote(log, asked, run.tolist()) for run in runs if len(run)]
        root = merged_in_tree(ray, waiting)
        if self.progress is not None:
            told = self.progress(title, len(self))
            for done in range(1, len(waiting) + 1):
                ray.wait(waiting, num_returns=done, fetch_local=False)
                told(len(self) * done // len(waiting))
        found: Result = ray.get(root)
        return found


def most_tasks(ray: Any) -> int:
    """How many tasks a pass is cut into."""
    return TASKS_PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1)))


def merged_in_tree(ray: Any, results: list[Any]) -> Any:
    """A reference to all results merged, neighbours first, then what these gave: log₂ of their number deep.

    What the driver receives is one result, however many tasks there are, and those of one level are merged at once,
    wherever they lie. A result that is lost with its node is computed again from the log.
    """
    task = ray.remote(max_retries=RETRIES, num_cpus=1)(_merged)
    while len(results) > 1:
        last = results[len(results) - len(results) % 2 :]
        results = [task.remote(*results[k : k + 2]) for k in range(0, len(results) - 1, 2)] + last
    return results[0]


def _merged(one: Result, other: Result) -> Result:
    """One task: two results that follow one another."""
    both: Result = one.merge(other)
    return both


def _run(log: StreamedDataset, asked: tuple[Callable[..., Result], tuple[Any, ...]], numbers: list[int]) -> Result:
    """One task: the merged results of some parts."""
    function, settings = asked
    return merged(log.parts(numbers), function, settings, None)


def started() -> Any:
    """Ray, once it runs."""
    ray = library("ray", "ray")
    if not ray.is_initialized():
        path = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        ray.init(runtime_env={"env_vars": THREADS | path}, log_to_driver=False, include_dashboard=False)
    return ray


def scanned_on_ray(source: Source, progress: Any = None) -> RayDataset:
    """Find the episodes in tasks, each over a run of rows, and look at the first rows."""
    return RayDataset(source, _find_episodes(source), head_of(source), progress)


def _find_episodes(source: Source) -> EpisodeTable:
    """As `find_episodes`; a task sends back a few numbers for each episode of its rows."""
    ray = started()
    task, held = ray.remote(max_retries=RETRIES, num_cpus=1)(marks), ray.put(source)
    count = min(source.rows, most_tasks(ray))
    bounds = [source.rows * k // count for k in range(count + 1)]
    found = ray.get([task.remote(held, first, last) for first, last in pairwise(bounds)])
    return find_episodes(source) if found[0] is None else EpisodeMarks.joined(found).refuse_turns().table()


@dataclass(frozen=True)
class BlockSource(TableSource):
    """The blocks of a `ray.data.Dataset`, each a table that lies somewhere in the cluster."""

    blocks: tuple[Any, ...] = ()

    @classmethod
    def of(cls, dataset: Any, options: Options) -> BlockSource:
        """The blocks in the order of the rows; what makes them is run once."""
        ray = started()
        dataset.context.execution_options.preserve_order = True  # rows are in the order of time
        blocks = dataset.to_arrow_refs()
        heads = ray.get([ray.remote(_head).remote(block) for block in blocks])
        kept = [(block, *head) for block, head in zip(blocks, heads, strict=True) if head[0]]
        if not kept:
            raise ValueError("the Ray dataset has no rows: a log needs at least one step")
        bounds = tuple(np.cumsum([0, *(rows for _, rows, _ in kept)]).tolist())
        names, options = cls.checked([(f"block {k}", schema) for k, (_, _, schema) in enumerate(kept)], options)
        return cls(bounds, names, options, tuple(block for block, _, _ in kept))

    def named(self, row: int) -> str:
        """The block that holds a row."""
        return f"block {self.place(row)} of the Ray dataset"

    def tables_of(self, number: int, first: int, last: int, columns: Sequence[str]) -> Iterator[Any]:
        """Rows of one block."""
        ray = started()
        if len(columns) < len(self.columns):  # few columns are sent, not the block
            yield ray.get(ray.remote(_some).remote(self.blocks[number], first, last, list(columns)))
        else:
            yield _some(ray.get(self.blocks[number]), first, last, list(columns))


def _some(block: Any, first: int, last: int, columns: list[str]) -> Any:
    return block.select(columns).slice(first, last - first)


def _head(block: Any) -> tuple[int, Any]:
    return len(block), block.schema
