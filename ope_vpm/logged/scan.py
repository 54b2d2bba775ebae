"""Open a log that may be larger than memory: files are looked through for episodes, and nothing is kept.

On a Ray cluster the same function of the same parts runs in tasks, whose results are merged. Plain tasks are tried
again on another node when theirs dies (actors and pools of them are not). A task takes a run of parts, reads them where
it runs, and sends back one merged result, so that what travels does not grow with the rows.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode_marks import EpisodeMarks, EpisodeTable, find_episodes, marks
from ope_vpm.logged.formats import load_dataset
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.parquet_stream import ParquetFile, ParquetSource, TableSource, in_order
from ope_vpm.logged.spaces import Space
from ope_vpm.logged.streamed import StreamedDataset, head_of
from ope_vpm.logged.sums import Result, Source, merged
from ope_vpm.optional import is_from, library

Dataset = LoggedDataset | StreamedDataset


def scan_dataset(
    source: Any,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    trust: bool = False,
    observation_space: Space | None = None,
    action_space: Space | None = None,
    backend: str = "local",
    progress: Any = None,
) -> Dataset:
    """A log of Parquet files that is read in parts, however long it is.

    Args:
        source: a file, a folder of them, a pattern such as `logs/*.parquet`, a list of files in the order of time, a
            `pyarrow.dataset`, or a `ray.data.Dataset`. Files of a folder or a pattern are taken in the order of their
            names, part-2 before part-10. What is no Parquet is read whole by `load_dataset`.
        columns: names of the columns, as in `load_dataset`.
        trust: allow files that claim to hold far more than their size.
        observation_space: where the files do not tell.
        action_space: likewise.
        backend: "local", or "ray" for a cluster whose machines all see the files; what `ray.init` has started is
            used. A `ray.data.Dataset` is worked on there in any case.
        progress: see `StreamedDataset`.
    """
    if backend not in ("local", "ray"):
        raise ValueError(f"backend must be 'local' or 'ray': got {backend!r}")
    if isinstance(source, LoggedDataset | StreamedDataset):
        return source
    options = Options(columns, trust, observation_space=observation_space, action_space=action_space)
    if is_from(source, "ray"):
        return scanned_on_ray(BlockSource.of(source, options), progress)
    files = parquet_files(source)
    if files is None:
        spaces: dict[str, Any] = {"observation_space": observation_space, "action_space": action_space}
        return load_dataset(source, columns=columns, trust=trust, **spaces)
    found = ParquetSource.of(files, options)
    if backend == "local":
        return scanned(found, progress)

    return scanned_on_ray(found, progress)


def open_dataset(
    source: str, short: int, format_name: str | None, backend: str, progress: Any, **given: Any
) -> Dataset:
    """Open a log by its name: Parquet of more than `short` rows in parts, or on a cluster; anything else in memory.

    Args:
        source: a file, a folder, a pattern, or an id of Minari's.
        short: rows up to which a log is read whole.
        format_name: the format, where it is not to be recognised.
        backend: see `scan_dataset`.
        progress: see `StreamedDataset`.
        given: further arguments of `scan_dataset` and `load_dataset`, which both have.
    """
    if format_name in (None, "parquet") and parquet_files(source) is not None:
        found = scan_dataset(source, backend=backend, progress=progress, **given)
        return found.read() if isinstance(found, StreamedDataset) and len(found) <= short else found
    if backend != "local":
        raise ValueError(f"--backend {backend} is for Parquet files, and {source} is none")
    return load_dataset(source, format=format_name, **given)


def parquet_files(source: Any) -> list[ParquetFile] | None:
    """The Parquet files that are meant; None where something else is."""
    if is_from(source, "pyarrow"):
        return _fragments(source)
    if isinstance(source, str | Path):
        return _named(source)
    if isinstance(source, list | tuple) and source and all(isinstance(each, str | Path) for each in source):
        found = [_named(each) for each in source]
        for each, files in zip(source, found, strict=True):
            if files is None:
                raise ValueError(f"{each} is no Parquet file: a log of several files is read from Parquet only")
        return [file for files in found for file in files or []]
    return None


def _named(source: str | Path) -> list[ParquetFile] | None:
    path = Path(source).expanduser()
    if (path / "meta" / "info.json").is_file():
        path = path / "data"  # a dataset of LeRobot's, whose other Parquet files hold no steps
    if path.is_dir():
        paths = [each for each in path.rglob("*.parquet") if each.is_file()]
    elif path.exists():
        return [ParquetFile(str(path))] if path.suffix.lower() == ".parquet" else None
    elif glob.has_magic(str(path)):
        paths = [Path(each) for each in glob.glob(str(path), recursive=True)]
        if not paths:
            raise FileNotFoundError(f"no file fits {path}")
        others = [each for each in paths if each.suffix.lower() != ".parquet"]
        if others:
            raise ValueError(f"{others[0]} is no Parquet file: a log of several files is read from Parquet only")
    else:
        return None
    return [ParquetFile(str(each)) for each in in_order(paths)] or None


def _fragments(source: Any) -> list[ParquetFile]:
    """The files of a `pyarrow.dataset`."""
    if not hasattr(source, "get_fragments"):
        raise TypeError(
            f"a {type(source).__name__} is not a log that is read in parts: give files or a pyarrow.dataset"
        )
    return [ParquetFile(each.path, each.filesystem) for each in source.get_fragments()]


def scanned(source: Source, progress: Any = None) -> StreamedDataset:
    """Find the episodes in a pass over their ends, and look at the first rows."""
    return StreamedDataset(source, find_episodes(source), head_of(source), progress)


RETRIES = 3
"""How often a task is tried again after its process or its node died."""
TASKS_PER_CORE = 4
"""Runs of parts for each core: a node that dies loses one run in four, and the last task keeps few cores waiting."""
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A task has one core."""


@dataclass(frozen=True, eq=False)
class RayDataset(StreamedDataset):
    """A streamed log whose passes run as tasks of Ray; where Ray is not running yet, one is started here."""

    def passed(
        self, function: Callable[..., Result], *settings: Any, title: str = "reading", only: Sequence[int] | None = None
    ) -> Result:
        """As `StreamedDataset.passed`, by tasks; their results are merged in a tree, by tasks as well."""
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
        return ray.get(root)


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
    return one.merge(other)


def _run(log: StreamedDataset, asked: tuple[Callable[..., Result], tuple[Any, ...]], numbers: list[int]) -> Result:
    """One task: the merged results of some parts."""
    function, settings = asked
    return merged(log.parts(numbers), function, settings, None)


def started() -> Any:
    """The ray module, after a cluster was started where none is running."""
    ray = library("ray", "ray")
    if not ray.is_initialized():
        start_ray(ray)
    return ray


def start_ray(ray: Any, **options: Any) -> None:
    """Start or join a cluster whose processes have one thread each, and find this package where ours does."""
    path = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    runtime = {"env_vars": THREADS | path}
    ray.init(runtime_env=runtime, log_to_driver=False, include_dashboard=False, **options)


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
