"""Files and objects of other libraries, found by what they hold; one module a format.

To add one: write a module with `read(source, options) -> LoggedDataset` (and `matches(source)` for objects),
name it in `FORMATS`, and teach `sniff` its first bytes. Other packages offer such modules, with both functions, by
entry points in the group `ope_vpm.formats`: they are asked about objects that we do not know, and about files whose
name does not promise a format of ours.
"""

import glob
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ope_vpm import others
from ope_vpm.logged.dataset import LoggedDataset
from ope_vpm.logged.formats import (
    csv,
    d3rlpy,
    d4rl,
    imitation,
    minari,
    npz,
    open_bandit,
    parquet,
    parquet_stream,
    parts,
    sb3,
)
from ope_vpm.logged.formats.files import Options
from ope_vpm.logged.spaces import Space
from ope_vpm.logged.streamed import StreamedDataset
from ope_vpm.optional import library
from ope_vpm.outside import check_place, check_regular, reading, write_whole

FORMATS: dict[str, ModuleType] = {
    "npz": npz,
    "parquet": parquet,
    "csv": csv,
    "open-bandit": open_bandit,
    "d3rlpy": d3rlpy,
    "d4rl": d4rl,
    "minari": minari,
    "sb3": sb3,
    "imitation": imitation,
    "parts": parts,
}
MAPPED = ("npz", "parquet", "csv", "open-bandit")
"""Formats whose columns have names of the user's own."""
OBJECTS = (d3rlpy, minari, sb3, imitation)
WRITERS: dict[str, Callable[[LoggedDataset, Path], None]] = {
    ".npz": npz.write,
    ".parquet": parquet.write,
    ".h5": d3rlpy.write,
}


def load_dataset(
    source: Any,
    *,
    format: str | None = None,  # noqa: A002 - the public name
    columns: Mapping[str, str | Sequence[str]] | None = None,
    trust: bool = False,
    mmap: bool = False,
    observation_space: Space | None = None,
    action_space: Space | None = None,
) -> LoggedDataset:
    """Logged data from a file, a Minari id or folder, or an object of another library, all of it in memory.

    Args:
        source: a path; a Minari id; a d3rlpy, Minari or stable-baselines3 object; imitation trajectories; or a folder,
            a pattern such as `logs/*.parquet` or a list of Parquet files, as in `scan_dataset`.
        format: one of `FORMATS`; found by content if not given.
        columns: names of the columns of a table or an .npz, as in `{"observations": ["x", "y"], "rewards": "score"}`.
        trust: allow unpickling, which runs whatever code the file holds, and sizes far beyond that of the file.
        mmap: leave the columns of an .npz on disk.
        observation_space: where the file does not tell, or tells it wrong.
        action_space: likewise; the doctor checks the actions against it.
    """
    if isinstance(source, LoggedDataset):
        return source
    if isinstance(source, StreamedDataset):
        return source.read()
    if format is not None and _reader(format) is None:
        raise ValueError(f"format must be one of {', '.join(others.names(others.FORMATS, FORMATS))}: got {format!r}")
    options = Options(columns, trust, mmap, observation_space, action_space)
    if format in (None, "parquet") and _is_several(source):
        return _read_several(source, options)
    if not isinstance(source, str | Path):
        return _read_object(source, format, options)
    path = Path(source).expanduser()
    if not path.exists() and parts.folder_of(path).is_dir():
        path = parts.folder_of(path)  # a log whose writer was killed before it was finished
    if not path.exists():
        if isinstance(source, str) and (format == "minari" or minari.matches(source)):
            with reading(path, "a Minari dataset"):
                return minari.read(source, options)
        raise FileNotFoundError(f"there is no file {path} (nor does it read like a Minari id)")
    if not path.is_dir():
        check_regular(path)
    if format is None:
        foreign = None if path.suffix.lower() in SUFFIXES else others.found(others.FORMATS, path)
        format = sniff(path) if foreign is None else foreign[0]  # noqa: A001
        check_name(path, format)
    if format == "parquet":
        return _read_several(path, options)
    return _read_file(path, format, options)


def save(data: LoggedDataset, path: str | Path) -> None:
    """Write a dataset to .npz, .parquet or .h5 (d3rlpy's, without states after last steps), whole or not at all."""
    suffix = Path(path).suffix
    if suffix not in WRITERS:
        raise ValueError(f"the name must end in .npz, .parquet or .h5: got {Path(path).name!r}")
    write_whole(path, lambda temporary: WRITERS[suffix](data, temporary))


def save_as(data: LoggedDataset, output: str) -> None:
    """Write to a file by its ending, or to a new local Minari dataset by its id."""
    if _is_minari(output):
        data.to_minari(output)
    else:
        save(data, output)


def check_output(output: str) -> None:
    """Refuse, before any work, what `save_as` could not write to."""
    path = Path(output)
    if _is_minari(output):
        return
    if path.suffix not in WRITERS:
        raise ValueError(f"the output must end in {', '.join(WRITERS)} or be a Minari id such as a/b-v0: got {output}")
    check_place(path)


