"""Open a log that may be larger than memory: files are looked through for episodes, and nothing is kept."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.episode_marks import find_episodes
from ope_vpm.logged.formats import load_dataset
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.formats.parquet_stream import ParquetFile, ParquetSource, in_order
from ope_vpm.logged.source import Source
from ope_vpm.logged.spaces import Space
from ope_vpm.logged.streamed import StreamedDataset, head_of
from ope_vpm.optional import is_from

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
        from ope_vpm.logged.ray_stream import BlockSource, scanned_on_ray

        return scanned_on_ray(BlockSource.of(source, options), progress)
    files = parquet_files(source)
    if files is None:
        spaces: dict[str, Any] = {"observation_space": observation_space, "action_space": action_space}
        return load_dataset(source, columns=columns, trust=trust, **spaces)
    found = ParquetSource.of(files, options)
    if backend == "local":
        return scanned(found, progress)
    from ope_vpm.logged.ray_stream import scanned_on_ray

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