def _is_minari(output: str) -> bool:
    return Path(output).suffix not in WRITERS and minari.matches(output)


def _read_object(source: object, name: str | None, options: Options) -> LoggedDataset:
    for module in OBJECTS if name is None else (_reader(name),):
        if (module in OBJECTS or name not in FORMATS) and module.matches(source):
            return module.read(source, options)
    foreign = others.found(others.FORMATS, source) if name is None else None
    if foreign is not None:
        return _checked(foreign[1].read(source, options), foreign[0])
    raise TypeError(
        f"a {type(source).__name__} is not a dataset we know: give a path, a Minari id, a d3rlpy, Minari or "
        "stable-baselines3 object, or use LoggedDataset.from_arrays"
    )


def _is_several(source: object) -> bool:
    """Whether it is a list of paths, or a pattern of them."""
    if isinstance(source, list | tuple):
        return bool(source) and all(isinstance(each, str | Path) for each in source)
    return isinstance(source, str | Path) and glob.has_magic(str(source)) and not Path(source).expanduser().exists()


def _read_several(source: Any, options: Options) -> LoggedDataset:
    """A Parquet file of any name, or several of them, by the one reader of such files."""
    from ope_vpm.logged.scan import parquet_files, scanned  # which asks this module about files that are not Parquet

    single = isinstance(source, Path) and source.is_file()
    files = [parquet_stream.ParquetFile(str(source))] if single else parquet_files(source)
    return scanned(parquet_stream.ParquetSource.of(files or [], options)).read()


def _read_file(path: Path, name: str, options: Options) -> LoggedDataset:
    if options.columns and name in FORMATS and name not in MAPPED:
        raise ValueError(f"columns= is for files of {', '.join(MAPPED)}: {path} is of {name}, whose names are fixed")
    with reading(path, name):
        return _checked(_reader(name).read(path, options), name)


def _reader(name: str) -> Any:
    """Our module of that name, or another package's; None where there is none."""
    return FORMATS.get(name) or others.named(others.FORMATS, name)


def _checked(data: Any, name: str) -> LoggedDataset:
    if not isinstance(data, LoggedDataset):
        raise TypeError(f"the format {name!r} must read a LoggedDataset: it returned a {type(data).__name__}")
    return data


SUFFIXES = {
    ".npz": {"npz"},
    ".parquet": {"parquet"},
    ".csv": {"csv", "open-bandit"},
    ".h5": {"d3rlpy", "d4rl", "minari"},
    ".hdf5": {"d3rlpy", "d4rl", "minari"},
    ".pkl": {"sb3"},
    ".pickle": {"sb3"},
}
"""The formats that a name promises; other names promise nothing."""

KNOWN = "npz, Parquet, CSV, HDF5 of d3rlpy, D4RL or Minari, or a pickled replay buffer"


def sniff(path: Path) -> str:
    """The format's name, from the first bytes and, for containers, the names inside."""
    if path.is_dir():
        return _folder(path)
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise ValueError(f"{path} is empty: it must be {KNOWN}")
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return _hdf5(path)
    if head.startswith(b"PK\x03\x04"):
        return _zip(path)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[0] == 0x80 and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:
        return "sb3"
    if _is_text(head) and b"," in head.splitlines()[0]:
        return "open-bandit" if open_bandit.matches(path) else "csv"
    raise ValueError(f"{path} is of no format we know: it must be {KNOWN}")


def check_name(path: Path, found: str) -> None:
    """Refuse a file whose name promises another format than it holds."""
    promised = SUFFIXES.get(path.suffix.lower())
    if path.is_file() and promised is not None and found not in promised:
        raise ValueError(
            f"{path} is not what its name says: it holds {found} (rename it, or pass format={found!r} if that is right)"
        )


def _folder(path: Path) -> str:
    if any((path / name).is_file() for name in ("data/main_data.hdf5", "main_data.hdf5", "data/metadata.json")):
        return "minari"
    if parts.matches(path):
        return "parts"
    if open_bandit.matches(path):
        return "open-bandit"
    if any(each.is_file() for each in path.rglob("*.parquet")):
        return "parquet"
    raise ValueError(
        f"{path} is a folder, and not one of a Minari dataset, an Open Bandit campaign or Parquet files: give a file"
    )


def _hdf5(path: Path) -> str:
    with reading(path, "HDF5"), library("h5py", "d3rlpy").File(path, "r") as file:
        links = file.id.links  # asked of the links: h5py's own `in` would follow them into other files
        if links.exists(b"num_episodes") or links.exists(b"episode_terminals"):
            return "d3rlpy"
        return "minari" if any(name.startswith("episode_") for name in file) else "d4rl"


def _zip(path: Path) -> str:
    with reading(path, "an archive"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any(name.endswith(".npy") for name in names):
        return "npz"
    if "policy.pth" in names:
        raise ValueError(f"{path} is a policy, not logged data: load it with load_policy")
    raise ValueError(f"{path} is an archive without arrays: it must be {KNOWN}")


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4 and b"\x00" not in head
    return b"\x00" not in head
